"""A store to JSON lines and back: threads with their turns, conversations with their items, and their blobs.

One line is one blob, thread or conversation, whole: a copy that breaks off half-way has no half of one. Items stay
JSON, so that the file can be read; bytes are base64. Running turns, event logs and leases stay behind.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from sqlalchemy import Connection, Select, Table, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from app.errors import InvalidRequest
from app.store import blobs
from app.store.database import Database
from app.store.tables import HEAD, conversation_items, conversations, responses, threads, turns
from app.store.tables import blobs as blob_table
from app.store.turn import ENDED

__all__ = ("Imported", "export_lines", "import_lines")

BATCH = 50


class Head(Struct, frozen=True, tag="isthmus-store"):
    """The first line: which tables the others were read from."""

    revision: str


class BlobLine(Struct, frozen=True, tag="blob"):
    """``data`` is the JSON string between its quotes."""

    tenant: str
    sha256: bytes
    data: bytes


class TurnLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One response with its turn; times in Unix milliseconds."""

    id: str
    depth: int
    model: str
    status: str
    created_at: int
    body: Raw
    input: Raw
    output: Raw
    previous_id: str | None = None
    conversation_id: str | None = None
    background: bool = False
    finished_at: int | None = None
    idempotency_key: str | None = None
    request_hash: bytes | None = None
    shared_ids: int | None = None
    prompt_ids: bytes | None = None
    completion_ids: bytes | None = None


class ThreadLine(Struct, frozen=True, tag="thread"):
    """A thread and its ended turns."""

    id: str
    tenant: str
    created_at: int
    expires_at: int | None
    turns: list[TurnLine]


class ItemLine(Struct, frozen=True):
    """One item at its place."""

    position: int
    id: str
    body: Raw


class ConversationLine(Struct, frozen=True, tag="conversation"):
    """A conversation and its items."""

    id: str
    tenant: str
    created_at: int
    metadata: Raw
    items: list[ItemLine]


class Imported(Struct):
    """What an import wrote; what was there already is not counted and not touched."""

    threads: int = 0
    responses: int = 0
    conversations: int = 0
    blobs: int = 0


_decode = msgspec.json.Decoder(Head | BlobLine | ThreadLine | ConversationLine).decode
_encode = msgspec.json.Encoder().encode


async def export_lines(database: Database, *, tenant: str | None = None) -> AsyncIterator[bytes]:
    """Yield a store as lines (without their ends), of one tenant or of all."""
    yield _encode(Head(HEAD))
    for table, lines_of in ((threads, _thread_lines), (conversations, _conversation_lines)):
        after: str | None = ""
        while after is not None:
            lines, after = await database.read(_next, table, lines_of, tenant, after)
            for line in lines:
                yield line


def _next(
    connection: Connection,
    table: Table,
    lines_of: Callable[[Connection, Sequence[Any]], list[bytes]],
    tenant: str | None,
    after: str,
) -> tuple[list[bytes], str | None]:
    """The lines of the table's next rows, and after which id to go on; None at the end."""
    query = select(table).where(table.c.id > after).order_by(table.c.id).limit(BATCH)
    if tenant is not None:
        query = query.where(table.c.tenant_id == tenant)
    rows = connection.execute(query).all()
    return lines_of(connection, rows), rows[-1].id if rows else None


def _thread_lines(connection: Connection, rows: Sequence[Any]) -> list[bytes]:
    ids = [row.id for row in rows]
    inside = _turns(connection, ids)
    lines = _blobs(connection, "response_id", select(responses.c.id).where(responses.c.thread_id.in_(ids)))
    for row in rows:
        if found := inside.get(row.id):
            lines.append(_encode(ThreadLine(row.id, row.tenant_id, row.created_at, row.expires_at, found)))
    return lines


def _conversation_lines(connection: Connection, rows: Sequence[Any]) -> list[bytes]:
    ids = [row.id for row in rows]
    lines = _blobs(connection, "conversation_id", ids)
    listed: dict[str, list[ItemLine]] = {}
    for item in connection.execute(_ITEMS_OF, {"ids": ids}).all():
        listed.setdefault(item.conversation_id, []).append(ItemLine(item.position, item.id, Raw(item.body)))
    for row in rows:
        items = listed.get(row.id, [])
        lines.append(_encode(ConversationLine(row.id, row.tenant_id, row.created_at, Raw(row.metadata), items)))
    return lines


