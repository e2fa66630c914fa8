"""Commands of ``litestar``: ``run`` with workers that end together, ``models`` and ``plugins`` that say what loads."""

import asyncio
import os
import secrets
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click
from litestar.plugins import CLIPlugin

from app.errors import InvalidRequest, StartupError
from app.registry import Registry
from app.settings import Settings, load_settings

__all__ = ("Commands",)

ROOMS = {
    "database": ("app.store.cli", "Bring the store's database to a revision, and say where it is."),
    "store": ("app.store.cli", "Look into the store, and keep it in order."),
}
"""Groups of commands that live elsewhere: the module, which has the group under its name, and a line of help."""


class Room(click.Group):
    """A group whose module is imported when one of its commands is asked for: ``litestar run`` needs none of it."""

    def __init__(self, name: str, module: str, help: str) -> None:
        super().__init__(name, help=help)
        self._module = module

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands of the group."""
        return self._group().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them."""
        return self._group().get_command(ctx, cmd_name)

    def _group(self) -> click.Group:
        group: click.Group = getattr(import_module(self._module), str(self.name))
        return group


class Commands(CLIPlugin):
    """Adds ours to Litestar's own commands, and replaces its ``run``, which leaves orphans on SIGTERM."""

    def on_cli_init(self, cli: Any) -> None:
        """Register the commands."""
        cli.add_command(run)
        cli.add_command(models)
        cli.add_command(plugins)
        for name, (module, line) in ROOMS.items():
            cli.add_command(Room(name, module, line))


@click.command("run")
@click.option(
    "-H", "--host", default="127.0.0.1", show_default=True, envvar="LITESTAR_HOST", help="Address to serve on."
)
@click.option("-p", "--port", default=8000, show_default=True, envvar="LITESTAR_PORT", help="Port to serve on.")
@click.option("-U", "--uds", default=None, envvar="LITESTAR_UNIX_DOMAIN_SOCKET", help="Unix socket instead.")
@click.option("-F", "--fd", type=int, default=None, envvar="LITESTAR_FILE_DESCRIPTOR", help="Open socket instead.")
@click.option(
    "-W",
    "--wc",
    "--web-concurrency",
    "wc",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    envvar=["LITESTAR_WEB_CONCURRENCY", "WEB_CONCURRENCY"],
    help="Worker processes. A local engine is loaded by each of them.",
)
@click.option("-r", "--reload", is_flag=True, envvar="LITESTAR_RELOAD", help="Restart when a source file changes.")
@click.option("-d", "--debug", is_flag=True, envvar="LITESTAR_DEBUG", help="Log more.")
@click.option("--ssl-certfile", default=None, envvar="LITESTAR_SSL_CERT_PATH", help="Certificate, for https.")
@click.option("--ssl-keyfile", default=None, envvar="LITESTAR_SSL_KEY_PATH", help="Its private key.")
@click.option("--access-log/--no-access-log", default=False, help="A line for every request: path and status only.")
@click.option("--grace", type=click.IntRange(1), default=30, show_default=True, help="Seconds for requests to finish.")
def run(**options: Any) -> None:
    """Serve. SIGTERM or Ctrl-C ends all workers once the requests in flight have finished."""
    from app.http.workers import serve

    settings = _settings()
    if not settings.state_key:
        os.environ["ISTHMUS_STATE_KEY"] = secrets.token_hex(32)
    found = click.get_current_context().obj
    environment = found() if callable(found) else found
    wanted = options.pop("wc")
    with tempfile.TemporaryDirectory(prefix="isthmus-metrics-") as folder:
        if wanted > 1:
            os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)
        # A server of one process takes the app that is made already; others make their own, by its path.
        alone = wanted == 1 and not options["reload"]
        app = environment.app if alone else environment.app_path
        code = serve(app, factory=environment.is_app_factory and not alone, workers=wanted, **options)
    sys.exit(code)


@click.command("models")
def models() -> None:
    """Say which models are configured and whether each of them loads; exit code 1 where one doesn't."""
    from app.http.startup import describe
    from app.models import load_models

    settings = _settings()
    try:
        registry = Registry(settings.plugin_overrides)
    except StartupError as error:
        _stop(error)
    failed = False
    for entry in settings.models:
        single = Settings(**{**_fields(settings), "models": [entry]})
        try:
            (model,) = asyncio.run(load_models(single, registry))
        except StartupError as error:
            failed = True
            click.echo(f"does not load: {error.message}")
        else:
            click.echo(f"loads: {describe(model, registry)}")
    sys.exit(1 if failed else 0)


@click.group("plugins", invoke_without_command=True)
@click.pass_context
def plugins(context: click.Context) -> None:
    """List installed plugins: name, group, distribution, version, state; loads each to see whether it does."""
    if context.invoked_subcommand is not None:
        return
    settings = _settings()
    try:
        registry = Registry(settings.plugin_overrides)
    except StartupError as error:
        _stop(error)
    for line in registry.listing():
        if line.state == "available":
            registry.try_load(line.group, line.name)
    rows = [
        (line.name, line.group, line.distribution, line.version, line.state + (f": {line.error}" if line.error else ""))
        for line in registry.listing()
    ]
    rows.insert(0, ("NAME", "GROUP", "DISTRIBUTION", "VERSION", "STATE"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        click.echo("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]))


@plugins.command("new")
@click.argument("name")
@click.option("--into", default=".", show_default=True, type=click.Path(path_type=Path), help="Folder to write it in.")
def new(name: str, into: Path) -> None:
    """Write a package with an output format, its samples and its test into a new folder NAME."""
    from app.parsing.package import write_package

    try:
        folder = write_package(name, into)
    except InvalidRequest as error:
        raise click.ClickException(error.message) from error
    click.echo(f"{folder} is written. Next: pip install -e '{folder}[test]', pytest {folder}, litestar plugins")


def _settings() -> Settings:
    try:
        return load_settings(os.environ, Path.cwd())
    except StartupError as error:
        _stop(error)


def _fields(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


def _stop(error: StartupError) -> NoReturn:
    click.echo(f"Isthmus cannot start: {error.message}", err=True)
    sys.exit(1)
