"""``litestar database`` and ``litestar store`` as an operator runs them, on both databases."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from click.testing import CliRunner
from sqlalchemy import text

from app.cli import Commands
from app.store.database import Database
from app.store.revision import create_at_head
from app.store.store import ResponseStore
from app.store.tables import HEAD

from .test_migrations import run
from .turns import complete, new_turn, texts


def on(url: str, work: Callable[[Database], Awaitable[Any]]) -> Any:
    async def opened() -> Any:
        database = Database(url, pool_size=1)
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(opened())


def command(url: str, *words: str, code: int = 0) -> str:
    """What a command says, run in this process (each of its own takes seconds)."""
    cli = click.Group("litestar")
    Commands().on_cli_init(cli)
    done = CliRunner().invoke(cli, words, env={"ISTHMUS_DATABASE_URL": url, "ISTHMUS_CONFIG": os.devnull})
    assert done.exit_code == code, done.output
    return done.output


def test_litestar_has_the_commands(store_url: str) -> None:
    on(store_url, create_at_head)
    for words, said in ((("store", "stats"), f"revision {HEAD}"), (("database", "current"), f"{HEAD} (head)")):
        done = run("litestar", *words, url=store_url)
        assert done.returncode == 0, done.stderr
        assert said in done.stdout


def test_a_store_is_looked_after(store_url: str, tmp_path: Path) -> None:
    command(store_url, "database", "upgrade")
    command(store_url, "database", "current")

    async def fill(database: Database) -> tuple[str, str]:
        root = await complete(ResponseStore(database, "a"), "root")
        await complete(ResponseStore(database, "b"), "theirs")
        await ResponseStore(database, "b").begin(new_turn("lost", owner="a dead process"))
        return root, await complete(ResponseStore(database, "a"), "head", previous_id=root)

    root, head = on(store_url, fill)
    found = msgspec.json.decode(command(store_url, "store", "stats", "--json"))
    assert {one["tenant"]: one["responses"] for one in found["tenants"]} == {"a": 2, "b": 2}
    assert found["statuses"] == {"completed": 3, "in_progress": 1}
    assert "stuck" in command(store_url, "store", "doctor", "--deep", code=1)
    assert "ended 1 turns" in command(store_url, "store", "sweep")
    assert "nothing is wrong" in command(store_url, "store", "doctor", "--deep")
    file = tmp_path / "a.jsonl"
    command(store_url, "store", "export", str(file), "--tenant", "a")
    assert "theirs" not in file.read_text()
    assert "deleted 1 threads" in command(store_url, "store", "delete-tenant", "a", "--yes")
    assert "read 1 threads with 2 responses" in command(store_url, "store", "import", str(file))

    async def read(database: Database) -> list[str]:
        return texts((await ResponseStore(database, "a").resolve(head)).items())

    assert on(store_url, read) == ["root", "re: root", "head", "re: head"]

    on(store_url, lambda database: ResponseStore(database, "a").delete(root))
    said = command(store_url, "store", "doctor")
    assert f"gap  a  {head}" in said and "nothing is wrong" in said


def test_an_older_database_is_refused_with_what_mends_it(store_url: str) -> None:
    command(store_url, "database", "upgrade")
    command(store_url, "database", "downgrade")
    assert "run `litestar database upgrade`" in command(store_url, "store", "stats", code=1)
    command(store_url, "database", "check", code=1)
    command(store_url, "database", "upgrade")
    command(store_url, "database", "check")

    async def revision(database: Database) -> object:
        query = text("SELECT version_num FROM alembic_version")
        return await database.read(lambda connection: connection.execute(query).scalar())

    assert on(store_url, revision) == HEAD
