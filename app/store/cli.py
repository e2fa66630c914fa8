"""``litestar database ...`` and ``litestar store ...``: migrations and administration from the command line."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import IO, Any, NoReturn

import click
import msgspec

from app.errors import IsthmusError, StartupError
from app.settings import Settings, load_settings
from app.store.database import Database

__all__ = ("database", "store")


@click.group("database")
def database() -> None:
    """Bring the store's database to a revision, and say where it is."""


@database.command("upgrade")
@click.argument("revision", default="head")
@click.option("--sql", is_flag=True, help="Print the statements instead of running them.")
def upgrade(revision: str, sql: bool) -> None:
    """Upgrade to REVISION (head)."""
    _alembic("upgrade", revision, sql=sql)


@database.command("downgrade")
@click.argument("revision", default="-1")
@click.option("--sql", is_flag=True, help="Print the statements instead of running them.")
def downgrade(revision: str, sql: bool) -> None:
    """Downgrade to REVISION (one back); what newer revisions added is lost."""
    _alembic("downgrade", revision, sql=sql)


@database.command("current")
@click.option("-v", "--verbose", is_flag=True)
def current(verbose: bool) -> None:
    """Say which revision the database is at."""
    _alembic("current", verbose=verbose)


@database.command("check")
def check() -> None:
    """Exit with 1 where the database is not at head, or where tables and migrations differ."""
    _alembic("check")


@database.command("revision")
@click.option("-m", "--message", required=True)
@click.option("--autogenerate/--empty", default=True, help="Fill it from the difference to the tables.")
@click.option("--rev-id", default=None)
def revision(message: str, autogenerate: bool, rev_id: str | None) -> None:
    """Write a new revision into migrations/versions."""
    _alembic("revision", message=message, autogenerate=autogenerate, rev_id=rev_id)


@database.command("history")
@click.option("-v", "--verbose", is_flag=True)
def history(verbose: bool) -> None:
    """List all revisions, newest first."""
    _alembic("history", verbose=verbose)


@click.group("store")
def store() -> None:
    """Look into the store, and keep it in order."""


@store.command("stats")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def stats(as_json: bool) -> None:
    """Count what is stored, tenant by tenant."""
    from app.store.tenants import stats as count

    found = _run(count)
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    click.echo(f"revision {found.revision}, {found.disk_bytes / 1e6:,.1f} MB on disk")
    click.echo("responses: " + (", ".join(f"{count} {status}" for status, count in found.statuses.items()) or "none"))
    for one in found.tenants:
        click.echo(
            f"  {one.tenant or '(no tenant)'}: {one.responses} responses in {one.threads} threads, {one.conversations} "
            f"conversations with {one.conversation_items} items, {one.blobs} blobs, {one.bytes / 1e6:,.1f} MB"
        )


@store.command("sweep")
def sweep() -> None:
    """Delete what has expired and end the turns of dead processes, now."""
    from app.store.retention import Retention
    from app.store.retention import sweep as run_sweep

    retention = Retention(days=_settings().retention_days)
    done = _run(lambda opened: run_sweep(opened, retention=retention))
    click.echo(
        f"deleted {done.threads} threads with {done.responses} responses, {done.blobs} blobs and {done.event_logs} "
        f"event logs; ended {done.given_up} turns whose process was gone"
    )


@store.command("export")
@click.argument("file", type=click.File("wb"), default="-")
@click.option("--tenant", default=None, help="Only this one's.")
def export(file: IO[bytes], tenant: str | None) -> None:
    """Write the store to FILE (standard output) as JSON lines."""
    from app.store.transfer import export_lines

    async def write(opened: Database) -> int:
        count = 0
        async for line in export_lines(opened, tenant=tenant):
            file.write(line + b"\n")
            count += 1
        return count

    click.echo(f"wrote {_run(write)} lines", err=True)


@store.command("import")
@click.argument("file", type=click.File("rb"), default="-")
def import_(file: IO[bytes]) -> None:
    """Read JSON lines from FILE (standard input); what is there already stays as it is."""
    from app.store.transfer import import_lines

    done = _run(lambda opened: import_lines(opened, file))
    click.echo(
        f"read {done.threads} threads with {done.responses} responses, {done.conversations} conversations and "
        f"{done.blobs} blobs"
    )


@store.command("delete-tenant")
@click.argument("tenant")
@click.option("--yes", is_flag=True, help="Don't ask.")
def delete_tenant(tenant: str, yes: bool) -> None:
    """Delete all that TENANT has stored."""
    from app.store.tenants import delete_tenant as delete

    if not yes:
        click.confirm(f"Delete everything that tenant {tenant!r} has stored?", abort=True)
    done = _run(lambda opened: delete(opened, tenant))
    click.echo(f"deleted {done.threads} threads, {done.conversations} conversations and {done.blobs} blobs")


@store.command("doctor")
@click.option("--deep", is_flag=True, help="Read every turn as well.")
def doctor(deep: bool) -> None:
    """Find rows that contradict each other (exit code 1 where there are any), and chains of which a turn is deleted."""
    from app.store.doctor import examine

    async def look(opened: Database) -> int:
        count = 0
        async for finding in examine(opened, deep=deep):
            count += finding.wrong
            click.echo(f"{finding.kind}  {finding.tenant or '(no tenant)'}  {finding.id}: {finding.detail}")
        return count

    count = _run(look)
    click.echo(f"wrong: {count}" if count else "nothing is wrong")
    sys.exit(1 if count else 0)


def _run(work: Callable[[Database], Coroutine[Any, Any, Any]]) -> Any:
    """Do work on the server's own database, which must be at head."""
    from app.store.revision import ensure_head

    async def run() -> Any:
        opened = Database(_url())
        try:
            await ensure_head(opened)
            return await work(opened)
        finally:
            await opened.close()

    try:
        return asyncio.run(run())
    except IsthmusError as error:
        _stop(error.message)


def _alembic(name: str, *arguments: Any, **options: Any) -> None:
    from alembic import command
    from alembic.util import CommandError

    from app.store.revision import alembic_config

    _url()
    try:
        config = alembic_config()
        getattr(command, name)(config, *arguments, **options)
    except (CommandError, IsthmusError) as error:
        _stop(str(error))


def _url() -> str:
    if not (url := _settings().database_url):
        _stop("database_url is empty: there is no store.")
    return url


def _settings() -> Settings:
    try:
        return load_settings(os.environ, Path.cwd())
    except StartupError as error:
        _stop(error.message)


def _stop(reason: str) -> NoReturn:
    click.echo(f"Error: {reason}", err=True)
    sys.exit(1)
