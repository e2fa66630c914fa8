"""Commands of ``litestar``: models, plugins, run."""

from typing import Any

from litestar.plugins import CLIPlugin

__all__ = ("Commands",)


class Commands(CLIPlugin):
    """Adds ours to Litestar's own commands."""

    def on_cli_init(self, cli: Any) -> None:
        """Register the commands."""
