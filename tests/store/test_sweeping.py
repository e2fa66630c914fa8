"""Server processes sweep by themselves: what has expired goes, one of them does it, and another one after its death."""

import asyncio
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select, update

from app.store.database import Database
from app.store.tables import leases, metadata, responses, threads
from tests.engines.fake_worker import FakeWorker, in_a_thread
from tests.models import BUILT

from .replicas import Replica, Words, replica
from .served import END, THOUGHT, until

pytestmark = pytest.mark.skipif(not BUILT, reason="no tokenizer data packages (make test installs them)")
EVERY = "0.3"


class Looking:
    """A look into the store past its servers."""

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, work: Any) -> Any:
        async def whole() -> Any:
            database = Database(self.url, pool_size=1)
            try:
                return await database.write(work)
            finally:
                await database.close()

        return asyncio.run(whole())

    def expire(self, response_id: str) -> None:
        thread = select(responses.c.thread_id).where(responses.c.id == response_id).scalar_subquery()
        self.run(
            lambda connection: connection.execute(update(threads).where(threads.c.id == thread).values(expires_at=1))
        )

    def rows(self) -> dict[str, int]:
        def work(connection: Connection) -> dict[str, int]:
            names = ("threads", "responses", "turns", "blobs")
            counts = [select(func.count()).select_from(metadata.tables[name]) for name in names]
            return {name: connection.execute(count).scalar_one() for name, count in zip(names, counts, strict=True)}

        return self.run(work)

    def processes(self) -> set[str]:
        query = select(leases.c.owner).where(leases.c.name.like("process/%"))
        return self.run(lambda connection: set(connection.execute(query).scalars()))

    def sweeper(self) -> str | None:
        query = select(leases.c.owner).where(leases.c.name == "sweep")
        return self.run(lambda connection: connection.execute(query).scalar())


def test_replicas_sweep_what_has_expired(store_url: str, tmp_path: Path) -> None:
    words, store = Words(), Looking(store_url)
    with in_a_thread(FakeWorker(answer=lambda request: words.ids(f"{THOUGHT}Hi.{END}"))) as fake, ExitStack() as stack:
        servers: list[Replica] = []
        owners: dict[str, Replica] = {}
        for _ in range(2):
            server = stack.enter_context(replica(store_url, fake, tmp_path, ISTHMUS_SWEEP_EVERY_S=EVERY))
            servers.append(server)
            owners.update(dict.fromkeys(store.processes() - owners.keys(), server))
        assert len(owners) == 2

        def chain(server: Replica) -> list[str]:
            first = server.post(input="q1")
            return [first["id"], server.post(input="q2", previous_response_id=first["id"])["id"]]

        gone, kept = chain(servers[0]), chain(servers[1])
        store.expire(gone[0])
        assert servers[1].call("GET", f"/responses/{gone[1]}").status_code == 404  # before any sweep, too
        until(lambda: store.rows() == {"threads": 1, "responses": 2, "turns": 2, "blobs": 0})
        assert [servers[0].get(name)["id"] for name in kept] == kept
        first = until(store.sweeper)
        # Whoever sweeps goes on to, as long as it lives.
        gone = chain(servers[0])
        store.expire(gone[0])
        until(lambda: store.rows()["responses"] == 2)
        assert store.sweeper() == first
        dead = owners[first]
        os.killpg(os.getpgid(dead.server.process.pid), signal.SIGKILL)
        (alive,) = [server for server in servers if server is not dead]
        gone = chain(alive)
        store.expire(gone[0])
        until(lambda: store.rows()["responses"] == 2)
        assert owners[store.sweeper() or ""] is alive
        assert [alive.get(name)["id"] for name in kept] == kept
        alive.post(input="q3", previous_response_id=kept[1])
