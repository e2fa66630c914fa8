"""One JSON value in a stream: where it ends, without reading more of it than brackets and quotes."""

import re

__all__ = ("BROKEN", "DEPTH_LIMIT", "DONE", "RUNNING", "decode_string", "read_string", "unescape", "walk")

RUNNING, DONE, BROKEN = 0, 1, 2
DEPTH_LIMIT = 512
"""Brackets that may be open at once; a value that goes deeper is broken."""

IN_STRING = re.compile('["\\\\\ud800-\udbff]')
OUTSIDE = re.compile('["{}\\[\\]\ud800-\udbff]')
STRING = re.compile('"(?:[^"\\\\\ud800-\udbff]|\\\\[^\ud800-\udbff])*"')
HALF_STRING = re.compile('"(?:[^"\\\\\ud800-\udbff]|\\\\[^\ud800-\udbff])*\\\\?')
ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
OPENERS = {"}": "{", "]": "["}


def walk(text: str, at: int, stack: str, quoted: bool, base: int) -> tuple[int, str, bool, int]:
    """Read on from ``at``.

    Args:
        stack: open brackets, those around the value included.
        quoted: whether ``at`` stands in a string.
        base: how many brackets of ``stack`` are around the value.

    Returns:
        How far the value was read, the new ``stack`` and ``quoted``, and whether it is RUNNING, DONE, or BROKEN: ended
        by a marker, or by a closer that belongs to a bracket around it. A closer pops to the nearest opener of its
        kind; one that has none is part of the value.
    """
    while True:
        if quoted:
            found = IN_STRING.search(text, at)
            if found is None:
                return len(text), stack, True, RUNNING
            at = found.start()
            char = text[at]
            if char == '"':
                at += 1
                quoted = False
                if len(stack) == base:
                    return at, stack, False, DONE
            elif char == "\\":
                if at + 1 == len(text):
                    return at, stack, True, RUNNING
                at += 1 if "\ud800" <= text[at + 1] <= "\udbff" else 2
            else:
                return at, stack, False, BROKEN
            continue
        found = OUTSIDE.search(text, at)
        if found is None:
            return len(text), stack, False, RUNNING
        at = found.start()
        char = text[at]
        if char == '"':
            quoted = True
        elif char in "{[":
            if len(stack) >= DEPTH_LIMIT:
                return at, stack[:base], False, BROKEN
            stack += char
        elif char in "}]":
            opener = stack.rfind(OPENERS[char])
            if opener >= base:
                stack = stack[:opener]
                if opener == base:
                    return at + 1, stack, False, DONE
            elif opener >= 0:
                return at, stack[:base], False, BROKEN
        else:
            return at, stack[:base], False, BROKEN
        at += 1


def read_string(text: str, at: int, limit: int) -> int | None:
    """The end of the whole JSON string at ``at``; -1 where it is too long or broken, None while it is unfinished."""
    found = STRING.match(text, at)
    if found is not None:
        return found.end() if found.end() - at <= limit * 6 else -1
    half = HALF_STRING.match(text, at)
    if half is None or half.end() < len(text) or half.end() - at > limit * 6:
        return -1
    return None


def decode_string(literal: str) -> str:
    """The value of a JSON string literal, lone surrogates and raw control characters taken as they are written."""
    value, _, _ = unescape(literal, 1, True)
    return value


def unescape(text: str, at: int, final: bool) -> tuple[str, int, int]:
    """The value of the string's inside from ``at`` on: (value, how far, RUNNING, DONE or BROKEN by a marker).

    ``at`` after DONE stands behind the closing quote. Unfinished escapes are left unread. An escaped surrogate without
    its other half keeps its spelling: it has no character.
    """
    out: list[str] = []
    while True:
        found = IN_STRING.search(text, at)
        if found is None:
            out.append(text[at:])
            return "".join(out), len(text), RUNNING
        stop = found.start()
        out.append(text[at:stop])
        at = stop
        char = text[at]
        if char == '"':
            return "".join(out), at + 1, DONE
        if char != "\\":
            return "".join(out), at, BROKEN
        if at + 1 == len(text):
            return "".join(out), at, RUNNING
        kind = text[at + 1]
        if kind != "u":
            if "\ud800" <= kind <= "\udbff":
                out.append("\\")
                at += 1
            else:
                out.append(ESCAPES.get(kind, "\\" + kind))
                at += 2
            continue
        code = _hex(text, at + 2)
        if code is None:
            if not final and len(text) < at + 6 and _may_be_hex(text[at + 2 :]):
                return "".join(out), at, RUNNING
            out.append("\\u")
            at += 2
            continue
        if 0xD800 <= code <= 0xDFFF:
            if code < 0xDC00:
                tail = text[at + 6 : at + 12]
                low = _hex(tail, 2) if tail.startswith("\\u") else None
                if low is not None and 0xDC00 <= low <= 0xDFFF:
                    out.append(chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)))
                    at += 12
                    continue
                if not final and len(tail) < 6 and ("\\u".startswith(tail[:2]) and _may_be_hex(tail[2:])):
                    return "".join(out), at, RUNNING
            out.append(text[at : at + 6])
        else:
            out.append(chr(code))
        at += 6


def _hex(text: str, at: int) -> int | None:
    digits = text[at : at + 4]
    return int(digits, 16) if len(digits) == 4 and _may_be_hex(digits) else None


def _may_be_hex(text: str) -> bool:
    return all(char in "0123456789abcdefABCDEF" for char in text)
