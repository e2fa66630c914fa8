"""Calls as a head and an object with bare keys (``call:f{city:<|"|>Oslo<|"|>,n:3}``) to deltas."""

import re
from collections.abc import Callable

from app.parsing.between import between_calls, skip_gap, skip_space
from app.parsing.body import CLOSED, FAILED, LEFT, MORE
from app.parsing.format import LiteralCalls
from app.parsing.heads import Heads, Literals
from app.parsing.run import Run
from app.parsing.schema_values import PYTHON_WORDS, as_json, quote

__all__ = ("LiteralBody",)

BETWEEN, AFTER, KEY, VALUE, STRING, ITEM_END = range(6)
COMMA, BARE = 1, 2
"""Flags of ``state.flags``: a comma waits for what follows it; the call has a value that is no literal."""
BARE_KEY = re.compile("([^\\s,:{}\\[\\]\"'<>\ud800-\udfff]{1,256})\\s{0,64}:")
HALF_KEY = re.compile("([^\\s,:{}\\[\\]\"'<>\ud800-\udfff]{1,256})?\\s{0,64}")
ATOM = re.compile("[^,{}\\[\\]\ud800-\udbff]*")
ATOM_LIMIT = 16384
DEPTH_LIMIT = 512
CLOSERS = {"]": "[", "}": "{"}


