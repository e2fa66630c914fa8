"""The store's speed among many stored responses: resolve a 200-turn chain, create, retrieve, sweep, serve over HTTP.

    python -m bench --only store [--responses 1000000] [--postgres URL] [--directory DIR]

The statement that resolves a chain is timed in a database with this chain only and in one with all the responses,
before and after ANALYZE, on SQLite and, where one listens, on PostgreSQL. A million responses take about 3 GB in each.
"""

import asyncio
import os
import random
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from sqlalchemy import Connection, make_url, text
from sqlalchemy.util import await_only

from app.errors import StoreFailure
from app.protocol.ids import item_id, new_id, now_ms
from app.store import chain
from app.store.database import Database
from app.store.items import split
from app.store.retention import sweep
from app.store.revision import create_at_head
from app.store.store import ResponseStore
from app.store.turn import NewTurn
from bench.store_http import over_http
from bench.table import Row

__all__ = ("measure",)

TURNS = 200
THREAD = 8
"""Turns of each of the other chains."""
BATCH = 5000

POSTGRES = os.environ.get("ISTHMUS_TEST_POSTGRES", "postgresql+asyncpg://postgres@127.0.0.1:5432/test")
SAMPLE = 1000
"""Stored responses, spread over all of them, that are retrieved."""

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


async def fill(database: Database, count: int, *, turns_each: int = THREAD, expired: int = 0) -> list[str]:
    """Store ``count`` responses in chains, of which the first ``expired`` have expired; returns t0's good ones."""
    words = "the store keeps every word of it, once, " * 12
    good: list[str] = []
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
            if tenant == "t0" and until > 1:
                good.append(last)
        if len(batch[1]) >= BATCH:
            await insert(database, *batch)
            batch = ([], [], [])
    await insert(database, *batch)
    return good


async def milliseconds(work: Callable[[], Awaitable[object]], rounds: int) -> tuple[float, float]:
    """Median time of one call, and this process's CPU time for one (on a busy machine the one to compare)."""
    taken = []
    cpu = time.process_time()
    for _ in range(rounds):
        start = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken), (time.process_time() - cpu) * 1000 / rounds


async def resolved(database: Database, head: str, rounds: int = 100) -> str:
    """A line that says how long the statement that walks the chain takes."""
    store = ResponseStore(database, "t0")
    await milliseconds(lambda: walk(database, head), 10)
    median, cpu = await milliseconds(lambda: walk(database, head), rounds)
    whole, whole_cpu = await milliseconds(lambda: store.resolve(head), rounds)
    return f"{median:.2f} ms (CPU {cpu:.2f}), with its items decoded {whole:.2f} ms (CPU {whole_cpu:.2f})"


async def walk(database: Database, head: str) -> None:
    """The statement by itself."""
    place = {"id": head, "tenant": "t0", "now": now_ms()}
    found = await database.read(lambda connection: connection.execute(chain.STATEMENT, place).all())
    assert len(found) == TURNS


async def slower(full: Database, head: str, alone: Database, other: str, rounds: int = 300) -> str:
    """What the statement takes more in one database than in another, asked in turn: medians."""
    more: dict[str, list[float]] = {"ms": [], "ms of CPU": []}
    for number in range(rounds + 10):
        times = [(time.perf_counter(), time.process_time())]
        for database, last in ((full, head), (alone, other)):
            await walk(database, last)
            times.append((time.perf_counter(), time.process_time()))
        if number >= 10:
            for kind, start, middle, end in zip(more, *times, strict=True):
                more[kind].append((2 * middle - start - end) * 1000)
    return ", ".join(f"{statistics.median(taken):+.2f} {kind}" for kind, taken in more.items())


async def rates(database: Database, stored: list[str]) -> dict[str, float]:
    """Turns created (begun and finished), and responses retrieved, a second; one client and eight."""
    sample = random.Random(1).choices(stored, k=SAMPLE)
    store = ResponseStore(database, "t0")
    words = "the store keeps every word of it, once, " * 12

    async def create() -> None:
        name = new_id("resp")
        body, given, answered = rows(name, words)
        await store.begin(NewTurn(id=name, model="demo", input=split(given), body=body, owner="bench"))
        await store.finish(name, status="completed", body=body, output=split(answered))

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
        "retrieve, 1 client": await many(lambda number: store.retrieve(sample[number % SAMPLE]), 1000, 1),
        "retrieve, 8 clients": await many(lambda number: store.retrieve(sample[number % SAMPLE]), 2000, 8),
    }


