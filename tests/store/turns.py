"""Turns to store: short ways to begin, end and read them in tests."""

from typing import Any

import msgspec
from msgspec import Raw
from sqlalchemy import Executable

from app.protocol.ids import item_id, new_id
from app.store.database import Database
from app.store.exact import ExactIds, pack
from app.store.items import with_ids
from app.store.store import ResponseStore
from app.store.turn import NewTurn


async def value(database: Database, query: Executable) -> Any:
    """The one value that a query reads."""
    return await database.read(lambda connection: connection.execute(query).scalar_one())


OWNER = "process-of-the-tests"


def user(text: str, **fields: Any) -> Raw:
    return Raw(msgspec.json.encode({"type": "message", "role": "user", "content": text, **fields}))


def answer(response_id: str, text: str) -> Raw:
    return Raw(
        msgspec.json.encode(
            {
                "type": "message",
                "id": item_id("msg", response_id, 0),
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
        )
    )


def new_turn(text: str = "hello", *, input: list[Raw] | None = None, **fields: Any) -> NewTurn:
    response_id = fields.pop("id", None) or new_id("resp")
    given = with_ids([user(text)] if input is None else input, response_id)
    body = {"id": response_id, "object": "response", "status": fields.get("status", "in_progress"), "output": []}
    body |= fields.pop("extra", {})
    return NewTurn(
        **{
            "id": response_id,
            "model": "demo",
            "input": given,
            "body": msgspec.json.encode(body),
            "owner": OWNER,
            **fields,
        }
    )


async def complete(
    store: ResponseStore,
    text: str = "hello",
    *,
    output: list[Raw] | None = None,
    exact: ExactIds | None = None,
    status: str = "completed",
    **fields: Any,
) -> str:
    """A whole turn: begun and ended. Returns its id."""
    turn = new_turn(text, **fields)
    begun = await store.begin(turn)
    assert begun.repeated is None
    body = msgspec.json.encode({**msgspec.json.decode(turn.body), "status": status})
    given = [answer(turn.id, f"re: {text}")] if output is None else output
    packed = None
    if exact is not None:
        before = None
        if turn.previous_id is not None:
            before = (await store.resolve(turn.previous_id, with_ids=True)).exact
        packed = pack(exact, before)
    assert await store.finish(turn.id, status=status, body=body, output=given, exact=packed)
    return turn.id


def texts(items: list[Raw]) -> list[str]:
    """The text of each message, whichever way its content is written."""
    found = []
    for item in items:
        content = msgspec.json.decode(item)["content"]
        found.append(content if isinstance(content, str) else "".join(part["text"] for part in content))
    return found


def ids(items: list[Raw]) -> list[str]:
    return [msgspec.json.decode(item)["id"] for item in items]
