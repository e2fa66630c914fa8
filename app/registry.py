"""Entry points to plugins: what is installed, from which distribution, and whether it loads.

In-tree plugins come through the same door as anyone's: the entry points in ``pyproject.toml``, which exist once the
project is installed (``pip install -e .``). Groups:

- ``isthmus.formats``: output formats (see :mod:`app.parsing.format` for what an entry point gives);
- ``isthmus.processors``: multimodal processors, named by model type (:mod:`app.multimodal.processor`);
- ``isthmus.encoders``: prompt encoders for models that no Jinja template writes (:mod:`app.rendering.encoder`);
- ``isthmus.engines``: callables from :class:`app.engines.engine.EngineConfig` to an engine, named by kind.
"""

import contextlib
import difflib
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from app.errors import StartupError
from app.protocol.service import PluginLine

__all__ = ("GROUPS", "Registry")

GROUPS = ("isthmus.formats", "isthmus.processors", "isthmus.encoders", "isthmus.engines")
OURS = "isthmus"


class Registry:
    """What can be plugged in, by group and name. Loading is lazy: a broken plugin fails only where it is selected.

    Args:
        overrides: ``{"group:name": "distribution"}``, which distribution wins where several bring a name.
        found: entry points to use instead of the installed ones (tests).

    Raises:
        StartupError: two distributions bring the same name and no override decides, or an override names nothing.
    """

    def __init__(
        self, overrides: Mapping[str, str] | None = None, *, found: Iterable[EntryPoint] | None = None
    ) -> None:
        points = [point for group in GROUPS for point in entry_points(group=group)] if found is None else list(found)
        self._points: dict[tuple[str, str], EntryPoint] = {}
        self._overridden: list[EntryPoint] = []
        self._loaded: dict[tuple[str, str], Any] = {}
        self._broken: dict[tuple[str, str], str] = {}
        wanted = dict(overrides or {})
        claims: dict[tuple[str, str], list[EntryPoint]] = {}
        for point in points:
            rivals = claims.setdefault((point.group, point.name), [])
            if not any(rival.value == point.value and _owner(rival) == _owner(point) for rival in rivals):
                rivals.append(point)
        for (group, name), rivals in claims.items():
            self._points[group, name] = self._winner(group, name, rivals, wanted.pop(f"{group}:{name}", None))
        for key in wanted:
            raise StartupError(
                f"plugin_overrides: {key}: no installed distribution brings it", param="plugin_overrides"
            )

    def _winner(self, group: str, name: str, rivals: list[EntryPoint], choice: str | None) -> EntryPoint:
        if choice is None and len(rivals) == 1:
            return rivals[0]
        owners = [_owner(rival)[0] for rival in rivals]  # read from each distribution's metadata file
        if choice is not None:
            if choice not in owners:
                brought = " and ".join(owners)
                raise StartupError(
                    f"plugin_overrides: {group}:{name}: {choice} does not bring it ({brought} does)",
                    param="plugin_overrides",
                )
            winner = rivals[owners.index(choice)]
        else:
            raise StartupError(
                f"{group}: the name {name!r} is brought by {' and by '.join(owners)}; uninstall one, or set "
                f'plugin_overrides = {{"{group}:{name}" = "{owners[0]}"}}',
                param="plugin_overrides",
            )
        self._overridden += [rival for rival in rivals if rival is not winner]
        return winner

    def names(self, group: str) -> list[str]:
        """Names in a group, sorted; nothing is imported."""
        return sorted(name for known, name in self._points if known == group)

    def find(self, group: str) -> dict[str, Any]:
        """Everything of a group that loads, by name. Broken plugins are left out and listed as such."""
        loaded = {}
        for name in self.names(group):
            with contextlib.suppress(StartupError):
                loaded[name] = self.get(group, name)
        return loaded

    def get(self, group: str, name: str) -> Any:
        """The plugin itself, imported on first use.

        Raises:
            StartupError: there is none of this name, or it fails to import; the message names its distribution.
        """
        key = (group, name)
        if key in self._loaded:
            return self._loaded[key]
        point = self._points.get(key)
        if point is None:
            raise StartupError(self._missing(group, name))
        if key not in self._broken:
            try:
                self._loaded[key] = point.load()
                return self._loaded[key]
            except Exception as error:  # a plugin's import may fail in any way, and must not take others with it
                self._broken[key] = f"{type(error).__name__}: {error}".splitlines()[0]
        distribution, version = _owner(point)
        raise StartupError(f"{group}: {name} of {distribution} {version} does not load: {self._broken[key]}")

    def try_load(self, group: str, name: str) -> None:
        """Load one plugin so that the listing says whether it is broken."""
        with contextlib.suppress(StartupError):
            self.get(group, name)

    def owner(self, group: str, name: str) -> tuple[str, str]:
        """Distribution and version that bring a name; empty strings where none does."""
        point = self._points.get((group, name))
        return _owner(point) if point is not None else ("", "")

    def listing(self) -> list[PluginLine]:
        """All plugins in order of group and name, the overridden ones too."""
        rows = []
        for key in sorted(self._points):
            state: Literal["available", "loaded", "broken"] = "available"
            if key in self._broken:
                state = "broken"
            elif key in self._loaded:
                state = "loaded"
            distribution, version = _owner(self._points[key])
            rows.append(PluginLine(key[1], key[0], distribution, version, state, self._broken.get(key, "")))
        for point in self._overridden:
            rows.append(PluginLine(point.name, point.group, *_owner(point), "overridden"))
        return rows

    def _missing(self, group: str, name: str) -> str:
        if not any(_owner(point)[0] == OURS for point in self._points.values()):
            return (
                f"{group}: no {name!r}: not even Isthmus's own plugins are installed. A checkout alone has no entry "
                "points: run pip install -e . in it (make does)"
            )
        known = self.names(group)
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else f" (installed: {', '.join(known) or 'none'})"
        return f"{group}: there is no {name!r}{hint}"


def _owner(point: EntryPoint) -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist is not None else ("unknown", "")
