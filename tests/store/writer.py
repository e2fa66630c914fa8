"""A process that stores turns as fast as it can, and prints each one's id once it is committed; killed by its tests."""

import asyncio
import sys

from msgspec import Raw

from app.store.database import Database
from app.store.leases import hold_process
from app.store.store import ResponseStore

from .turns import answer, new_turn


async def write(url: str, schema: str, head: str) -> None:
    database = Database(url, schema=schema or None)
    await hold_process(database, "writer", for_ms=1)
    store = ResponseStore(database, "a")
    previous = head or None
    for number in range(100_000):
        turn = new_turn(f"q{number} " + "x" * 2000, previous_id=previous, owner="writer")
        await store.begin(turn)
        output = [answer(turn.id, "y" * 3000), Raw(b'{"type":"function_call","id":"fc_%d","call_id":"c"}' % number)]
        body = turn.body.replace(b"in_progress", b"completed")
        if await store.finish(turn.id, status="completed", body=body, output=output):
            previous = turn.id
            print(turn.id, flush=True)


if __name__ == "__main__":
    asyncio.run(write(*sys.argv[1:4]))
