"""The whole store to a list of what is wrong with it: chains with a gap, rows that contradict each other."""

from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, text

from app.store import blobs
from app.store.database import Database
from app.store.items import split
from app.store.leases import alive_owners

__all__ = ("Finding", "examine")

BATCH = 500


class Finding(Struct, frozen=True):
    """One thing that is wrong: a word for its kind, where, and a sentence."""

    kind: str
    tenant: str
    id: str
    detail: str

    @property
    def wrong(self) -> bool:
        """False for what a client's own ``DELETE`` leaves behind."""
        return self.kind != "gap"


_CHECKS = {
    "gap": (
        "its previous response {other} is deleted: whatever continues it is not found",
        """SELECT r.tenant_id, r.id, r.previous_id FROM responses AS r WHERE r.previous_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM responses AS p WHERE p.id = r.previous_id)""",
    ),
    "broken_chain": (
        "its previous response {other} does not precede it: whatever continues it is not found",
        """SELECT r.tenant_id, r.id, r.previous_id FROM responses AS r JOIN responses AS p ON p.id = r.previous_id
            WHERE p.tenant_id <> r.tenant_id OR p.thread_id <> r.thread_id OR p.depth <> r.depth - 1""",
    ),
    "no_root": (
        "it begins a chain, but counts {other} turns before it",
        "SELECT tenant_id, id, depth FROM responses WHERE previous_id IS NULL AND depth <> 0",
    ),
    "no_turn": (
        "its input and output are missing{other}",
        """SELECT r.tenant_id, r.id, '' FROM responses AS r
            WHERE NOT EXISTS (SELECT 1 FROM turns AS t WHERE t.response_id = r.id)""",
    ),
    "foreign_thread": (
        "its thread {other} is another tenant's",
        """SELECT r.tenant_id, r.id, r.thread_id FROM responses AS r JOIN threads AS t ON t.id = r.thread_id
            WHERE t.tenant_id <> r.tenant_id""",
    ),
    "empty_thread": (
        "it has no response{other}",
        """SELECT t.tenant_id, t.id, '' FROM threads AS t
            WHERE NOT EXISTS (SELECT 1 FROM responses AS r WHERE r.thread_id = t.id)""",
    ),
    "unused_blob": (
        "nothing refers to it{other}",
        """SELECT b.tenant_id, b.sha256, '' FROM blobs AS b WHERE NOT EXISTS (
             SELECT 1 FROM blob_uses AS u WHERE u.tenant_id = b.tenant_id AND u.sha256 = b.sha256)""",
    ),
}


async def examine(database: Database, *, deep: bool = False) -> AsyncIterator[Finding]:
    """Yield what is wrong.

    Args:
        database: the store.
        deep: read every turn as well: that its JSON is whole and that its blobs are there.
    """
    for check in (_contradictions, _stuck):
        for finding in await database.read(check):
            yield finding
    after: str | None = "" if deep else None
    while after is not None:
        found, after = await database.read(_unreadable, after)
        for finding in found:
            yield finding


def _contradictions(connection: Connection) -> list[Finding]:
    found = []
    for kind, (detail, query) in _CHECKS.items():
        for tenant, name, other in connection.execute(text(query)).all():
            shown = name.hex() if isinstance(name, bytes) else name
            found.append(Finding(kind, tenant, shown, detail.format(other=other)))
    return found


def _stuck(connection: Connection) -> list[Finding]:
    alive = alive_owners(connection)
    running = connection.execute(
        text("SELECT tenant_id, id, owner, status FROM responses WHERE status IN ('queued', 'in_progress')")
    )
    return [
        Finding("stuck", row.tenant_id, row.id, f"it is {row.status}, but its process is gone; a sweep ends it")
        for row in running.all()
        if row.owner not in alive
    ]


def _unreadable(connection: Connection, after: str) -> tuple[list[Finding], str | None]:
    """What is wrong with the next turns, and after which id to go on; None at the end."""
    rows = connection.execute(_NEXT, {"after": after, "batch": BATCH}).all()
    found = []
    for row in rows:
        try:
            msgspec.json.decode(bytes(row.body), type=dict[str, msgspec.Raw])
            for array in (row.input, row.output):
                split(bytes(array))
            blobs.restore(connection, row.tenant_id, [bytes(row.input), bytes(row.output)])
        except msgspec.MsgspecError as error:
            found.append(Finding("unreadable", row.tenant_id, row.id, f"its JSON is broken: {error}"))
        except KeyError as error:
            found.append(Finding("missing_blob", row.tenant_id, row.id, f"blob {error.args[0].hex()} is gone"))
    return found, rows[-1].id if rows else None


_NEXT = text(
    """SELECT r.tenant_id, r.id, r.body, t.input, t.output
        FROM responses AS r JOIN turns AS t ON t.response_id = r.id
        WHERE r.id > :after ORDER BY r.id LIMIT :batch"""
)
