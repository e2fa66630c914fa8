"""Large strings of items to rows of their own, once a tenant, and back byte for byte.

A data URL (or a bare base64 string) of more than 64 KB leaves the item; ``isthmus:blob:`` and its sha256 stand in its
place. A string that itself starts so is moved too, whatever its size, so that every such string in the store is ours
and no caller can forge one.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Raw
from sqlalchemy import Connection, Select, Table, and_, bindparam, delete, exists, select
from sqlalchemy.dialects import postgresql, sqlite

from app.store.tables import blob_uses, blobs

__all__ = (
    "LARGE",
    "drop_unused",
    "load",
    "put_all_back",
    "put_back",
    "references",
    "restore",
    "save",
    "take_out",
    "use",
    "uses_of",
)

LARGE = 65536
"""Bytes above which media leave their item."""

_MARK = b"isthmus:blob:"
_STRING = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(\s*:)?', re.DOTALL)
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/_=-]|\\/)+")
# An opening quote is never preceded by a backslash, and an escaped one always is.
_REFERENCE = re.compile(rb'(?<!\\)"isthmus:blob:([0-9a-f]{64})"(?!\s*:)')


def take_out(items: Sequence[Raw]) -> tuple[list[Raw], dict[bytes, bytes]]:
    """Items with references in place of large strings, and what was taken out by its sha256."""
    taken: dict[bytes, bytes] = {}

    def replace(match: re.Match[bytes]) -> bytes:
        inner = match[1]
        if match[2]:  # a key
            return match[0]
        large = len(inner) > LARGE and (inner.startswith(b"data:") or _BASE64.fullmatch(inner) is not None)
        if not large and not inner.startswith(_MARK):
            return match[0]
        key = sha256(inner).digest()
        taken[key] = inner
        return b'"' + _MARK + key.hex().encode() + b'"'

    result = []
    for item in items:
        raw = bytes(item)
        touched = len(raw) > LARGE or _MARK in raw
        result.append(Raw(_STRING.sub(replace, raw)) if touched else item)
    return result, taken


def references(data: bytes) -> set[bytes]:
    """The sha256 of every blob that stored JSON refers to."""
    return {bytes.fromhex(found.decode()) for found in _REFERENCE.findall(data)} if _MARK in data else set()


def put_back(data: bytes, found: dict[bytes, bytes]) -> bytes:
    """Stored JSON with its strings in place again. Raises :class:`KeyError` where one is missing."""
    return _REFERENCE.sub(lambda match: b'"' + found[bytes.fromhex(match[1].decode())] + b'"', data)


def put_all_back(data: list[bytes], found: dict[bytes, bytes]) -> list[bytes]:
    """The same for many, which refer to nothing else than what was found."""
    return [put_back(part, found) if _MARK in part else part for part in data] if found else data


def restore(connection: Connection, tenant: str, data: list[bytes]) -> list[bytes]:
    """JSON of one tenant with all its blobs put back. Raises :class:`KeyError` where one is missing."""
    return put_all_back(data, load(connection, tenant, data))


def load(connection: Connection, tenant: str, data: Sequence[bytes]) -> dict[bytes, bytes]:
    """The blobs that stored JSON of one tenant refers to, by sha256. Raises :class:`KeyError` where one is missing."""
    wanted = {key for part in data if _MARK in part for key in references(part)}
    found: dict[bytes, bytes] = {}
    for chunk in _chunks(sorted(wanted)):
        rows = connection.execute(_BY_KEY, {"tenant": tenant, "keys": chunk})
        found.update({row.sha256: row.data for row in rows})
    return {key: found[key] for key in wanted}


def save(
    connection: Connection,
    tenant: str,
    taken: dict[bytes, bytes],
    *,
    response_id: str | None = None,
    conversation_id: str | None = None,
) -> None:
    """Keep what was taken out, for as long as this response or conversation is kept."""
    if not taken:
        return
    # One order everywhere: two writers of the same images cannot lock each other out.
    rows = [{"tenant_id": tenant, "sha256": key, "data": taken[key]} for key in sorted(taken)]
    connection.execute(_insert(connection)(blobs).on_conflict_do_nothing(), rows)
    use(connection, tenant, taken, response_id=response_id, conversation_id=conversation_id)


def use(
    connection: Connection,
    tenant: str,
    keys: Iterable[bytes],
    *,
    response_id: str | None = None,
    conversation_id: str | None = None,
) -> None:
    """Note that stored blobs have one more user."""
    user = {"tenant_id": tenant, "response_id": response_id, "conversation_id": conversation_id}
    if rows := [{**user, "sha256": key} for key in sorted(set(keys))]:
        connection.execute(_insert(connection)(blob_uses).on_conflict_do_nothing(), rows)


def uses_of(connection: Connection, column: str, ids: Sequence[str] | Select[str]) -> set[tuple[str, bytes]]:
    """Tenant and sha256 of the blobs that these responses (``response_id``) or conversations use.

    Args:
        connection: of the store.
        column: which of the two.
        ids: some, or a query for any number of them.
    """
    rows = connection.execute(
        select(blob_uses.c.tenant_id, blob_uses.c.sha256).where(blob_uses.c[column].in_(ids)).distinct()
    )
    return {(row.tenant_id, row.sha256) for row in rows}


def drop_unused(connection: Connection, candidates: Iterable[tuple[str, bytes]]) -> int:
    """Delete those of these blobs that nothing uses any more; call it after the deletes, in their transaction."""
    removed = 0
    for tenant, key in sorted(candidates):
        place = {"tenant": tenant, "key": key}
        # Locked first: a writer that is about to use the blob again either holds it already, and it is skipped, or
        # waits for us, finds it gone, and stores it anew.
        if connection.execute(_LOCK, place).first() is not None:
            removed += connection.execute(_DROP, place).rowcount
    return removed


def _insert(connection: Connection) -> Callable[[Table], Any]:
    return sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert


def _chunks(keys: list[bytes], size: int = 500) -> Iterable[list[bytes]]:
    return (keys[start : start + size] for start in range(0, len(keys), size))


_BY_KEY = select(blobs.c.sha256, blobs.c.data).where(
    blobs.c.tenant_id == bindparam("tenant"), blobs.c.sha256.in_(bindparam("keys", expanding=True))
)
_ONE = and_(blobs.c.tenant_id == bindparam("tenant"), blobs.c.sha256 == bindparam("key"))
_LOCK = select(blobs.c.sha256).where(_ONE).with_for_update(skip_locked=True)
_DROP = delete(blobs).where(
    _ONE, ~exists().where(blob_uses.c.tenant_id == blobs.c.tenant_id, blob_uses.c.sha256 == blobs.c.sha256)
)
