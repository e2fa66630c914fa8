"""Runs revisions on the server's own database, on ``-x url=``, or on a connection that a caller hands in."""

import asyncio
import os
from pathlib import Path
from typing import Any

from alembic import context
from sqlalchemy import Connection

from app.settings import load_settings
from app.store.database import Database
from app.store.tables import metadata

config = context.config


def url() -> str:
    given = context.get_x_argument(as_dictionary=True).get("url") or config.get_main_option("sqlalchemy.url")
    return given or load_settings(os.environ, Path.cwd()).database_url


def run(connection: Connection | None = None, **options: Any) -> None:
    context.configure(
        connection=connection, target_metadata=metadata, render_as_batch=True, compare_type=True, **options
    )
    with context.begin_transaction():
        context.run_migrations()


async def online() -> None:
    if not (named := url()):
        raise SystemExit("database_url is empty: there is no store to migrate.")
    database = Database(named, pool_size=1)
    try:
        await database.write(run)
    finally:
        await database.close()


if context.is_offline_mode():
    run(url=url(), literal_binds=True, dialect_opts={"paramstyle": "named"})
elif (given := config.attributes.get("connection")) is not None:
    run(given)
else:
    if config.config_file_name is not None and config.attributes.get("configure_logger", True):
        from logging.config import fileConfig

        fileConfig(config.config_file_name, disable_existing_loggers=False)
    asyncio.run(online())
