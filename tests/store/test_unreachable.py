"""A database that cannot be reached: its calls answer 503, and all is well again when it is back."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from app.errors import StartupError
from app.store.database import Database
from tests.models import BUILT

from .conftest import POSTGRES
from .served import END, THOUGHT, Served, serve

pytestmark = pytest.mark.skipif(not BUILT, reason="no tokenizer data packages (make test installs them)")


@pytest.fixture(scope="module")
def served(store_url: str) -> Iterator[Served]:
    with serve(store_url) as running:
        yield running


def test_what_needs_the_store_answers_503_and_the_rest_goes_on(served: Served) -> None:
    served.says(f"{THOUGHT}Hi.{END}")
    made = served.post(input="q")

    def refuse(*_: Any) -> None:
        raise OperationalError("BEGIN", {}, Exception("the server is away: password=secret"))

    event.listen(Engine, "before_cursor_execute", refuse)
    try:
        for method, path, body in (
            ("GET", f"/responses/{made['id']}", None),
            ("POST", "/responses", {"model": "m", "input": "x"}),
            ("POST", "/responses", {"model": "m", "input": "x", "stream": True}),
            ("POST", "/responses", {"model": "m", "input": "x", "previous_response_id": made["id"]}),
            ("POST", "/conversations", {}),
        ):
            failed = served.call(method, path, json=body)
            assert failed.status_code == 503, failed.text
            assert failed.json()["error"]["type"] == "server_error"
            assert failed.json()["error"]["code"] == "store_unavailable"
            assert "secret" not in failed.text
        unstored = served.post(input="x", store=False)
        assert unstored["status"] == "completed"
    finally:
        event.remove(Engine, "before_cursor_execute", refuse)
    assert served.call("GET", f"/responses/{made['id']}").json() == made
    served.post(input="again", previous_response_id=made["id"])


@pytest.mark.parametrize(("driver", "url"), [("aiosqlite", "sqlite+aiosqlite://"), ("asyncpg", POSTGRES)])
def test_a_driver_that_is_missing_is_named(driver: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(StartupError, match=f"pip install {driver}"):
        Database(url)
