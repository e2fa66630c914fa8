"""A database's revision to permission to start: at head, created at head where it is empty, or refused.

Alembic takes a second to import, so the usual start compares one row instead; only an upgrade loads it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, column, inspect, select, table, text

from app.errors import StartupError, StoreFailure
from app.store.database import Database
from app.store.tables import HEAD, metadata

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ("alembic_config", "create_at_head", "current_revision", "ensure_head", "upgrade")

ROOT = Path(__file__).resolve().parent.parent.parent
LOCK = 0x49_53_54_48
"""Key of the advisory lock under which replicas create or upgrade one PostgreSQL database, one at a time."""

_VERSION = table("alembic_version", column("version_num"))


async def ensure_head(database: Database, *, auto_upgrade: bool = False) -> str:
    """Make sure that the database is at the revision that this program writes, and return it.

    An empty database is created at head. An older one is upgraded where ``auto_upgrade`` says so.

    Raises:
        StartupError: the database cannot be reached, is at another revision, or holds something else; the message
            names the command that mends it.
    """
    try:
        found = await database.write(_create_if_empty)
    except StoreFailure as error:
        raise StartupError(f"the store at {database.url!r} cannot be opened: {_reason(error)}") from error
    if found == HEAD:
        return HEAD
    if found is None:
        raise StartupError(
            f"the database at {database.url!r} has tables, but none of the store's: give database_url one of its own, "
            "or add the store to it with `litestar database upgrade`."
        )
    if not found.isdigit() or found > HEAD:
        raise StartupError(
            f"the store is at revision {found}, which this version ({HEAD}) does not know: a newer one made it. "
            "Install that, or give database_url another database."
        )
    if not auto_upgrade:
        raise StartupError(
            f"the store is at revision {found}, this version needs {HEAD}: run `litestar database upgrade` "
            "(or set database_auto_upgrade = true)."
        )
    await upgrade(database)
    return HEAD


async def current_revision(database: Database) -> str | None:
    """The revision of a database; None for one that has none."""
    return await database.read(_current)


async def create_at_head(database: Database) -> None:
    """Create all tables in an empty database, as ``upgrade head`` would."""
    await database.write(_create_if_empty)


async def upgrade(database: Database, revision: str = "head") -> None:
    """Run the migrations up to a revision, while every other replica waits."""
    from alembic import command

    config = alembic_config()

    def run(connection: Connection) -> None:
        _lock(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    await database.write(run)


def alembic_config(**attributes: Any) -> "Config":
    """Alembic's configuration. Raises :class:`StartupError` where the checkout has no ``alembic.ini``."""
    from alembic.config import Config

    if not (ROOT / "alembic.ini").is_file():
        raise StartupError(f"{ROOT} has no alembic.ini: migrations run from a checkout of the project.")
    config = Config(str(ROOT / "alembic.ini"))
    config.attributes.update(configure_logger=False, **attributes)
    return config


def _create_if_empty(connection: Connection) -> str | None:
    _lock(connection)
    found = _current(connection)
    if found is not None or inspect(connection).get_table_names():
        return found
    metadata.create_all(connection, checkfirst=False)
    connection.execute(
        text(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL CONSTRAINT alembic_version_pkc PRIMARY KEY)"
        )
    )
    connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:head)"), {"head": HEAD})
    return HEAD


def _current(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(select(_VERSION.c.version_num)).scalar()


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error
    return str(getattr(cause, "orig", None) or cause).strip().splitlines()[0]
