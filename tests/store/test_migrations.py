"""Migrations make what the tables say, keep what is stored, and start-up knows where a database stands."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from app.errors import StartupError
from app.store.database import Database
from app.store.revision import alembic_config, create_at_head, current_revision, ensure_head
from app.store.store import ResponseStore
from app.store.tables import HEAD, metadata

from .conftest import Place
from .turns import complete, texts

ROOT = Path(__file__).resolve().parent.parent.parent


def test_head_is_the_newest_revision() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [HEAD]


async def to(place: Place, revision: str, *, down: bool = False) -> None:
    def run(connection: Connection) -> None:
        config = alembic_config(connection=connection)
        (command.downgrade if down else command.upgrade)(config, revision)

    async with place.open() as database:
        await database.write(run)


def shape(connection: Connection) -> dict[str, Any]:
    found = inspect(connection)
    tables = {}
    for name in found.get_table_names():
        tables[name] = {
            "columns": [
                (column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(name)
            ],
            "key": found.get_pk_constraint(name),
            "unique": sorted(found.get_unique_constraints(name), key=lambda one: str(one["name"])),
            "foreign": sorted(
                [{k: v for k, v in one.items() if k != "referred_schema"} for one in found.get_foreign_keys(name)],
                key=lambda one: str(one["name"]),
            ),
            "checks": sorted(str(one["name"]) for one in found.get_check_constraints(name)),
            "indexes": sorted(
                (str(one["name"]), one["column_names"], one["unique"], {k: str(v) for k, v in options.items()})
                for one in found.get_indexes(name)
                for options in [one.get("dialect_options", {})]
            ),
        }
    return tables


def test_upgrading_an_empty_database_gives_the_tables_of_the_metadata(bare_place: Place) -> None:
    def differences(connection: Connection) -> list[Any]:
        return compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)

    async def check() -> None:
        await to(bare_place, "head")
        async with bare_place.open() as database:
            assert await database.read(differences) == []
            migrated = await database.read(shape)
        await to(bare_place, "base", down=True)
        async with bare_place.open() as database:
            await database.write(lambda connection: connection.execute(text("DROP TABLE alembic_version")))
            await create_at_head(database)
            created = await database.read(shape)
        assert created.keys() == migrated.keys()
        for name in created:
            assert created[name] == migrated[name]

    asyncio.run(check())


def test_turns_stay_through_a_downgrade_and_an_upgrade(bare_place: Place) -> None:
    async def check() -> None:
        async with bare_place.open() as database:
            await ensure_head(database)
            store = ResponseStore(database, "a")
            root = await complete(store, "root")
            head = await complete(store, "head", previous_id=root)
        for revision in [one.revision for one in ScriptDirectory.from_config(alembic_config()).walk_revisions()][1:]:
            await to(bare_place, revision, down=True)
            async with bare_place.open() as database:
                assert await current_revision(database) == revision
                with pytest.raises(StartupError, match="litestar database upgrade"):
                    await ensure_head(database)
        async with bare_place.open() as database:
            assert await ensure_head(database, auto_upgrade=True) == HEAD
            store = ResponseStore(database, "a")
            assert texts((await store.resolve(head)).items()) == ["root", "re: root", "head", "re: head"]
            await complete(store, "more", previous_id=head)

    asyncio.run(check())


def test_down_to_nothing_and_up_again(bare_place: Place) -> None:
    async def check() -> None:
        await to(bare_place, "head")
        await to(bare_place, "base", down=True)
        async with bare_place.open() as database:
            names = await database.read(lambda connection: inspect(connection).get_table_names())
            assert names == ["alembic_version"]
        await to(bare_place, "head")
        async with bare_place.open() as database:
            assert await ensure_head(database) == HEAD

    asyncio.run(check())


def test_an_empty_database_is_made_once_by_many_replicas(bare_place: Place) -> None:
    async def replica() -> str:
        async with bare_place.open() as database:
            return await ensure_head(database)

    async def check() -> list[str]:
        return await asyncio.gather(*[replica() for _ in range(4)])

    assert asyncio.run(check()) == [HEAD] * 4


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE TABLE theirs (x INTEGER)", "none of the store's"),
        ("UPDATE alembic_version SET version_num = '9999'", "newer"),
        ("UPDATE alembic_version SET version_num = 'abc'", "does not know"),
    ],
)
def test_a_database_that_is_not_ours_is_refused(bare_place: Place, statement: str, reason: str) -> None:
    async def check() -> None:
        async with bare_place.open() as database:
            if statement.startswith("UPDATE"):
                await ensure_head(database)
            await database.write(lambda connection: connection.execute(text(statement)))
            with pytest.raises(StartupError, match=reason):
                await ensure_head(database, auto_upgrade=True)

    asyncio.run(check())


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql+aiomysql://h/d",
        "postgresql://h/d",
        "sqlite+aiosqlite:////no/such/folder/x.db",
        "postgresql+asyncpg://postgres@127.0.0.1:1/test",
    ],
)
def test_a_database_that_cannot_be_opened_is_one_line(url: str) -> None:
    async def check() -> None:
        database = Database(url)
        try:
            await ensure_head(database)
        finally:
            await database.close()

    with pytest.raises(StartupError) as refused:
        asyncio.run(check())
    assert "\n" not in refused.value.message


def run(*words: str, url: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "ISTHMUS_DATABASE_URL": url, "PYTHONWARNINGS": "", "OMP_NUM_THREADS": "1"}
    command_line = [str(Path(sys.executable).parent / words[0]), *words[1:]]
    return subprocess.run(command_line, env=environ, cwd=cwd, capture_output=True, text=True, timeout=60)


def test_plain_alembic_and_litestar_database_do_the_same(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'x.db'}"
    assert run("alembic", "upgrade", "0001", url=url).returncode == 0
    assert "0001" in run("litestar", "database", "current", url=url).stdout
    assert run("litestar", "database", "check", url=url).returncode != 0
    assert run("litestar", "store", "stats", url=url).returncode != 0
    served = run("litestar", "--app-dir", str(ROOT), "run", "--port", "0", url=url)
    assert served.returncode != 0
    assert "the store is at revision 0001" in served.stderr and "`litestar database upgrade`" in served.stderr
    assert run("litestar", "database", "history", url=url).stdout == run("alembic", "history", url=url).stdout != ""
    assert run("litestar", "database", "upgrade", url=url).returncode == 0
    assert run("alembic", "check", url=url).returncode == 0
    assert f"{HEAD} (head)" in run("alembic", "current", url=url).stdout


def test_the_statements_can_be_printed_for_both_databases() -> None:
    for url in ("sqlite+aiosqlite:///x.db", "postgresql+asyncpg://h/d"):
        printed = run("alembic", "upgrade", "head", "--sql", url=url)
        assert printed.returncode == 0, printed.stderr
        assert "CREATE TABLE responses" in printed.stdout
    assert 'COLLATE "C"' in printed.stdout
