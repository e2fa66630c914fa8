"""A free-form tool's input out of the one-argument call, ``{"input": "…"}``, that the model writes for it."""

import json
import re

from app.derendering.well_formed import well_formed

__all__ = ("free_form_input",)

OPENING = re.compile(r'\s*\{\s*"input"\s*:\s*"')
WHOLE_CHARACTERS = re.compile(r'[^"\\]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\]*+)*+')
HALF_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")


def free_form_input(arguments: str, *, final: bool) -> str:
    """The input as far as it is certain: of a growing text, each result begins with the one before.

    ``final``: the call is over. What is no such call is then passed on as it was written.
    """
    opening = OPENING.match(arguments)
    told = "" if opening is None else _unescaped(arguments, opening.end())
    if not final:
        return told
    try:
        value = json.loads(arguments, strict=False)["input"]
    except (ValueError, KeyError, TypeError):
        return arguments if opening is None else told
    if not isinstance(value, str):
        return arguments
    value = well_formed(value)
    return value if value.startswith(told) else told


def _unescaped(arguments: str, start: int) -> str:
    whole = WHOLE_CHARACTERS.match(arguments, start)
    text = whole[0] if whole is not None else ""
    return well_formed(json.loads(f'"{HALF_PAIR.sub("", text)}"', strict=False))
