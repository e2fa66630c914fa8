"""The inside of a Python string literal to its value, as far as it is written."""

import re

__all__ = ("read_python_string",)

ESCAPES = {
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\n": "",
}
CODES = {"x": 2, "u": 4, "U": 8}
HEX = re.compile("[0-9a-fA-F]*")
STOP = {quote: re.compile(f"[{quote}\\\\\ud800-\udbff]") for quote in "'\""}


def read_python_string(text: str, at: int, quote: str, raw: bool) -> tuple[str, int, bool | None]:
    """Read on from ``at`` in a string that ``quote`` opened.

    Returns:
        The value, how far it was read, and whether the string is over (behind its closing quote), broken by a marker
        of calls (False), or unfinished (None; then a half escape or half quote is left unread).
    """
    out: list[str] = []
    stop = STOP[quote[0]]
    while True:
        found = stop.search(text, at)
        if found is None:
            out.append(text[at:])
            return "".join(out), len(text), None
        out.append(text[at : found.start()])
        at = found.start()
        char = text[at]
        if char == quote[0]:
            if text.startswith(quote, at):
                return "".join(out), at + len(quote), True
            if len(text) - at < len(quote) and quote.startswith(text[at:]):
                return "".join(out), at, None
            out.append(char)
            at += 1
        elif char == "\\":
            if at + 1 == len(text):
                return "".join(out), at, None
            kind = text[at + 1]
            if "\ud800" <= kind <= "\udbff":
                out.append(char)
                at += 1
            elif raw:
                out.append(text[at : at + 2])
                at += 2
            elif kind in CODES:
                digits = text[at + 2 : at + 2 + CODES[kind]]
                known = HEX.match(digits)
                written = known[0] if known else ""
                if len(written) == CODES[kind]:
                    code = int(written, 16)
                    valid = code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
                    out.append(chr(code) if valid else text[at : at + 2 + len(written)])
                    at += 2 + len(written)
                elif len(written) == len(digits) and at + 2 + len(digits) == len(text):
                    return "".join(out), at, None
                else:
                    out.append(text[at : at + 2])
                    at += 2
            else:
                out.append(ESCAPES.get(kind, "\\" + kind))
                at += 2
        else:
            return "".join(out), at, False
