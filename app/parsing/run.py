"""One feed's worth of work: the state it advances, and text and calls on their way to deltas."""

from collections.abc import Callable

from msgspec import Struct

from app.parsing.deltas import CallArguments, CallEnd, CallStart, Content, Delta, Reasoning
from app.parsing.markers import ANY_MARKER
from app.parsing.schema_values import Schemas
from app.parsing.state import CONTENT, REASONING, State

__all__ = ("ATTEMPT_LIMIT", "SPACE_LIMIT", "RequestContext", "Run")

ATTEMPT_LIMIT = 65536
"""Characters that are held while a call may still come: arguments before the name, mostly."""

SPACE_LIMIT = 1024
"""Characters of white space that are held until what follows is known."""

ARGUMENTS = 2


class RequestContext(Struct, frozen=True):
    """What of a request the reading of its outputs depends on.

    ``counted_from``: the number of the output's first call where the format's ids count calls (Kimi), else None.
    """

    schemas: Schemas
    keep_first: bool = False
    counted_from: int | None = None

    def native_id(self, name: str, index: int) -> str:
        """The id that the format gives the output's call of this index; "" where ids are the server's own."""
        return "" if self.counted_from is None else f"functions.{name}:{self.counted_from + index}"


class Run:
    """Collects the deltas of one feed and applies the rules of white space.

    White space is held until what follows it is known: dropped between a marker and the first text of a channel, kept
    between two pieces of text, kept at the ends of the output where no marker touches it.
    """

    __slots__ = ("_keep_first", "_kind", "_parts", "deltas", "final", "request", "restore", "state")

    def __init__(
        self, state: State, restore: Callable[[str], str], request: RequestContext, *, final: bool = False
    ) -> None:
        self.state = state
        self.request = request
        self.final = final
        self.deltas: list[Delta] = []
        self.restore = restore
        self._keep_first = request.keep_first
        self._kind = CONTENT
        self._parts: list[str] = []

    def text(self, chunk: str) -> None:
        """A piece of the current channel's text, markers in it as their own characters."""
        if not chunk:
            return
        state = self.state
        channel = state.channel
        if not chunk.isascii() and ANY_MARKER.search(chunk):
            chunk = self.restore(chunk)
        if channel == CONTENT:
            line = chunk.rfind("\n")
            tail = chunk if line < 0 else chunk[line + 1 :]
            state.line_start = (line >= 0 or state.line_start) and (not tail or tail.isspace())
        if state.spaces[channel] or chunk[0].isspace() or chunk[-1].isspace():
            self._spaced(channel, chunk)
        else:
            state.written[channel] = True
            state.touched[channel] = False
            self._write(channel, chunk)

    def _spaced(self, channel: int, chunk: str) -> None:
        state = self.state
        body = chunk.strip()
        if not body:
            self._space(channel, chunk)
            return
        start = len(chunk) - len(chunk.lstrip())
        self._space(channel, chunk[:start])
        if state.spaces[channel] and (state.written[channel] or not state.touched[channel]):
            body = state.spaces[channel] + body
        state.spaces[channel] = ""
        state.written[channel] = True
        state.touched[channel] = False
        self._write(channel, body)
        self._space(channel, chunk[len(chunk.rstrip()) :])

    def _space(self, channel: int, run: str) -> None:
        state = self.state
        run = state.spaces[channel] + run
        while len(run) >= SPACE_LIMIT:
            self._write(channel, run[:SPACE_LIMIT])
            state.written[channel] = True
            state.touched[channel] = False
            run = run[SPACE_LIMIT:]
        state.spaces[channel] = run

    def marker(self) -> None:
        """A marker stands here: white space beside it is not the text's own."""
        touched = self.state.touched
        touched[CONTENT] = touched[REASONING] = True

    def start_call(self, name: str, native_id: str = "") -> bool:
        """A call is certain; reasoning, if it was open, is over. False where it took more text than may be held."""
        state = self.state
        if state.cursor > ATTEMPT_LIMIT:
            return False
        self.marker()
        state.channel = CONTENT
        state.open = True
        state.count = 0
        index = state.calls
        state.calls += 1
        if not (self._keep_first and index):
            self._flush()
            self.deltas.append(CallStart(index, name, native_id or None))
        return True

    def arguments(self, text: str) -> None:
        """A piece of the open call's arguments."""
        if text and not (self._keep_first and self.state.calls > 1):
            if not text.isascii() and ANY_MARKER.search(text):
                text = self.restore(text)
            self._write(ARGUMENTS, text)

    def end_call(self, complete: bool) -> None:
        """The open call is over; what follows in ``pending`` is undecided again."""
        state = self.state
        state.open = False
        state.done += 1
        state.pending = state.pending[state.cursor :]
        state.cursor = 0
        state.name = state.native = state.key = state.raw = state.quoted = ""
        state.count = state.flags = 0
        state.marks = [-1, -1]
        if not (self._keep_first and state.calls > 1):
            self._flush()
            self.deltas.append(CallEnd(state.calls - 1, complete))
        state.line_start = False
        self.marker()

    def end(self) -> list[Delta]:
        """All deltas; at the end of the output with the white space that no marker touches."""
        if self.final:
            state = self.state
            for channel in (REASONING, CONTENT):
                if state.spaces[channel] and not state.touched[channel]:
                    self._write(channel, state.spaces[channel])
                state.spaces[channel] = ""
        self._flush()
        return self.deltas

    def _write(self, kind: int, text: str) -> None:
        if kind != self._kind:
            self._flush()
            self._kind = kind
        self._parts.append(text)

    def _flush(self) -> None:
        if not self._parts:
            return
        text = "".join(self._parts)
        self._parts.clear()
        if self._kind == CONTENT:
            self.deltas.append(Content(text))
        elif self._kind == REASONING:
            self.deltas.append(Reasoning(text))
        else:
            self.deltas.append(CallArguments(self.state.calls - 1, text))
