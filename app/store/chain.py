"""A response's id to the whole conversation before it, in one statement, or to "not found", never to a part of it.

The walk and the wide columns are read by scalar subqueries: a join in the recursive step is three to fifteen times
slower on SQLite once statistics exist (its planner puts a Bloom filter over the whole table into every step).
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Raw, Struct
from sqlalchemy import Connection, Row, text

from app.store import blobs
from app.store.apart import size_of
from app.store.exact import ExactIds, PackedIds, unpack
from app.store.items import split

__all__ = ("History", "Walked", "read", "walk")

_WALK = """
WITH RECURSIVE chain(id, n) AS (
  SELECT r.id, 0 FROM responses AS r JOIN threads AS t ON t.id = r.thread_id
   WHERE r.id = :id AND r.tenant_id = :tenant AND t.tenant_id = :tenant
     AND (t.expires_at IS NULL OR t.expires_at > :now)
  UNION ALL
  SELECT (SELECT previous_id FROM responses WHERE id = chain.id AND tenant_id = :tenant), n + 1
    FROM chain WHERE id IS NOT NULL AND n < 100000)
SELECT
  id,
  (SELECT depth FROM responses WHERE id = chain.id AND tenant_id = :tenant) AS depth,
  (SELECT input FROM turns WHERE response_id = chain.id) AS input,
  (SELECT output FROM turns WHERE response_id = chain.id) AS output,
  CASE WHEN n = 0 THEN (SELECT status FROM responses WHERE id = chain.id AND tenant_id = :tenant) END AS status,
  CASE WHEN n = 0 THEN (SELECT model FROM responses WHERE id = chain.id AND tenant_id = :tenant) END AS model
FROM chain WHERE id IS NOT NULL ORDER BY n DESC
"""
_IDS = """,
  (SELECT shared_ids FROM turns WHERE response_id = chain.id) AS shared_ids,
  (SELECT prompt_ids FROM turns WHERE response_id = chain.id) AS prompt_ids,
  (SELECT completion_ids FROM turns WHERE response_id = chain.id) AS completion_ids
FROM chain WHERE"""

STATEMENT = text(_WALK)
STATEMENT_WITH_IDS = text(_WALK.replace("\nFROM chain WHERE", _IDS))


class History(Struct, frozen=True):
    """A chain's turns, oldest first, as items.

    ``inputs[i]`` and ``outputs[i]`` are the items of turn ``response_ids[i]``; ``status`` and ``model`` are the last
    turn's; ``exact`` are the last turn's token ids where they were asked for and stored.
    """

    response_ids: list[str]
    inputs: list[list[Raw]]
    outputs: list[list[Raw]]
    status: str
    model: str
    exact: ExactIds | None = None

    def items(self) -> list[Raw]:
        """All items in the order they happened."""
        return [item for given, answered in zip(self.inputs, self.outputs, strict=True) for item in (*given, *answered)]

    def input_items(self) -> list[Raw]:
        """What the last response was generated from: all before it, and its own input."""
        return [*History(self.response_ids, self.inputs, [*self.outputs[:-1], []], self.status, self.model).items()]


class Walked(Struct, frozen=True):
    """A chain's rows, oldest first, their inputs and outputs in turn, and the blobs of these: all of it undecoded."""

    rows: Sequence[Row[Any]]
    wide: list[bytes]
    found: dict[bytes, bytes]
    with_ids: bool

    @property
    def size(self) -> int:
        """Bytes to go through to read it."""
        return size_of(self.wide) + size_of(self.found.values())


def walk(connection: Connection, tenant: str, response_id: str, *, now: int, with_ids: bool = False) -> Walked | None:
    """Fetch a chain from this response back to its root.

    Returns None, and never a part of it, where the response is unknown, another tenant's or expired, where a turn
    before it was deleted, or where a blob of it is missing.
    """
    statement = STATEMENT_WITH_IDS if with_ids else STATEMENT
    rows = connection.execute(statement, {"id": response_id, "tenant": tenant, "now": now}).all()
    if not whole([row.depth for row in rows]) or any(row.input is None for row in rows):
        return None
    wide = [bytes(column) for row in rows for column in (row.input, row.output)]
    try:
        return Walked(rows, wide, blobs.load(connection, tenant, wide), with_ids)
    except KeyError:
        return None


def read(walked: Walked) -> History:
    """Decode a chain: long work for a long one."""
    rows = walked.rows
    arrays = [split(part) for part in blobs.put_all_back(walked.wide, walked.found)]
    return History(
        response_ids=[row.id for row in rows],
        inputs=arrays[0::2],
        outputs=arrays[1::2],
        status=rows[-1].status,
        model=rows[-1].model,
        exact=unpack([_packed(row) for row in rows]) if walked.with_ids else None,
    )


def whole(depths: Sequence[int | None]) -> bool:
    """Whether the depths of a walk (oldest first) are those of a chain that reaches its root."""
    return bool(depths) and all(depth == place for place, depth in enumerate(depths))


def _packed(row: Row[Any]) -> PackedIds | None:
    if row.shared_ids is None or row.prompt_ids is None:
        return None
    return PackedIds(row.shared_ids, bytes(row.prompt_ids), bytes(row.completion_ids or b""))
