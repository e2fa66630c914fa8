"""Calls as JSON objects with named keys, alone, one after another or in a list, to deltas."""

import json
import re
from collections.abc import Callable

from app.parsing.between import skip_gap, skip_space
from app.parsing.body import CLOSED, FAILED, LEFT, MORE
from app.parsing.format import JsonCalls
from app.parsing.heads import Literals
from app.parsing.json_value import BROKEN, DONE, decode_string, read_string, unescape, walk
from app.parsing.run import Run

__all__ = ("JsonBody",)

BETWEEN, KEY, COLON, VALUE, ARGUMENTS, ESCAPED, ATOM, ARGUMENTS_ATOM, SKIP, AFTER = range(10)
NAME_LIMIT = 256
ATOM_LIMIT = 4096
ATOM_TEXT = re.compile("[^\\s,}\\]\ud800-\udbff]*")
HARMLESS = frozenset({"id", "type", "index", "call_id", "tool_call_id"})
OTHER_KEYS, SEPARATED, HAS_ARGUMENTS, BROKEN_ARGUMENTS = 1, 2, 4, 8
"""Flags of ``state.flags``; the list's bracket itself stands in ``state.stack``."""


class JsonBody:
    """Reads :class:`~app.parsing.format.JsonCalls`.

    An object is a call from its arguments key on once its name is known, or at its end if it has no other key than the
    name, an id, a type or an index. Arguments that come before the name are held.
    """

    def __init__(
        self, data: JsonCalls, close: tuple[str, ...], repeat: bool, encode: Callable[[str], str] = str
    ) -> None:
        around = tuple(encode(literal) for literal in data.around)
        self.settled = BETWEEN
        self.closes = (*close, *around)
        self._around = Literals(around)
        self._data = data
        self._close = Literals(close)
        self._repeat = repeat
        self._harmless = HARMLESS | set(data.ids)

    def step(self, run: Run) -> int:
        """See :class:`~app.parsing.scanner.BodyMachine`."""
        state = run.state
        while True:
            phase = state.phase
            if phase == ARGUMENTS:
                outcome = self._arguments(run)
            elif phase == BETWEEN:
                outcome = self._between(run)
            elif phase == ESCAPED:
                outcome = self._escaped(run)
            else:
                at = skip_space(state.pending, state.cursor)
                if phase not in (ATOM, ARGUMENTS_ATOM, SKIP):
                    state.cursor = at
                    if at == len(state.pending):
                        return MORE
                if phase == KEY:
                    outcome = self._key(run, at)
                elif phase == COLON:
                    outcome = self._colon(run, at)
                elif phase == VALUE:
                    outcome = self._value(run, at)
                elif phase == AFTER:
                    outcome = self._after(run, at)
                elif phase == SKIP:
                    outcome = self._skip(run)
                else:
                    outcome = self._atom(run)
            if outcome >= 0:
                return outcome

    def flush(self, run: Run) -> bool:
        """See :class:`~app.parsing.scanner.BodyMachine`."""
        state = run.state
        if state.phase in (ARGUMENTS, ARGUMENTS_ATOM) and state.open:
            run.arguments(state.pending[state.cursor :])
        return state.phase in (KEY, AFTER) and self._has_whole_arguments(run)

    def _between(self, run: Run) -> int:
        state = run.state
        text = state.pending
        at = skip_gap(text, state.cursor)
        if at < 0:
            return LEFT if state.done and not state.flags & SEPARATED else FAILED
        if at == len(text):
            return MORE
        char = text[at]
        listed = "[" in state.stack
        if char == "{" and (self._repeat or not state.done):
            state.cursor = at + 1
            state.stack += "{"
            state.flags = 0
            state.phase = KEY
            return -1
        if char == "[" and not listed and not state.done:
            state.cursor = at + 1
            state.stack = "["
            return -1
        if char == "]" and listed:
            state.cursor = at + 1
            state.stack = ""
            if self._close.all:
                return -1
            return CLOSED
        end, tag = self._close.match(text, at), self._around.match(text, at)
        if end is not None and end >= 0:
            state.cursor = end
            return CLOSED
        if tag is not None and tag >= 0:
            state.cursor = tag
            return -1
        if end is None or tag is None:
            return MORE
        if char in self._data.separators and state.done and not state.flags & SEPARATED:
            state.cursor = at + 1
            state.flags |= SEPARATED
            return -1
        if not state.done or state.flags & SEPARATED:
            return FAILED
        if char in "]}" and self._close.all:
            after = skip_space(text, at + 1)
            end = self._close.match(text, after) if after < len(text) else None
            if end is None:
                return MORE
            if end >= 0:
                state.cursor = end
                return CLOSED
        return LEFT

    def _key(self, run: Run, at: int) -> int:
        state = run.state
        char = state.pending[at]
        if char == '"':
            end = read_string(state.pending, at, NAME_LIMIT)
            if end is None:
                return MORE
            if end < 0:
                return self._broken(run, at)
            state.key = decode_string(run.restore(state.pending[at:end]))
            state.cursor = end
            state.phase = COLON
            return -1
        if char in "}]":
            return self._after(run, at)
        return self._broken(run, at)

    def _broken(self, run: Run, at: int) -> int:
        """Something that can't stand here: a call whose arguments are whole just ends."""
        return self._end_object(run, at, True) if self._has_whole_arguments(run) else FAILED

    @staticmethod
    def _has_whole_arguments(run: Run) -> bool:
        flags = run.state.flags
        return run.state.open and bool(flags & HAS_ARGUMENTS) and not flags & BROKEN_ARGUMENTS

    def _colon(self, run: Run, at: int) -> int:
        state = run.state
        if state.pending[at] != ":":
            return self._broken(run, at)
        state.cursor = at + 1
        state.phase = VALUE
        if self._data.keyed and not state.name:
            state.name = state.key
        if self._is_arguments(state.key, state.flags) and state.name and not state.open:
            return -1 if run.start_call(state.name, state.native) else FAILED
        return -1

    def _is_arguments(self, key: str, flags: int) -> bool:
        if self._data.keyed:
            return not flags & HAS_ARGUMENTS
        return key in self._data.arguments and not flags & HAS_ARGUMENTS

    def _value(self, run: Run, at: int) -> int:
        state = run.state
        text = state.pending
        char = text[at]
        if self._is_arguments(state.key, state.flags):
            state.flags |= HAS_ARGUMENTS
            if not state.open:
                state.marks[0] = at
            if char == '"':
                state.cursor = at + 1
                state.phase = ESCAPED
            elif char in "{[":
                state.phase = ARGUMENTS
            else:
                state.phase = ARGUMENTS_ATOM
            return -1
        is_name = state.key in self._data.name and not self._data.keyed and not state.name
        if is_name or (state.key in self._data.ids and char == '"'):
            end = read_string(text, at, NAME_LIMIT) if char == '"' else -1
            if end is None:
                return MORE
            if end < 0:
                return FAILED
            value = decode_string(run.restore(text[at:end]))
            state.cursor = end
            state.phase = AFTER
            if not is_name:
                state.native = value
                return -1
            if not value or len(value) > NAME_LIMIT:
                return FAILED
            state.name = value
            if state.marks[0] >= 0:
                if not run.start_call(value, state.native):
                    return FAILED
                held = text[state.marks[0] : state.marks[1]]
                run.arguments(unescape(held, 1, True)[0] if held.startswith('"') else held)
            return -1
        if state.key not in self._harmless:
            state.flags |= OTHER_KEYS
        state.phase = SKIP if char in '{["' else ATOM
        if state.phase == SKIP:
            state.quoted = ""
        return -1

    def _arguments(self, run: Run) -> int:
        state = run.state
        base = 2 if state.stack.startswith("[") else 1
        start = state.cursor
        end, state.stack, quoted, why = walk(state.pending, start, state.stack, state.quoted == '"', base)
        state.quoted = '"' if quoted else ""
        state.cursor = end
        if state.open:
            run.arguments(state.pending[start:end])
        if why == DONE:
            state.phase = AFTER
        elif why == BROKEN:
            state.flags |= BROKEN_ARGUMENTS
            state.phase = AFTER
        else:
            return MORE
        state.marks[1] = end
        return -1

    def _escaped(self, run: Run) -> int:
        state = run.state
        value, end, why = unescape(state.pending, state.cursor, False)
        state.cursor = end
        if state.open:
            run.arguments(value)
        if why == DONE:
            state.phase = AFTER
            state.marks[1] = end
            return -1
        if why == BROKEN:
            state.flags |= BROKEN_ARGUMENTS
            state.phase = AFTER
            state.marks[1] = end
            return -1
        return MORE

    def _skip(self, run: Run) -> int:
        state = run.state
        base = 2 if state.stack.startswith("[") else 1
        end, state.stack, quoted, why = walk(state.pending, state.cursor, state.stack, state.quoted == '"', base)
        state.quoted = '"' if quoted else ""
        state.cursor = end
        if why == DONE:
            state.phase = AFTER
            return -1
        return self._broken(run, end) if why == BROKEN else MORE

    def _atom(self, run: Run) -> int:
        state = run.state
        found = ATOM_TEXT.match(state.pending, state.cursor)
        end = found.end() if found else state.cursor
        if end - state.cursor > ATOM_LIMIT:
            return FAILED
        if end == len(state.pending):
            return MORE
        atom = state.pending[state.cursor : end]
        if not atom:
            return FAILED
        if state.phase == ARGUMENTS_ATOM:
            state.marks[1] = end
            if not _is_json(atom):
                state.flags |= BROKEN_ARGUMENTS
            if state.open:
                run.arguments(atom)
        state.cursor = end
        state.phase = AFTER
        return -1

    def _after(self, run: Run, at: int) -> int:
        state = run.state
        char = state.pending[at]
        if char == ",":
            state.cursor = at + 1
            state.phase = KEY
            return -1
        if char == "}" or (char == "]" and state.stack.startswith("[")):
            return self._end_object(run, at + 1 if char == "}" else at, char == "}")
        return self._broken(run, at)

    def _end_object(self, run: Run, cursor: int, whole: bool) -> int:
        state = run.state
        if not state.open:
            if not state.name or state.flags & (OTHER_KEYS | HAS_ARGUMENTS) or not whole:
                return FAILED
            if not run.start_call(state.name, state.native):
                return FAILED
        if not state.flags & HAS_ARGUMENTS:
            run.arguments("{}")
        state.cursor = cursor
        state.stack = state.stack[:-1] if state.stack.endswith("{") else state.stack
        stack, broken = state.stack, state.flags & BROKEN_ARGUMENTS
        run.end_call(whole and not broken)
        state.stack = stack
        state.phase = BETWEEN
        return -1


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
