"""A turn that begins to its rows: the thread that it joins or opens, or the answer that its idempotency key has.

Each function works in its caller's transaction, for one tenant.
"""

from typing import Any

from sqlalchemy import Connection

from app.errors import Conflict
from app.protocol.ids import new_id, now_ms
from app.store import blobs
from app.store import statements as sql
from app.store.items import join
from app.store.retention import Retention
from app.store.turn import (
    Begun,
    NewTurn,
    StoredResponse,
    check_continuable,
    not_found,
    previous_not_found,
    usable_id,
    with_output,
    without_output,
)

__all__ = ("begin", "whole")


def begin(
    connection: Connection,
    tenant: str,
    retention: Retention,
    turn: NewTurn,
    given: bytes,
    taken: dict[bytes, bytes],
) -> Begun:
    """Insert a turn.

    Args:
        connection: in a transaction.
        tenant: whose turn it is.
        retention: how long its thread is kept.
        turn: all but its input.
        given: its input as a JSON array, without its blobs.
        taken: those blobs.
    """
    now = now_ms()
    if turn.idempotency_key is not None:
        found = repeated(connection, tenant, turn.idempotency_key, turn.request_hash, now)
        if found is not None:
            return Begun(found)
    thread_id, depth = attach(connection, tenant, retention, turn.previous_id, now)
    row = {
        "id": turn.id,
        "tenant_id": tenant,
        "thread_id": thread_id,
        "previous_id": turn.previous_id,
        "conversation_id": turn.conversation_id,
        "depth": depth,
        "model": turn.model,
        "status": turn.status,
        "background": turn.background,
        "owner": turn.owner,
        "created_at": now,
        "idempotency_key": turn.idempotency_key,
        "request_hash": turn.request_hash,
        "body": without_output(turn.body),
    }
    connection.execute(sql.INSERT_RESPONSE, row)
    connection.execute(sql.INSERT_TURN, {"response_id": turn.id, "input": given, "output": join([])})
    blobs.save(connection, tenant, taken, response_id=turn.id)
    return Begun()


def attach(
    connection: Connection, tenant: str, retention: Retention, previous_id: str | None, now: int
) -> tuple[str, int]:
    """Thread and depth of a new turn; the thread lives on from now."""
    if previous_id is None:
        until = retention.until(now)
        thread = {"id": new_id("thr"), "tenant_id": tenant, "created_at": now, "expires_at": until}
        connection.execute(sql.INSERT_THREAD, thread)
        return str(thread["id"]), 0
    if not usable_id(previous_id):
        raise previous_not_found(previous_id)
    found = connection.execute(sql.PLACE, {"key": previous_id, "tenant": tenant, "now": now}).first()
    if found is None:
        raise previous_not_found(previous_id)
    check_continuable(previous_id, found.status)
    if not slide(connection, tenant, retention, found.thread_id, now):
        raise previous_not_found(previous_id)
    return found.thread_id, found.depth + 1


def slide(connection: Connection, tenant: str, retention: Retention, thread_id: str, now: int) -> bool:
    """Keep a thread for a while more; False where it has expired or gone in the meantime."""
    values = {"key": thread_id, "tenant": tenant, "now": now, "until": retention.until(now)}
    return connection.execute(sql.SLIDE, values).rowcount == 1


def repeated(connection: Connection, tenant: str, key: str, request_hash: bytes, now: int) -> StoredResponse | None:
    """What an earlier request with this idempotency key came to, as far as it came to anything."""
    found = connection.execute(sql.BY_KEY, {"tenant": tenant, "key": key}).first()
    if found is None:
        return None
    expired = found.expires_at is not None and found.expires_at <= now
    if expired or found.status in ("failed", "cancelled"):
        # Nothing came of it: the key is free for another try.
        connection.execute(sql.FREE_KEY, {"key": found.id, "tenant": tenant})
        return None
    if bytes(found.request_hash) != request_hash:
        raise Conflict("This idempotency key was used for a different request.", code="idempotency_key_reused")
    return whole(connection, tenant, found)


def whole(connection: Connection, tenant: str, found: Any) -> StoredResponse:
    """A response's row with its turn's output as the reply that it was. Raises :class:`app.errors.NotFound`."""
    try:
        (output,) = blobs.restore(connection, tenant, [bytes(found.output)])
    except KeyError as error:
        raise not_found(found.id) from error
    return StoredResponse(found.id, found.status, bool(found.background), with_output(bytes(found.body), output))