class LiteralBody:
    """Reads :class:`~app.parsing.format.LiteralCalls`. Keys may also stand in quotes; a bare word is a string."""

    def __init__(self, data: LiteralCalls, close: tuple[str, ...], repeat: bool, encode: Callable[[str], str]) -> None:
        self.settled = AFTER
        self._repeat = repeat
        self._heads = Heads(data.heads, encode)
        self._quote = encode(data.quote)
        self._quotes = Literals([self._quote])
        self._section_close = Literals(close)
        self._call_close = Literals([encode(literal) for literal in data.close])
        self.closes = (*self._call_close.all, *close)
        self._in_string = re.compile("[" + re.escape(self._quote[0]) + "\ud800-\udbff]")

    def step(self, run: Run) -> int:
        """See :class:`~app.parsing.scanner.BodyMachine`."""
        state = run.state
        while True:
            if state.phase == STRING:
                outcome = self._string(run)
            elif state.phase == BETWEEN:
                found = between_calls(run, self._heads, self._section_close, self._repeat)
                if isinstance(found, int):
                    return found
                state.cursor, fields = found
                run.start_call(fields["name"])
                run.arguments("{")
                state.stack = "{"
                state.flags = 0
                state.phase = KEY
                outcome = -1
            elif state.phase == AFTER:
                outcome = self._after(run)
            else:
                state.cursor = at = skip_space(state.pending, state.cursor)
                if at == len(state.pending):
                    return MORE
                if state.phase == KEY:
                    outcome = self._key(run, at)
                elif state.phase == VALUE:
                    outcome = self._value(run, at)
                else:
                    outcome = self._item_end(run, at)
            if outcome >= 0:
                return outcome

    def flush(self, run: Run) -> bool:
        """See :class:`~app.parsing.scanner.BodyMachine`."""
        state = run.state
        rest = state.pending[state.cursor :]
        half = HALF_KEY.fullmatch(rest)
        if state.phase == KEY and half is not None and half[1]:
            self._comma(run)
            run.arguments(f'"{quote(half[1])}')
        elif state.phase == VALUE and ATOM.fullmatch(rest) and not self._quote.startswith(rest):
            words = [word for python, word in PYTHON_WORDS.items() if word.startswith(rest.strip())]
            number = rest.strip()[:1] in "-0123456789"
            self._comma(run)
            run.arguments(rest.strip() if words or number else f'"{quote(run.restore(rest.strip()))}')
        return False

    def _comma(self, run: Run) -> None:
        if run.state.flags & COMMA:
            run.arguments(", ")
            run.state.flags &= ~COMMA

    def _key(self, run: Run, at: int) -> int:
        state = run.state
        text = state.pending
        if text[at] == "}":
            return self._close(run, at)
        start = at
        quoted = self._quotes.match(text, at)
        if quoted is None:
            return MORE
        if quoted >= 0:
            end = text.find(self._quote, quoted)
            if end < 0:
                return MORE if len(text) - quoted <= 1024 else FAILED
            key, start = run.restore(text[quoted:end]), skip_space(text, end + len(self._quote))
            if start == len(text):
                return MORE
            if text[start] != ":":
                return FAILED
            start += 1
        else:
            found = BARE_KEY.match(text, at)
            if found is None:
                return MORE if HALF_KEY.fullmatch(text, at) else FAILED
            key, start = found[1], found.end()
        self._comma(run)
        run.arguments(f'"{quote(key)}": ')
        state.cursor = start
        state.phase = VALUE
        return -1

    def _value(self, run: Run, at: int) -> int:
        state = run.state
        text = state.pending
        quoted = self._quotes.match(text, at)
        if quoted is None:
            return MORE
        if quoted >= 0:
            self._comma(run)
            run.arguments('"')
            state.cursor = quoted
            state.phase = STRING
            return -1
        char = text[at]
        if char in "{[":
            if len(state.stack) >= DEPTH_LIMIT:
                return FAILED
            self._comma(run)
            run.arguments(char)
            state.stack += char
            state.cursor = at + 1
            state.phase = KEY if char == "{" else VALUE
            return -1
        if char == "]":
            return self._close(run, at)
        found = ATOM.match(text, at)
        end = found.end() if found else at
        if end - at > ATOM_LIMIT:
            return FAILED
        if end == len(text):
            return MORE
        atom = run.restore(text[at:end].strip())
        if not atom:
            return FAILED
        self._comma(run)
        run.arguments(as_json(atom, frozenset({"integer", "number", "boolean", "null", "string"})))
        state.cursor = end
        state.phase = ITEM_END
        return -1

    def _string(self, run: Run) -> int:
        state = run.state
        text, at = state.pending, state.cursor
        while True:
            found = self._in_string.search(text, at)
            stop = found.start() if found else len(text)
            end = self._quotes.match(text, stop) if found else -1
            marker = found is not None and "\ud800" <= text[stop] <= "\udbff"
            if found is not None and end == -1 and not marker:
                at = stop + 1
                continue
            run.arguments(quote(run.restore(text[state.cursor : stop])))
            state.cursor = stop
            if found is None or end is None:
                return MORE
            if end < 0:
                return FAILED
            run.arguments('"')
            state.cursor = end
            state.phase = ITEM_END
            return -1

    def _item_end(self, run: Run, at: int) -> int:
        state = run.state
        char = state.pending[at]
        if char == ",":
            state.flags |= COMMA
            state.cursor = at + 1
            state.phase = KEY if state.stack.endswith("{") else VALUE
            return -1
        return self._close(run, at) if char in "}]" else FAILED

    def _close(self, run: Run, at: int) -> int:
        """A bracket closes; the outermost ends the call."""
        state = run.state
        char = state.pending[at]
        if not state.stack.endswith(CLOSERS[char]):
            return FAILED
        state.stack = state.stack[:-1]
        state.flags &= ~COMMA
        run.arguments(char)
        state.cursor = at + 1
        state.phase = ITEM_END
        if not state.stack:
            run.end_call(True)
            state.phase = AFTER
        return -1

    def _after(self, run: Run) -> int:
        state = run.state
        text = state.pending
        at = skip_gap(text, state.cursor)
        if at < 0:
            return LEFT
        if not self._call_close.all:
            state.phase = BETWEEN
            return -1 if self._repeat else CLOSED
        if at == len(text):
            return MORE
        end = self._call_close.match(text, at)
        if end is None:
            return MORE
        if end < 0:
            return LEFT
        state.cursor = end
        state.phase = BETWEEN
        return -1 if self._repeat or self._section_close.all else CLOSED