async def bench(name: str, alone: Database, full: Database, count: int) -> AsyncIterator[Row]:
    """All measurements within one process on one kind of database."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    for database in (alone, full):
        await create_at_head(database)
    *_, lone = await fill(alone, TURNS, turns_each=TURNS)
    yield Row("isthmus", f"{name}: resolve {TURNS} turns, alone", await resolved(alone, lone))
    start = time.perf_counter()
    expired = count // THREAD // 20
    stored = await fill(full, count // 2, expired=expired)
    *_, head = await fill(full, TURNS, turns_each=TURNS)
    stored += await fill(full, count - count // 2)
    taken = time.perf_counter() - start
    size = await full.size_bytes() / 1e6
    yield Row("isthmus", f"{name}: insert {count:,}", f"{count / taken:,.0f}/s, {size:,.0f} MB")
    for state in ("no statistics", "after ANALYZE"):
        if state == "after ANALYZE":
            await run(full, "ANALYZE")
            await full.close()  # the planner reads statistics when a connection is made
        line = await resolved(full, head)
        more = await slower(full, head, alone, lone)
        yield Row("isthmus", f"{name}: the same among {count:,}, {state}", f"{more}: {line}")
    for what, rate in (await rates(full, stored)).items():
        yield Row("isthmus", f"{name}: {what}", f"{rate:,.0f}/s", rate)
    start = time.perf_counter()
    done = await sweep(full)
    taken = time.perf_counter() - start
    yield Row("isthmus", f"{name}: sweep", f"{done.responses:,} responses, {done.responses / taken:,.0f}/s")
    await alone.close()
    await full.close()


def drained(source: AsyncIterator[Row]) -> Iterator[Row]:
    """Rows as they come, on the event loop that servers run on."""

    async def following() -> Row | None:
        return await anext(source, None)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        while (row := runner.run(following())) is not None:
            yield row


@contextmanager
def sqlite_urls(directory: Path | None) -> Iterator[tuple[str, str]]:
    """Two files of a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="isthmus-bench-", dir=directory) as place:
        yield f"sqlite+aiosqlite:///{place}/alone.db", f"sqlite+aiosqlite:///{place}/full.db"


@contextmanager
def postgres_urls(url: str) -> Iterator[tuple[str, str]]:
    """Two databases of their own, dropped afterwards."""

    async def each(statement: str) -> None:
        root = Database(url, pool_size=1)
        try:
            for name in names:
                await root.read(Connection.execute, text(statement.format(name)))
        finally:
            await root.close()

    prefix = f"isthmus_bench_{secrets.token_hex(4)}"
    names = [f"{prefix}_alone", f"{prefix}_full"]
    asyncio.run(each("CREATE DATABASE {}"))
    try:
        alone, full = (make_url(url).set(database=name).render_as_string(hide_password=False) for name in names)
        yield alone, full
    finally:
        asyncio.run(each("DROP DATABASE {} WITH (FORCE)"))


def measure(
    model: Path | None,
    peers: Path | None,
    seconds: float,
    *,
    responses: int = 20_000,
    postgres: str = POSTGRES,
    directory: Path | None = None,
) -> Iterator[Row]:
    """Rows for ``make bench``.

    Args:
        model: a directory with Qwen3's tokenizer and template, for the server.
        seconds: of each measurement over HTTP.
        responses: how many are stored.
        postgres: URL of a PostgreSQL database beside which two are made and dropped.
        directory: where the SQLite files go; None: a temporary directory.
    """
    assert model is not None
    for name, made in (("sqlite", sqlite_urls(directory)), ("postgresql", postgres_urls(postgres))):
        try:
            with made as (alone, full):
                yield from drained(bench(name, Database(alone), Database(full), responses))
                yield from over_http(f"{name} with {responses:,}", full, model, seconds)
        except StoreFailure as error:
            yield Row("isthmus", f"{name}: not measured", str(error.__cause__).strip().splitlines()[0])
