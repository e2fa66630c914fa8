"""Head templates (``<function={name}>``) to a pattern of the whole and a pattern of what may still become it."""

import re
from collections.abc import Callable, Sequence
from typing import Literal

__all__ = ("Heads", "Literals", "Match")

NAME = r"[A-Za-z0-9_.\-:/]{1,256}"
FIELDS = {
    "name": NAME,
    "key": "[^<>\"'\\n\ud800-\udfff]{1,256}",
    "index": r"\d{1,9}",
    "id": NAME,
    "type": "[^<>\"'\\s\ud800-\udfff]{1,32}",
}
SPACE = r"\s{0,64}"
PARTS = re.compile(r"\{(name|key|index|id|type)\}|(\s+)|([^\s{]+|\{)")

Match = dict[str, str]
"""What a head's fields hold."""


class Heads:
    """Several templates of one place in a format, of which the first that matches counts.

    Args:
        templates: see :mod:`app.parsing.format`.
        encode: puts surrogates for the markers in a template.
    """

    def __init__(self, templates: Sequence[str], encode: Callable[[str], str]) -> None:
        self.templates = tuple(encode(template) for template in templates)
        self._patterns = [
            (re.compile(whole), re.compile(partial), template.endswith("}"))
            for template in self.templates
            for whole, partial in (_compile(template),)
        ]
        self._keys = [re.compile(_keyed_prefix(template)) for template in self.templates if "{key}" in template]
        self.leads = tuple(dict.fromkeys(template.split("{")[0].rstrip() for template in self.templates))
        """What each template begins with, before its first field."""

    def match(self, text: str, at: int) -> tuple[int, Match] | Literal["partial"] | None:
        """The end of the head that stands at ``at`` with its fields; whether one may still come; or None."""
        for whole, partial, ends_open in self._patterns:
            found = whole.match(text, at)
            if found is not None and not (ends_open and found.end() == len(text)):
                return found.end(), found.groupdict()
            if found is not None or partial.fullmatch(text, at):
                return "partial"
        return None

    def half_key(self, text: str, at: int) -> str:
        """What is written of an argument's name in the half head at the end of ``text``; "" where there is none."""
        for pattern in self._keys:
            found = pattern.fullmatch(text, at)
            if found:
                return found["key"]
        return ""


class Literals:
    """Literals of which one may stand at a place.

    The longest that matches counts; while a longer one may still match the answer is open.
    """

    def __init__(self, literals: Sequence[str]) -> None:
        self.all = tuple(sorted(dict.fromkeys(literals), key=lambda literal: -len(literal)))

    def match(self, text: str, at: int) -> int | None:
        """The end of the literal at ``at``, -1 where none stands there, None while that is open."""
        left = len(text) - at
        for literal in self.all:
            if text.startswith(literal, at):
                return at + len(literal)
            if left < len(literal) and literal.startswith(text[at:]):
                return None
        return -1


def _pieces(template: str) -> list[tuple[str, str]]:
    """A template as (kind, text): kind is "field", "space" or "literal"."""
    pieces = []
    for found in PARTS.finditer(template):
        if found[1]:
            pieces.append(("field", found[1]))
        elif found[2]:
            pieces.append(("space", ""))
        else:
            pieces.append(("literal", found[3]))
    return pieces


def _compile(template: str) -> tuple[str, str]:
    whole, partials, before = "", [], ""
    for kind, text in _pieces(template):
        if kind == "field":
            bar = "(?!/)" if whole.endswith("<") else ""  # a tag's own name, not that of its end
            whole += f"(?P<{text}>{bar}{FIELDS[text]})"
            before += bar + FIELDS[text]
            partials.append(before)
        elif kind == "space":
            whole += SPACE
            before += SPACE
            partials.append(before)
        else:
            whole += re.escape(text)
            halves = "|".join(re.escape(text[:end]) for end in range(len(text), 0, -1))
            partials.append(f"{before}(?:{halves})")
            before += re.escape(text)
    return whole, "|".join(partials)


def _keyed_prefix(template: str) -> str:
    """A pattern of a head that is cut in or after its key."""
    pattern, tail = "", []
    for kind, text in _pieces(template):
        if kind == "field" and text == "key":
            pattern += f"(?P<key>{FIELDS['key']})"
            tail = [""]
        elif tail:
            part = FIELDS[text] if kind == "field" else SPACE if kind == "space" else ""
            if kind == "literal":
                halves = "|".join(re.escape(text[:end]) for end in range(len(text), 0, -1))
                tail.append(f"{tail[0]}(?:{halves})")
                tail[0] += re.escape(text)
            else:
                tail[0] += part
                tail.append(tail[0])
        else:
            pattern += FIELDS[text] if kind == "field" else SPACE if kind == "space" else re.escape(text)
    return pattern + "(?:" + "|".join([*reversed(tail[1:]), ""]) + ")"
