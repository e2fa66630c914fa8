"""kill -9 of a process in the middle of its turns: what it said it had stored is there, whole, and nothing by half."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from app.errors import InvalidRequest
from app.store.doctor import examine
from app.store.retention import sweep
from app.store.store import ResponseStore
from app.store.tables import responses

from .conftest import Place
from .turns import complete

ROOT = Path(__file__).resolve().parent.parent.parent


def killed_after(place: Place, head: str, turns: int) -> list[str]:
    """Ids that a writer said it had committed before it was killed."""
    words = [sys.executable, "-m", "tests.store.writer", place.url, place.schema or "", head]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environ) as process:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line.strip())
            if len(told) == turns:
                break
        process.send_signal(signal.SIGKILL)
        told += [line.strip() for line in process.stdout if line.endswith("\n")]
    assert len(told) >= turns
    return told


def test_a_killed_writer_leaves_whole_turns_only(place: Place) -> None:
    chance = random.Random(5)
    told: list[str] = []
    for _ in range(3):
        told += killed_after(place, told[-1] if told else "", chance.randint(5, 60))
    asyncio.run(_check(place, told))


async def _check(place: Place, told: list[str]) -> None:
    async with place.open() as database:
        store = ResponseStore(database, "a")
        await sweep(database)  # ends what the dead left running
        rows = await database.read(lambda connection: connection.execute(responses.select()).all())
        assert {row.status for row in rows} <= {"completed", "failed"}
        assert {row.id for row in rows if row.status == "completed"} >= set(told)
        history = await store.resolve(told[-1])
        assert [name for name in history.response_ids if name in set(told)] == told
        assert {len(given) for given in history.inputs} == {1}
        assert {len(answered) for answered in history.outputs} == {2}
        for row in rows:
            reply = msgspec.json.decode((await store.retrieve(row.id)).body)
            assert reply["status"] == row.status
            assert len(reply["output"]) == (2 if row.status == "completed" else 0)
            if row.status == "failed":
                try:
                    await store.resolve(row.id)
                except InvalidRequest:
                    continue
                raise AssertionError("a half-written turn can be continued")
        assert not [finding async for finding in examine(database, deep=True)]
        await complete(store, "and on", previous_id=told[-1])
