"""All that the machine remembers between two tokens, as one Struct of a few dozen bytes."""

import re

import msgspec
from msgspec import Struct, field

from app.errors import InvalidState

__all__ = ("CALLS", "CONTENT", "REASONING", "TEXT", "State", "dump", "load")

CONTENT, REASONING = 0, 1
"""Channels."""
TEXT, CALLS = 0, 1
"""Modes: outside and inside a section of calls."""


class State(Struct, array_like=True):
    """One output's parse so far. Every string is bounded, whatever the model writes."""

    mode: int = TEXT
    channel: int = CONTENT
    pending: str = ""
    """Text that is not decided yet: a marker that may still come, or all since a call became possible."""
    spaces: list[str] = field(default_factory=lambda: ["", ""])
    """Per channel, the white space since its last text."""
    touched: list[bool] = field(default_factory=lambda: [False, False])
    """Per channel, whether a marker stands beside that white space."""
    written: list[bool] = field(default_factory=lambda: [False, False])
    """Per channel, whether it has any text."""
    line_start: bool = True
    """Only white space since the last line break of content."""
    calls: int = 0
    open: bool = False
    """A call has started and not ended."""
    cursor: int = 0
    """How far into ``pending`` the section's body has read."""
    section: int = 0
    owed: bool = False
    """A section was left without its closer: should that still come, it is no text."""
    done: int = 0
    """Calls that this section has ended."""
    phase: int = 0
    """Where the body stands; each body numbers its own places."""
    stack: str = ""
    """Open brackets."""
    quoted: str = ""
    """The quote that the body stands in."""
    name: str = ""
    native: str = ""
    key: str = ""
    kind: str = ""
    """The word that types the value being read."""
    raw: str = ""
    """A value that waits for its end."""
    count: int = 0
    """Arguments that the open call has."""
    marks: list[int] = field(default_factory=lambda: [-1, -1])
    """Stretch of ``pending`` with arguments that came before the name."""
    flags: int = 0


UNSAFE = re.compile("[\ud800-\udfff\U0010f000-\U0010ffff]")
ESCAPED = re.compile("\U0010fffd([\\s\\S])|[\U0010f000-\U0010ffff]")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(State)


def dump(state: State) -> bytes:
    """The state as bytes. Lone surrogates, which UTF-8 has no place for, are spelled in private-use escapes."""
    pending = state.pending
    if not pending.isascii():
        state = msgspec.structs.replace(state, pending=_escape(pending))
    return _encoder.encode(state)


def load(data: bytes) -> State:
    """The state from :func:`dump`'s bytes."""
    try:
        state = _decoder.decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidState("The stream state is not one that this server writes.", param="stream_state") from error
    if not state.pending.isascii():
        state.pending = _unescape(state.pending)
    return state


def _escape(text: str) -> str:
    """Surrogates as U+10F000 + offset; that block's own characters (private use) after U+10FFFD."""
    return UNSAFE.sub(
        lambda found: chr(0x10F000 + ord(found[0]) - 0xD800) if found[0] <= "\udfff" else "\U0010fffd" + found[0], text
    )


def _unescape(text: str) -> str:
    return ESCAPED.sub(lambda found: found[1] or chr(0xD800 + ord(found[0]) - 0x10F000), text)
