"""An ``[[engines]]`` table's own keys to the struct of an engine's options; what is wrong is one line."""

import difflib
from typing import Any, TypeVar, get_type_hints

import msgspec
from msgspec import Struct

from app.errors import StartupError

__all__ = ("read_table",)

Options = TypeVar("Options", bound=Struct)


def read_table(options: dict[str, Any], wanted: type[Options]) -> Options:
    """The options as a ``wanted``; words between commas, as the environment gives them, are a list where one is due.

    Raises:
        StartupError: naming the key, and the nearest one that there is.
    """
    kinds = get_type_hints(wanted)
    given = {}
    for key, value in options.items():
        if key not in kinds:
            near = difflib.get_close_matches(key, kinds, 1)
            raise StartupError(f"{key}: there is no such option{f'; did you mean {near[0]}?' if near else ''}")
        words = isinstance(value, str) and kinds[key] == list[str]
        given[key] = [word.strip() for word in value.split(",") if word.strip()] if words else value
    try:
        return msgspec.convert(given, wanted)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).replace("`", "").partition(" - at $.")
        raise StartupError(f"{path}: {reason[:1].lower()}{reason[1:]}") from error
