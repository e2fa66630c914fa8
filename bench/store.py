"""The store's speed among many stored responses: resolve a 200-turn chain, create, retrieve, sweep.

    python -m bench --only store       (or: python -m bench.store [--responses 20000] [--postgres URL])

The statement that resolves a chain is timed in a database with this chain only and in one with all the responses, on
SQLite before and after ANALYZE. ``--responses 1000000`` takes about 3 GB under --directory.
"""

import argparse
import asyncio
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, text
from sqlalchemy.util import await_only

from app.protocol.ids import item_id, new_id, now_ms
from app.store import chain
from app.store.database import Database
from app.store.items import split
from app.store.retention import sweep
from app.store.revision import create_at_head
from app.store.store import ResponseStore
from app.store.turn import NewTurn
from bench.table import Row, show

__all__ = ("measure",)

TURNS = 200
THREAD = 8
"""Turns of each of the other chains."""
BATCH = 5000

Values = tuple[Any, ...]
SWITCH_INTERVAL_S = 0.0005
"""As a server sets it (``app.http.startup``)."""


def rows(response_id: str, words: str) -> tuple[bytes, bytes, bytes]:
    """Body, input and output of one turn: 1 KB of reply, and about as much of items."""
    body = {"id": response_id, "object": "response", "status": "completed", "model": "demo", "tools": [], "note": words}
    given = [{"type": "message", "id": item_id("msg", response_id, 0, side="input"), "role": "user", "content": words}]
    parts = [{"type": "output_text", "text": words, "annotations": []}]
    answered = [{"type": "message", "id": item_id("msg", response_id, 0), "role": "assistant", "content": parts}]
    return msgspec.json.encode(body), msgspec.json.encode(given), msgspec.json.encode(answered)


async def run(database: Database, statement: str) -> None:
    """Run one statement."""
    await database.write(lambda connection: connection.execute(text(statement)))


async def insert(database: Database, threads: list[Values], responses: list[Values], turns: list[Values]) -> None:
    """Insert rows by the driver's own bulk path."""
    tables = {
        "threads": ("id, tenant_id, created_at, expires_at", threads),
        "responses": (
            "id, tenant_id, thread_id, previous_id, depth, model, status, background, created_at, body",
            responses,
        ),
        "turns": ("response_id, input, output", turns),
    }

    def work(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        for table, (columns, values) in tables.items():
            if database.is_sqlite:
                marks = ", ".join("?" * len(columns.split(",")))
                await_only(driver.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values))
            else:
                names = columns.split(", ")
                connection.execute(text("SELECT 1"))  # opens the transaction that the copy joins
                await_only(driver.copy_records_to_table(table, records=values, columns=names))

    await database.write(work)


async def fill(database: Database, count: int, *, turns_each: int = THREAD, expired: int = 0) -> str:
    """Store ``count`` responses in chains, of which the first ``expired`` have expired; returns the last's id."""
    words = "the store keeps every word of it, once, " * 12
    last = ""
    batch: tuple[list[Values], list[Values], list[Values]] = ([], [], [])
    at = now_ms() - 86_400_000
    for number in range(0, count, turns_each):
        thread, previous = new_id("thr", at_ms=at + number), None
        until = 1 if number // turns_each < expired else now_ms() + 86_400_000
        batch[0].append((thread, f"t{number % 50}", at, until))
        for depth in range(turns_each):
            last = new_id("resp", at_ms=at + number + depth)
            body, given, answered = rows(last, words)
            tenant = f"t{number % 50}"
            batch[1].append((last, tenant, thread, previous, depth, "demo", "completed", False, at, body))
            batch[2].append((last, given, answered))
            previous = last
        if len(batch[1]) >= BATCH:
            await insert(database, *batch)
            batch = ([], [], [])
    await insert(database, *batch)
    return last


async def milliseconds(work: Callable[[], Awaitable[object]], rounds: int) -> tuple[float, float]:
    """Median time of one call, and this process's CPU time for one (on a busy machine the one to compare)."""
    taken = []
    cpu = time.process_time()
    for _ in range(rounds):
        start = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken), (time.process_time() - cpu) * 1000 / rounds


async def resolved(database: Database, head: str, rounds: int = 100) -> tuple[float, str]:
    """Milliseconds of the statement that walks the chain, and a line that says more."""
    store = ResponseStore(database, "t0")
    place = {"id": head, "tenant": "t0", "now": now_ms()}

    async def statement() -> None:
        found = await database.read(lambda connection: connection.execute(chain.STATEMENT, place).all())
        assert len(found) == TURNS

    await milliseconds(statement, 10)
    median, cpu = await milliseconds(statement, rounds)
    whole, whole_cpu = await milliseconds(lambda: store.resolve(head), rounds)
    return median, f"{median:.2f} ms (CPU {cpu:.2f}), with its items decoded {whole:.2f} ms (CPU {whole_cpu:.2f})"


