"""A vision model's directory without weights, and a server of it."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from litestar.testing import TestClient

from app.asgi import create_app
from tests.models import BUILT, model_directory

settings.register_profile("multimodal", deadline=None)
settings.load_profile("multimodal")


@pytest.fixture(scope="session")
def vision_folder() -> Path:
    if "qwen2.5-vl" not in BUILT:
        pytest.skip("no tokenizer data packages (make test installs them)")
    return model_directory("qwen2.5-vl")


@pytest.fixture(scope="session")
def serve_vision(vision_folder: Path) -> Iterator[Callable[..., TestClient[Any]]]:
    """Start a server of the model ``vl`` with further settings by their environment names."""
    with ExitStack() as stack:

        def start(**environ: str) -> TestClient[Any]:
            own = {
                "ISTHMUS_CONFIG": os.devnull,
                "ISTHMUS_MODELS": json.dumps([{"name": "vl", "source": str(vision_folder), "tokenizer": "hf"}]),
                "ISTHMUS_DATABASE_URL": "",
                **environ,
            }
            with pytest.MonkeyPatch.context() as patch:
                for name, value in own.items():
                    patch.setenv(name, value)
                return stack.enter_context(TestClient(create_app(), raise_server_exceptions=False))

        yield start


@pytest.fixture(scope="session")
def vision_client(serve_vision: Callable[..., TestClient[Any]]) -> TestClient[Any]:
    """One server for all tests that only ask it."""
    return serve_vision()
