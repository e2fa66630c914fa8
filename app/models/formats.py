"""A model's settings, template and vocabulary to the output formats it is parsed with."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from app.errors import StartupError
from app.parsing.format import CustomBody, ReasoningFormat, ToolFormat
from app.parsing.recognise import recognise

__all__ = ("Plugins", "choose_format", "format_literals")

GROUP = "isthmus.formats"
logger = logging.getLogger(__name__)


class Plugins(Protocol):
    """The part of :class:`app.registry.Registry` that loading a model asks."""

    def names(self, group: str) -> list[str]:
        """Names in a group; nothing is imported."""

    def find(self, group: str) -> dict[str, Any]:
        """Everything of a group that loads, by name."""

    def get(self, group: str, name: str) -> Any:
        """One plugin; raises :class:`app.errors.StartupError`."""


def format_literals(value: Any) -> Iterator[str]:
    """Every string that a format writes or looks for; its samples and its own name are none of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from format_literals(item)
    elif isinstance(value, CustomBody):
        yield from value.literals
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            if name not in ("name", "samples", "signature"):
                yield from format_literals(getattr(value, name))
    elif isinstance(value, Iterable):
        for item in value:
            yield from format_literals(item)


def choose_format(
    kind: Literal["tool", "reasoning"], setting: str, plugins: Plugins, templates: Mapping[str, str], added: set[str]
) -> Any:
    """The format that a setting names, or that the model shows, or None.

    "auto" goes by :func:`app.parsing.recognise.recognise`, and logs what it chose and why.

    Raises:
        StartupError: the named format does not exist or is none of this kind.
    """
    if setting in ("", "none"):
        return None
    wanted = ToolFormat if kind == "tool" else ReasoningFormat
    if setting != "auto":
        found = plugins.get(GROUP, f"{kind}.{setting}")
        if not isinstance(found, wanted):
            raise StartupError(f"{GROUP}: {kind}.{setting} is a {type(found).__name__}, not a {wanted.__name__}")
        return found
    candidates: dict[str, Any] = {
        name.removeprefix(f"{kind}."): found
        for name, found in plugins.find(GROUP).items()
        if name.startswith(f"{kind}.") and isinstance(found, wanted)
    }
    found, recognised = recognise(candidates, templates.values(), added)
    logger.info("%s_format = auto: %s: %s", kind, recognised.name or "none", recognised.why)
    return found
