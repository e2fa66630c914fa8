"""Over HTTP: a foreign id is the unknown one to the byte, an unstored turn leaves nothing, a key repeats."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from app.store.database import Database
from app.store.tables import metadata
from tests.models import BUILT

from .served import END, THOUGHT, TOOLS, Served, serve, until

pytestmark = pytest.mark.skipif(not BUILT, reason="no tokenizer data packages (make test installs them)")
UNKNOWN = "0" * 48


@pytest.fixture(scope="module")
def served(store_url: str) -> Iterator[Served]:
    with serve(store_url) as running:
        yield running


def rows(url: str) -> dict[str, int]:
    """Rows of every table (leases come and go by the clock)."""

    async def count() -> dict[str, int]:
        database = Database(url, pool_size=1)
        try:
            return {
                name: await database.read(
                    lambda c, table=table: c.execute(select(func.count()).select_from(table)).scalar()
                )
                for name, table in metadata.tables.items()
                if name != "leases"
            }
        finally:
            await database.close()

    return asyncio.run(count())


CALLS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("GET", "/responses/{response}", None),
    ("GET", "/responses/{response}?stream=true", None),
    ("GET", "/responses/{response}?stream=true&starting_after=3", None),
    ("DELETE", "/responses/{response}", None),
    ("POST", "/responses/{response}/cancel", None),
    ("GET", "/responses/{response}/input_items", None),
    ("GET", "/responses/{response}/input_items?after={item}", None),
    ("POST", "/responses", {"input": "x", "previous_response_id": "{response}"}),
    ("POST", "/responses", {"input": "x", "previous_response_id": "{response}", "stream": True}),
    ("POST", "/responses", {"input": "x", "previous_response_id": "{response}", "background": True}),
    ("POST", "/responses", {"input": "x", "previous_response_id": "{response}", "store": False}),
    ("POST", "/responses", {"input": [{"type": "item_reference", "id": "{item}"}]}),
    ("POST", "/responses", {"input": [{"id": "{item}"}]}),
    ("POST", "/responses", {"input": "x", "conversation": "{conversation}"}),
    ("POST", "/responses", {"input": "x", "conversation": {"id": "{conversation}"}}),
    ("POST", "/responses/render", {"input": "x", "previous_response_id": "{response}"}),
    ("POST", "/responses/render", {"input": "x", "conversation": "{conversation}"}),
    ("POST", "/responses/input_tokens", {"input": "x", "previous_response_id": "{response}"}),
    ("POST", "/responses/compact", {"input": "x", "previous_response_id": "{response}"}),
    ("GET", "/conversations/{conversation}", None),
    ("POST", "/conversations/{conversation}", {"metadata": {"k": "v"}}),
    ("DELETE", "/conversations/{conversation}", None),
    ("GET", "/conversations/{conversation}/items", None),
    ("POST", "/conversations/{conversation}/items", {"items": [{"role": "user", "content": "x"}]}),
    ("GET", "/conversations/{conversation}/items/{item}", None),
    ("DELETE", "/conversations/{conversation}/items/{item}", None),
]


def filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        for key, name in names.items():
            value = value.replace("{" + key + "}", name)
        return value
    if isinstance(value, dict):
        return {key: filled(inner, names) for key, inner in value.items()}
    return [filled(inner, names) for inner in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def mine(served: Served) -> dict[str, str]:
    """Things of tenant a, one of them a background run with its events."""
    served.says(f"{THOUGHT}Hi.{END}")
    response = served.post(input="secret", background=True)["id"]
    found = until(lambda: (one := served.call("GET", f"/responses/{response}").json())["status"] == "completed" and one)
    talk = served.call("POST", "/conversations", json={"items": [{"role": "user", "content": "secret"}]}).json()["id"]
    return {"response": response, "conversation": talk, "item": found["output"][-1]["id"]}


@pytest.mark.parametrize(("method", "path", "body"), CALLS, ids=lambda value: str(value)[:70])
def test_a_foreign_id_is_an_unknown_one_to_the_byte(
    served: Served, mine: dict[str, str], method: str, path: str, body: dict[str, Any] | None
) -> None:
    unknown = {"response": f"resp_{UNKNOWN}", "conversation": f"conv_{UNKNOWN}", "item": f"msg_{UNKNOWN}"}

    def ask(names: dict[str, str]) -> httpx.Response:
        sent = None if body is None else {"model": "m", **filled(body, names)}
        if sent is not None and "/conversations" in path:
            sent.pop("model")
        return served.call(method, filled(path, names), "key-b", json=sent)

    foreign, absent = ask(mine), ask(unknown)
    assert foreign.status_code == absent.status_code >= 400
    expected = absent.text
    for kind, name in unknown.items():
        expected = expected.replace(name, mine[kind])
    assert foreign.text == expected
    for header in ("content-type", "content-length"):
        if len(foreign.content) == len(absent.content):
            assert foreign.headers.get(header) == absent.headers.get(header)


def test_nothing_of_anothers_was_touched(served: Served, mine: dict[str, str]) -> None:
    for key in ("key-a", "key-a2"):
        assert served.call("GET", f"/responses/{mine['response']}", key).status_code == 200
        listed = served.call("GET", f"/conversations/{mine['conversation']}/items", key).json()
        assert len(listed["data"]) == 1
        assert served.call("GET", f"/conversations/{mine['conversation']}", key).json()["metadata"] == {}


def test_b69_an_unstored_turn_leaves_nothing(served: Served, store_url: str) -> None:
    """ogx#5304, smg PR #916: store=false still persisted."""
    served.says(f"{THOUGHT}Hi.{END}")
    parent = served.post(input="kept")["id"]
    picture = "data:text/plain;base64," + "A" * 200_000
    before = rows(store_url)
    for fields in ({}, {"stream": True}, {"previous_response_id": parent}, {"tools": TOOLS}, {"metadata": {"k": "v"}}):
        body = {"input": f"secret {picture}", "store": False, "max_output_tokens": 50, **fields}
        unstored = served.stream(**body)[-1]["response"] if "stream" in fields else served.post(**body)
        assert unstored["store"] is False
        assert served.call("GET", f"/responses/{unstored['id']}").status_code == 404
        chained = {"model": "m", "input": "x", "previous_response_id": unstored["id"]}
        assert served.call("POST", "/responses", json=chained).status_code == 400
        reference = {"model": "m", "input": [{"type": "item_reference", "id": unstored["output"][-1]["id"]}]}
        assert served.call("POST", "/responses", json=reference).status_code == 404
    refused = served.call("POST", "/responses", json={"model": "m", "input": "x", "store": False, "background": True})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "background"
    for path in ("/responses/render", "/responses/input_tokens"):
        body = {"model": "m", "input": "x", "previous_response_id": parent}
        assert served.call("POST", path, json=body).status_code == 200
    assert rows(store_url) == before


