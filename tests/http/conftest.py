"""A server over a real tokenizer and a scripted engine, for the tests of the HTTP shell."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from app.asgi import create_app
from tests.models import BUILT, model_directory

Serve = Callable[..., TestClient[Any]]


@pytest.fixture(scope="session")
def model_folder() -> Path:
    if not BUILT:
        pytest.skip("no tokenizer data packages (make test installs them)")
    return model_directory("qwen3")


@contextmanager
def serving(folder: Path, environ: dict[str, str]) -> Iterator[TestClient[Any]]:
    """A client of an app with these settings, by their environment names."""
    settings = {
        "ISTHMUS_CONFIG": os.devnull,
        "ISTHMUS_MODELS": f'[{{"name": "m", "source": "{folder}", "tokenizer": "hf"}}]',
        "ISTHMUS_DATABASE_URL": "",
        **environ,
    }
    with ExitStack() as stack:
        # The settings are read once, at start-up; other tests must not see them.
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            client = stack.enter_context(TestClient(create_app(), raise_server_exceptions=False))
        yield client


@pytest.fixture
def serve(model_folder: Path) -> Iterator[Serve]:
    """Start an app with further settings by their environment names."""
    with ExitStack() as stack:
        yield lambda **environ: stack.enter_context(serving(model_folder, environ))


@pytest.fixture(scope="session")
def client(model_folder: Path) -> Iterator[TestClient[Any]]:
    """One server for all tests that only ask it."""
    with serving(model_folder, {}) as client:
        yield client
