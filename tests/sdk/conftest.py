"""One server over the tokenizer, template and formats of Qwen3, its engine scripted by each test."""

from collections.abc import Iterator

import pytest

from tests.models import BUILT, model_directory
from tests.sdk.live import Live, live, served


@pytest.fixture(scope="session")
def session_server() -> Iterator[Live]:
    if not BUILT:
        pytest.skip("no tokenizer data packages (make test installs them)")
    with live([served(model_directory("qwen3"), tool_format="hermes", reasoning_format="qwen3")]) as server:
        yield server


@pytest.fixture
def server(session_server: Live) -> Iterator[Live]:
    """The server; when the test is over nothing may be left of its requests."""
    yield session_server
    session_server.close()
    if session_server.engine is not None:
        assert session_server.idle(), (session_server.engine.running, session_server.tasks())
