"""Bodies that take long to read: told by a glance, decoded a piece at a time in a thread, bounded in their counts.

The decoder holds the interpreter until it is done, so in a thread, too, a body of 100,000 objects would stop the event
loop for as long as it takes. Here the lists at a body's top are cut first, which is quick, then their entries are
decoded some at a time, and between two pieces the loop has its turn.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr

from app.errors import InvalidRequest
from app.rendering.limits import MAX_TOOLS

__all__ = ("MOST_ENTRIES", "MOST_TOOLS", "decode_large", "is_large")

LONG = 262_144
"""Bytes that are decoded and read in some milliseconds whatever they hold, if they hold few objects."""
LONG_WITH_MEDIA = 4_194_304
"""The same, where the most of it are encoded images."""
SHORT, FEW_OBJECTS = 32_768, 4_000
"""Bytes that hold few objects for sure; and what few are."""
PIECE = 32_768
"""Bytes that are decoded at a time."""
MOST_ENTRIES = 16_384
"""Messages, items and the like of one request; a context of a million tokens has sixty for each."""
MOST_TOOLS = MAX_TOOLS
_outer = msgspec.json.Decoder(dict[str, Raw])
_entries = msgspec.json.Decoder(list[Raw])
_PLACE = re.compile(r" - at `\$\[(\d+)\]")


def is_large(body: bytes) -> bool:
    """Whether a body may take longer to read than the event loop may wait; an image in it is one string, and quick."""
    size = len(body)
    if LONG < size <= LONG_WITH_MEDIA:
        size -= _media(body)
    return size > LONG or (size > SHORT and _holds_many(body))


def _holds_many(body: bytes) -> bool:
    """Whether there may be more than few objects in it; much quicker than ``count()`` where there are few."""
    at = -1
    for _ in range(FEW_OBJECTS):
        at = body.find(b"{", at + 1)
        if at < 0:
            return False
    return True


def _media(body: bytes) -> int:
    """Bytes of the body that are encoded media: long strings that are data URLs, or stand under ``data``."""
    found = 0
    start = body.find(b'"')
    for _ in range(FEW_OBJECTS):
        end = body.find(b'"', start + 1)
        if end < 0:
            break
        if end - start > SHORT and (
            body[start + 1 : start + 6].lower() == b"data:" or b'"data"' in body[max(0, start - 9) : start]
        ):
            found += end - start
        start = end
    return found


def decode_large(kind: Any, body: bytes) -> Any:
    """A JSON body as a struct of that kind; for a thread.

    Raises:
        InvalidRequest: one of its lists has too many entries; ``param`` names it.
        msgspec.DecodeError: it is no JSON, or not of this shape.
    """
    fields = _outer.decode(body)
    lists: dict[str, Raw] = {}
    for name in _lists(kind):
        given = fields.get(name)
        if given is not None and len(bytes(given)) > PIECE and bytes(given)[:1] == b"[":
            lists[name], fields[name] = given, Raw(b"[]")
    found = _decoder(kind).decode(msgspec.json.encode(fields))
    for name, given in lists.items():
        force_setattr(found, name, _decoded(name, bytes(given), _lists(kind)[name]))
    return found


def _decoded(name: str, array: bytes, entry: Any) -> list[Any]:
    decoder = _decoder(list[entry])
    if array.find(b"[", 1) < 0 and array.find(b"{") < 0 and array.find(b'"') < 0:
        return [number for piece in _numbers(array) for number in decoder.decode(piece)]
    entries = _entries.decode(array)
    most = MOST_TOOLS if name == "tools" else MOST_ENTRIES
    if len(entries) > most and b"{" in array:  # token offsets are as many as tokens
        raise InvalidRequest(f"`{name}` has {len(entries)} entries; at most {most} are taken.", param=name)
    decoded: list[Any] = []
    waiting: list[bytes] = []
    size = 0
    for position, raw in enumerate(entries, 1):
        waiting.append(bytes(raw))
        size += len(waiting[-1])
        if size >= PIECE or position == len(entries):
            try:
                decoded += decoder.decode(b"[" + b",".join(waiting) + b"]")
            except msgspec.ValidationError as error:
                raise msgspec.ValidationError(_placed(str(error), name, len(decoded))) from None
            waiting, size = [], 0
    return decoded


def _numbers(array: bytes) -> Iterable[bytes]:
    """A list of numbers as several."""
    start, end = 1, len(array) - 1
    while start < end:
        cut = array.find(b",", start + PIECE)
        cut = end if cut < 0 else cut
        yield b"[" + array[start:cut] + b"]"
        start = cut + 1


def _placed(message: str, name: str, before: int) -> str:
    """A refusal of one of the entries, with the place that it has in the body."""
    return _PLACE.sub(lambda found: f" - at `$.{name}[{int(found[1]) + before}]", message)


@lru_cache(64)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@lru_cache(64)
def _lists(kind: Any) -> dict[str, Any]:
    """The fields of a struct that may be lists, and the type of their entries."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        members = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        for member in (members, *get_args(members)):
            if get_origin(member) is list:
                (found[name],) = get_args(member)
    return found
