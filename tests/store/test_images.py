"""Images in stored turns: the next turn is rendered as if all had been sent inline, and the store holds them once."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select

from app.multimodal.encoded import json_body
from app.store.blobs import LARGE
from app.store.database import Database
from app.store.revision import create_at_head
from app.store.tables import blobs, conversation_items, turns
from app.store.transfer import export_lines, import_lines
from tests.models import BUILT, model_directory
from tests.multimodal.pictures import picture_url

from .served import Served, serve
from .turns import value

pytestmark = pytest.mark.skipif(
    "qwen2.5-vl" not in BUILT, reason="no tokenizer data packages (make test installs them)"
)

END = "<|im_end|>"
SMALL, LARGE_URL = picture_url(56, 56, 1), picture_url(168, 196, 2)
SHOWN = "?order=asc&include[]=message.input_image.image_url"


def models() -> str:
    return json.dumps([{"name": "m", "source": str(model_directory("qwen2.5-vl")), "tokenizer": "hf"}])


@pytest.fixture(scope="module")
def served(store_url: str) -> Iterator[Served]:
    with serve(store_url, ISTHMUS_MODELS=models()) as running:
        yield running


def message(text: str, *urls: str) -> dict[str, Any]:
    images = [{"type": "input_image", "image_url": url, "detail": "auto"} for url in urls]
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}, *images]}


def rendered(served: Served, **body: Any) -> dict[str, Any]:
    """What the stateless endpoint makes of a request."""
    reply = served.call("POST", "/responses/render", json={"model": "m", **body})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def asked(served: Served) -> dict[str, Any]:
    """The engine's last prompt, on the wire."""
    found: dict[str, Any] = msgspec.json.decode(bytes(json_body(served.engine.requests[-1])))
    return found


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one["token_ids"] == other["token_ids"]
    assert one["features"] == other["features"]


def count(url: str, query: Any) -> Any:
    async def look() -> Any:
        database = Database(url, pool_size=1)
        try:
            return await value(database, query)
        finally:
            await database.close()

    return asyncio.run(look())


def test_the_next_turn_sees_the_image_as_if_it_were_sent_again(served: Served, store_url: str) -> None:
    assert len(LARGE_URL) > LARGE > len(SMALL)
    served.says(f"A noise.{END}", f"Another.{END}", f"Both.{END}")
    first = served.post(input=[message("Look.", SMALL, LARGE_URL)])
    once = asked(served)
    assert len(once["features"]["mm_placeholders"]["image"]) == 2
    given = [message("Look.", SMALL, LARGE_URL), *first["output"]]
    same(
        rendered(served, input="And?", previous_response_id=first["id"]),
        rendered(served, input=[*given, message("And?")]),
    )
    second = served.post(input=[message("And this?", LARGE_URL)], previous_response_id=first["id"])
    given.append(message("And this?", LARGE_URL))
    same(asked(served), rendered(served, input=given))
    assert asked(served)["features"]["mm_hashes"]["image"][:2] == once["features"]["mm_hashes"]["image"]
    third = served.stream(input="Which?", previous_response_id=second["id"])[-1]["response"]
    given += [*second["output"], message("Which?")]
    same(asked(served), rendered(served, input=given))
    # One blob, however often it was sent; the small one stays in its item.
    assert count(store_url, select(func.count()).select_from(blobs)) == 1
    assert count(store_url, select(func.max(func.length(turns.c.input)))) < LARGE
    listed = served.call("GET", f"/responses/{third['id']}/input_items{SHOWN}").json()["data"]
    urls = [part["image_url"] for item in listed for part in item["content"] if part["type"] == "input_image"]
    assert urls == [SMALL, LARGE_URL, LARGE_URL]
    hidden = served.call("GET", f"/responses/{third['id']}/input_items?order=asc").json()["data"]
    assert [part["image_url"] for item in hidden for part in item["content"] if part["type"] == "input_image"] == [
        None
    ] * 3
    # What is listed can be sent again by hand, and is the same prompt.
    again = [*listed, *third["output"], message("Sure?")]
    same(rendered(served, input=again), rendered(served, input="Sure?", previous_response_id=third["id"]))


def test_a_conversation_keeps_its_images(served: Served, store_url: str) -> None:
    served.says(f"A noise.{END}", f"Yes.{END}")
    talk = served.call("POST", "/conversations", json={"items": [message("Before.", LARGE_URL)]}).json()["id"]
    first = served.post(input=[message("Look.", SMALL, LARGE_URL)], conversation=talk)
    served.post(input="Sure?", conversation=talk)
    given = [message("Before.", LARGE_URL), message("Look.", SMALL, LARGE_URL), *first["output"], message("Sure?")]
    same(asked(served), rendered(served, input=given))
    assert count(store_url, select(func.max(func.length(conversation_items.c.body)))) < LARGE
    listed = served.call("GET", f"/conversations/{talk}/items{SHOWN}").json()["data"]
    urls = [part["image_url"] for item in listed for part in item["content"] if part["type"] == "input_image"]
    assert urls == [LARGE_URL, SMALL, LARGE_URL]
    one = served.call("GET", f"/conversations/{talk}/items/{listed[0]['id']}").json()
    assert one["content"][1]["image_url"] is None
    shown = served.call("GET", f"/conversations/{talk}/items/{listed[0]['id']}{SHOWN}").json()
    assert shown["content"][1]["image_url"] == LARGE_URL


def test_an_exported_image_is_seen_by_another_store(served: Served, store_url: str, tmp_path: Path) -> None:
    served.says(f"A noise.{END}")
    first = served.post(input=[message("Look.", LARGE_URL)])
    other = f"sqlite+aiosqlite:///{tmp_path / 'other.db'}"

    async def move() -> None:
        source, target = Database(store_url, pool_size=1), Database(other, pool_size=1)
        try:
            await create_at_head(target)
            await import_lines(target, [line async for line in export_lines(source)])
        finally:
            await source.close()
            await target.close()

    asyncio.run(move())
    expected = rendered(served, input="And?", previous_response_id=first["id"])
    with serve(other, ISTHMUS_MODELS=models()) as elsewhere:
        elsewhere.says(f"Yes.{END}")
        elsewhere.post(input="And?", previous_response_id=first["id"])
        same(asked(elsewhere), expected)
        listed = elsewhere.call("GET", f"/responses/{first['id']}/input_items{SHOWN}").json()["data"]
        assert listed[0]["content"][1]["image_url"] == LARGE_URL
