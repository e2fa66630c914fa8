"""What a parser says of a token stream: deltas, in order.

The concatenated text of the deltas is the parsed output. A tool call is one ``CallStart``, any number of
``CallArguments`` (each a piece of the JSON text) and one ``CallEnd``; ``index`` counts calls from 0 in one output.
"""

from msgspec import Struct

__all__ = ("CallArguments", "CallEnd", "CallStart", "Content", "Delta", "Reasoning")


class Content(Struct, frozen=True, gc=False):
    """A piece of the answer."""

    text: str


class Reasoning(Struct, frozen=True, gc=False):
    """A piece of the model's thinking."""

    text: str


class CallStart(Struct, frozen=True, gc=False):
    """A tool call whose name is now known, whole. ``native_id`` is the id that the model itself wrote, if any."""

    index: int
    name: str
    native_id: str | None = None


class CallArguments(Struct, frozen=True, gc=False):
    """A piece of a call's arguments: always a prefix of the final JSON text."""

    index: int
    text: str


class CallEnd(Struct, frozen=True, gc=False):
    """The call is over; ``complete`` is False when the output was cut or the model broke off inside it."""

    index: int
    complete: bool = True


Delta = Content | Reasoning | CallStart | CallArguments | CallEnd