def test_b68_the_third_turn_has_its_tools(served: Served) -> None:
    """vllm agentic-api#86: each turn keeps the request that it was made with."""
    served.says(f"{THOUGHT}Hi.{END}")
    previous = None
    for number in range(3):
        made = served.post(input=f"q{number}", tools=TOOLS, previous_response_id=previous, temperature=0.5)
        assert '"name": "f"' in served.prompt()
        stored = served.call("GET", f"/responses/{made['id']}").json()
        assert stored["tools"][0]["name"] == "f"
        assert stored["temperature"] == 0.5
        previous = made["id"]


def test_b70_what_was_told_as_completed_is_committed(served: Served, store_url: str) -> None:
    """ogx#4115, PR #4118: seen by another connection the moment the client sees the event."""

    async def status(name: str) -> Any:
        database = Database(store_url, pool_size=1)
        try:
            query = select(metadata.tables["responses"].c.status).where(metadata.tables["responses"].c.id == name)
            return await database.read(lambda connection: connection.execute(query).scalar())
        finally:
            await database.close()

    served.says(f"{THOUGHT}Hi.{END}")
    for _ in range(5):
        with served.a.responses.create(model="m", input="q", stream=True) as events:
            for event in events:
                if event.type == "response.completed":
                    assert asyncio.run(status(event.response.id)) == "completed"


@pytest.mark.parametrize("salt", ["", "/", "a@b", "..\\x", "\0", "x" * 129])
def test_b72_a_salt_that_could_kill_an_engine_is_refused(served: Served, salt: str) -> None:
    """vllm PR #51444."""
    for path in ("/responses", "/responses/render"):
        refused = served.call("POST", path, json={"model": "m", "input": "x", "cache_salt": salt})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "cache_salt"


def test_each_tenant_has_a_salt_of_its_own(served: Served) -> None:
    engine = served.says(f"{THOUGHT}Hi.{END}")
    for key in ("key-a", "key-a2", "key-b"):
        for salt in (None, "mine"):
            body = {"model": "m", "input": "x", "cache_salt": salt}
            assert served.call("POST", "/responses", key, json=body).status_code == 200
    chat = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    assert served.call("POST", "/chat/completions", json=chat).status_code == 200
    salts = [request.cache_salt for request in engine.requests]
    assert all(salts)
    assert salts[:2] == salts[2:4]
    assert salts[6] == salts[0]
    assert len({*salts}) == 4


def test_a_key_makes_a_call_repeatable(served: Served) -> None:
    served.says(f"{THOUGHT}Hi.{END}", delay_s=0.02)
    headers = {"Idempotency-Key": "again", "Authorization": "Bearer key-a"}

    def send(text: str = "q", **fields: Any) -> httpx.Response:
        body = {"model": "m", "input": text, **fields}
        return httpx.post(f"{served.base}/responses", headers=headers, json=body, trust_env=False, timeout=60)

    with ThreadPoolExecutor(8) as threads:
        at_once = list(threads.map(lambda _: send(), range(8)))
    answered = [reply.json() for reply in at_once if reply.status_code == 200]
    assert {reply.status_code for reply in at_once} <= {200, 409}
    assert len({reply["id"] for reply in answered}) == 1
    assert {reply.json()["error"]["code"] for reply in at_once if reply.status_code == 409} <= {
        "idempotency_key_in_use"
    }
    assert send().json() == answered[0]
    other = send("other")
    assert other.status_code == 409
    assert other.json()["error"]["code"] == "idempotency_key_reused"
    headers["Authorization"] = "Bearer key-b"
    theirs = send()
    assert theirs.status_code == 200
    assert theirs.json()["id"] != answered[0]["id"]