async def rates(database: Database) -> dict[str, float]:
    """Turns created (begun and finished), and responses retrieved, a second; one client and eight."""
    store = ResponseStore(database, "t0")
    words = "the store keeps every word of it, once, " * 12
    made: list[str] = []

    async def create() -> None:
        name = new_id("resp")
        body, given, answered = rows(name, words)
        await store.begin(NewTurn(id=name, model="demo", input=split(given), body=body, owner="bench"))
        await store.finish(name, status="completed", body=body, output=split(answered))
        made.append(name)

    async def many(work: Callable[[int], Awaitable[object]], count: int, clients: int) -> float:
        start = time.perf_counter()

        async def client(first: int) -> None:
            for number in range(first, count, clients):
                await work(number)

        await asyncio.gather(*[client(first) for first in range(clients)])
        return count / (time.perf_counter() - start)

    return {
        "create, 1 client": await many(lambda _: create(), 300, 1),
        "create, 8 clients": await many(lambda _: create(), 600, 8),
        "retrieve, 1 client": await many(lambda number: store.retrieve(made[number % len(made)]), 1000, 1),
        "retrieve, 8 clients": await many(lambda number: store.retrieve(made[number % len(made)]), 2000, 8),
    }


async def bench(name: str, open_: Callable[[str], Database], count: int) -> AsyncIterator[Row]:
    """All measurements of one kind of database."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    alone, full = open_("alone"), open_("full")
    for database in (alone, full):
        await create_at_head(database)
    head = await fill(alone, TURNS, turns_each=TURNS)
    base, line = await resolved(alone, head)
    yield Row("isthmus", f"{name}: resolve {TURNS} turns, alone", line)
    start = time.perf_counter()
    expired = count // THREAD // 20
    await fill(full, count // 2, expired=expired)
    head = await fill(full, TURNS, turns_each=TURNS)
    await fill(full, count - count // 2)
    taken = time.perf_counter() - start
    size = await full.size_bytes() / 1e6
    yield Row("isthmus", f"{name}: insert {count:,}", f"{count / taken:,.0f}/s, {size:,.0f} MB")
    for state in ("no statistics", "after ANALYZE"):
        if state == "after ANALYZE":
            await run(full, "ANALYZE")
            await full.close()
            full = open_("full")
        found, line = await resolved(full, head)
        yield Row("isthmus", f"{name}: the same among {count:,}, {state}", f"{found - base:+.2f} ms: {line}")
    for what, rate in (await rates(full)).items():
        yield Row("isthmus", f"{name}: {what}", f"{rate:,.0f}/s")
    start = time.perf_counter()
    done = await sweep(full)
    taken = time.perf_counter() - start
    yield Row("isthmus", f"{name}: sweep", f"{done.responses / taken:,.0f} responses/s")
    await alone.close()
    await full.close()


async def on_sqlite(count: int, directory: str | None = None) -> AsyncIterator[Row]:
    """The measurements in files of a temporary directory."""
    place = Path(tempfile.mkdtemp(prefix="isthmus-bench-", dir=directory))
    try:
        async for row in bench("sqlite", lambda name: Database(f"sqlite+aiosqlite:///{place / name}.db"), count):
            yield row
    finally:
        shutil.rmtree(place)


async def on_postgres(count: int, url: str) -> AsyncIterator[Row]:
    """The measurements in schemas of their own."""
    schema = f"isthmus_bench_{secrets.token_hex(4)}"
    root = Database(url, pool_size=1)
    for name in ("alone", "full"):
        await run(root, f"CREATE SCHEMA {schema}_{name}")
    try:
        async for row in bench("postgresql", lambda name: Database(url, schema=f"{schema}_{name}"), count):
            yield row
    finally:
        for name in ("alone", "full"):
            await run(root, f"DROP SCHEMA {schema}_{name} CASCADE")
        await root.close()


def measure(model: Path | None, peers: Path | None, seconds: float) -> Iterable[Row]:
    """Rows for ``make bench``: SQLite with 20,000 responses."""

    async def collected() -> list[Row]:
        return [row async for row in on_sqlite(20_000)]

    return asyncio.run(collected())


async def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, default=20_000)
    parser.add_argument(
        "--postgres", default="", help="URL of a PostgreSQL database; schemas in it are made and dropped"
    )
    parser.add_argument("--directory", default=None, help="where the SQLite files go (a temporary directory)")
    parser.add_argument("--no-sqlite", action="store_true")
    given = parser.parse_args()
    if not given.no_sqlite:
        async for row in on_sqlite(given.responses, given.directory):
            show(row)
    if given.postgres:
        async for row in on_postgres(given.responses, given.postgres):
            show(row)


if __name__ == "__main__":
    asyncio.run(main())