def _turns(connection: Connection, thread_ids: list[str]) -> dict[str, list[TurnLine]]:
    found: dict[str, list[TurnLine]] = {}
    for row in connection.execute(_TURNS_OF, {"ids": thread_ids}).all():
        values: dict[str, Any] = {name: getattr(row, name) for name in TurnLine.__struct_fields__}
        line = TurnLine(**{**values, "body": Raw(row.body), "input": Raw(row.input), "output": Raw(row.output)})
        found.setdefault(row.thread_id, []).append(line)
    return found


def _blobs(connection: Connection, column: str, ids: list[str] | Select[str]) -> list[bytes]:
    query = select(blob_table).where(
        blob_table.c.tenant_id == bindparam("tenant"), blob_table.c.sha256 == bindparam("key")
    )
    lines = []
    for tenant, key in sorted(blobs.uses_of(connection, column, ids)):
        row = connection.execute(query, {"tenant": tenant, "key": key}).first()
        if row is not None:
            lines.append(_encode(BlobLine(row.tenant_id, row.sha256, row.data)))
    return lines


async def import_lines(database: Database, lines: Iterable[bytes]) -> Imported:
    """Write what an export gave; threads and conversations that are there already stay as they are.

    Raises:
        InvalidRequest: a line is not an export's; the message names it. Lines before it have been written.
    """
    done = Imported()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            read = _decode(line)
        except msgspec.MsgspecError as error:
            raise InvalidRequest(f"Line {number} is not a line of a store's export: {error}") from error
        if isinstance(read, Head):
            if read.revision != HEAD:
                raise InvalidRequest(f"The export is of revision {read.revision}, this store is of {HEAD}.")
            continue
        await database.write(_put_line, read, done)
    return done


def _put_line(connection: Connection, line: BlobLine | ThreadLine | ConversationLine, done: Imported) -> None:
    if isinstance(line, BlobLine):
        done.blobs += _put(
            connection, blob_table, [{"tenant_id": line.tenant, "sha256": line.sha256, "data": line.data}]
        )
    elif isinstance(line, ThreadLine):
        _put_thread(connection, line, done)
    else:
        _put_conversation(connection, line, done)


def _put_thread(connection: Connection, line: ThreadLine, done: Imported) -> None:
    row = {"id": line.id, "tenant_id": line.tenant, "created_at": line.created_at, "expires_at": line.expires_at}
    if not _put(connection, threads, [row]):
        return
    done.threads += 1
    narrow, wide = [], []
    for turn in line.turns:
        fields = msgspec.structs.asdict(turn)
        items = {"input": bytes(turn.input), "output": bytes(turn.output)}
        ids = {name: fields[name] for name in ("shared_ids", "prompt_ids", "completion_ids")}
        for name in (*items, *ids):
            del fields[name]
        narrow.append({**fields, "body": bytes(turn.body), "thread_id": line.id, "tenant_id": line.tenant})
        wide.append({"response_id": turn.id, **items, **ids})
    done.responses += _put(connection, responses, narrow)
    _put(connection, turns, wide)
    for turn in line.turns:
        used = blobs.references(bytes(turn.input)) | blobs.references(bytes(turn.output))
        blobs.use(connection, line.tenant, used, response_id=turn.id)


def _put_conversation(connection: Connection, line: ConversationLine, done: Imported) -> None:
    row = {"id": line.id, "tenant_id": line.tenant, "created_at": line.created_at, "metadata": bytes(line.metadata)}
    if not _put(connection, conversations, [row]):
        return
    done.conversations += 1
    places = [
        {"conversation_id": line.id, "position": item.position, "id": item.id, "body": bytes(item.body)}
        for item in line.items
    ]
    _put(connection, conversation_items, places)
    for item in line.items:
        blobs.use(connection, line.tenant, blobs.references(bytes(item.body)), conversation_id=line.id)


def _put(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> int:
    """Insert rows, many with a statement; how many were not there before."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = insert(table).on_conflict_do_nothing().returning(*table.primary_key)
    return len(connection.execute(statement, rows).all()) if rows else 0


_TURNS_OF = (
    select(responses, turns)
    .where(turns.c.response_id == responses.c.id, responses.c.thread_id.in_(bindparam("ids", expanding=True)))
    .where(responses.c.status.in_(ENDED))
    .order_by(responses.c.thread_id, responses.c.depth, responses.c.id)
)
_ITEMS_OF = (
    select(conversation_items)
    .where(conversation_items.c.conversation_id.in_(bindparam("ids", expanding=True)))
    .order_by(conversation_items.c.conversation_id, conversation_items.c.position)
)
