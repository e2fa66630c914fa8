"""Calls as a head with the name, then one JSON value, to deltas."""

from collections.abc import Callable

from app.parsing.between import between_calls, skip_gap, skip_space
from app.parsing.body import CLOSED, FAILED, LEFT, MORE
from app.parsing.format import NamedJson
from app.parsing.heads import Heads, Literals
from app.parsing.json_value import BROKEN, RUNNING, walk
from app.parsing.markers import CALL_MARKER
from app.parsing.run import SPACE_LIMIT, Run

__all__ = ("NamedJsonBody",)

BETWEEN, AFTER, START, VALUE, RAW = range(5)


class NamedJsonBody:
    """Reads :class:`~app.parsing.format.NamedJson`.

    The value's balance ends the call; its closer, if the format has one, is then read past. A value that is no object
    is given out as written up to the closer.

    Args:
        given: the name, where the output is but the arguments of one call (a named choice held by a JSON schema).
    """

    def __init__(
        self,
        data: NamedJson,
        close: tuple[str, ...],
        repeat: bool,
        encode: Callable[[str], str],
        given: str = "",
    ) -> None:
        self.settled = AFTER
        self._repeat = repeat
        self._certain = data.certain
        self._given = given
        self._heads = Heads(data.heads, encode)
        self._section_close = Literals(close)
        self._call_close = Literals([encode(literal) for literal in data.close])
        self.closes = (*self._call_close.all, *close)
        self._any_close = Literals(self.closes)

    def step(self, run: Run) -> int:
        """See :class:`~app.parsing.scanner.BodyMachine`."""
        state = run.state
        while True:
            if state.phase == VALUE:
                if not self._value(run):
                    return MORE
            elif state.phase == BETWEEN and self._given and not state.done:
                state.name = self._given
                state.phase = START
            elif state.phase == BETWEEN:
                found = between_calls(run, self._heads, self._section_close, self._repeat)
                if isinstance(found, int):
                    return found
                state.cursor, fields = found
                state.name, state.native = fields["name"], fields.get("id") or ""
                if self._certain:
                    self._start(run)
                state.phase = START
            elif state.phase == START:
                state.cursor = at = skip_space(state.pending, state.cursor)
                if at == len(state.pending):
                    return MORE
                if not state.open:
                    if state.pending[at] != "{":
                        return FAILED
                    self._start(run)
                end = self._any_close.match(state.pending, at)
                if end is None:
                    return MORE
                if end >= 0:
                    run.arguments("{}")
                    self._end(run, True)
                else:
                    state.phase = VALUE if state.pending[at] in "{[" else RAW
            elif state.phase == RAW:
                if not self._raw(run):
                    return MORE
            else:
                outcome = self._after(run)
                if outcome >= 0:
                    return outcome

    def flush(self, run: Run) -> bool:
        """See :class:`~app.parsing.scanner.BodyMachine`."""
        state = run.state
        if state.phase == VALUE:
            run.arguments(state.pending[state.cursor :])
        return False

    def _start(self, run: Run) -> None:
        state = run.state
        run.start_call(state.name, run.request.native_id(state.name, state.calls) or state.native)

    def _end(self, run: Run, complete: bool) -> None:
        run.end_call(complete)
        run.state.stack = ""
        run.state.phase = AFTER

    def _value(self, run: Run) -> bool:
        state = run.state
        start = state.cursor
        end, state.stack, quoted, why = walk(state.pending, start, state.stack, state.quoted == '"', 0)
        state.quoted = '"' if quoted else ""
        run.arguments(state.pending[start:end])
        state.cursor = end
        if why == RUNNING:
            return False
        self._end(run, why != BROKEN)
        return True

    def _raw(self, run: Run) -> bool:
        """Text up to a closer or any marker of calls, less the white space before it."""
        state = run.state
        text, at = state.pending, state.cursor
        while at < len(text):
            end = self._any_close.match(text, at)
            if end is None:
                break
            if end >= 0 or CALL_MARKER.match(text, at):
                run.arguments(text[state.cursor : _text_end(text, state.cursor, at)])
                state.cursor = at
                self._end(run, False)
                return True
            at += 1
        keep = _text_end(text, state.cursor, at)
        run.arguments(text[state.cursor : keep])
        state.cursor = keep
        return False

    def _after(self, run: Run) -> int:
        """Past the call's closer."""
        state = run.state
        if not self._call_close.all:
            state.phase = BETWEEN
            return -1 if self._repeat else CLOSED
        text = state.pending
        at = skip_gap(text, state.cursor)
        if at < 0:
            return LEFT
        stray = at < len(text) and text[at] in "]})"
        for start in (at, at + 1) if stray else (at,):
            start = skip_space(text, start)
            if start == len(text):
                return MORE
            end = self._call_close.match(text, start)
            if end is None:
                return MORE
            if end >= 0:
                state.cursor = end
                state.phase = BETWEEN
                return -1 if self._repeat or self._section_close.all else CLOSED
            end = self._section_close.match(text, start)
            if end is None:
                return MORE
            if end >= 0:
                state.cursor = end
                return CLOSED
        return LEFT


def _text_end(text: str, start: int, end: int) -> int:
    """Where the text before ``end`` ends if white space is taken off, no more of it than may be held."""
    return max(start + len(text[start:end].rstrip()), end - SPACE_LIMIT, start)
