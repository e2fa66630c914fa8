"""Calls as Python source (``[f(a=1), g()]``) to deltas, their literals as JSON."""

import ast
import json
import re

from app.parsing.between import skip_gap, skip_space
from app.parsing.body import CLOSED, FAILED, LEFT, MORE
from app.parsing.format import PythonCalls
from app.parsing.heads import Literals
from app.parsing.python_strings import read_python_string
from app.parsing.run import Run
from app.parsing.schema_values import PYTHON_WORDS, quote

__all__ = ("PythonBody",)

BETWEEN, FIRST, KEY, VALUE, STRING, AFTER_STRING = range(6)
SEPARATED, COMMA, BROKEN, WHOLE = 1, 2, 4, 8
"""Flags of ``state.flags``: a comma since the last call; a comma inside a value that waits for what follows; a value
that is no literal; the value has its text (only a comma or the end may follow)."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,255}")
CALL = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]{0,255})\s{0,64}\(")
HALF_CALL = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,255}\s{0,64}")
ARGUMENT = re.compile(r"([A-Za-z_]\w{0,255})\s{0,64}=(?!=)")
HALF_ARGUMENT = re.compile(r"[A-Za-z_]\w{0,255}\s{0,64}=?")
HALF_KEY = re.compile(r"\s*([A-Za-z_]\w{0,255})?\s*=?")
PREFIXED = re.compile(r"([rRbBuU]{0,2})(\"\"\"|'''|\"|')")
HALF_PREFIXED = re.compile(r"[rRbBuU]{0,2}(?:\"\"?|''?)?")
ATOM = re.compile("[^\\s,()\\[\\]{}:'\"=\ud800-\udbff]*")
ATOM_LIMIT = 256
DEPTH_LIMIT = 512
CLOSERS = {"]": "[", ")": "(", "}": "{:"}


class PythonBody:
    """Reads :class:`~app.parsing.format.PythonCalls`.

    A name with a bracket is a call once ``)`` or ``key=`` follows. Strings stream; other literals are given out as JSON
    when they end. A value that is no literal is passed on as written, and the call counts as broken.
    """

    def __init__(self, data: PythonCalls, close: tuple[str, ...], repeat: bool) -> None:
        self.settled = BETWEEN
        self.closes = close
        self._listed = data.listed
        self._repeat = repeat
        self._close = Literals(close)

    def step(self, run: Run) -> int:
        """See :class:`~app.parsing.scanner.BodyMachine`."""
        state = run.state
        while True:
            if state.phase == STRING:
                outcome = self._string(run)
            elif state.phase == BETWEEN:
                outcome = self._between(run)
            elif state.phase in (FIRST, KEY):
                outcome = self._key(run)
            else:
                outcome = self._value(run)
            if outcome >= 0:
                return outcome

    def flush(self, run: Run) -> bool:
        """See :class:`~app.parsing.scanner.BodyMachine`."""
        state = run.state
        if state.phase == AFTER_STRING:
            run.arguments('"')
        elif state.phase == KEY:
            half = HALF_KEY.fullmatch(state.pending, state.cursor)
            if half is not None and half[1]:
                run.arguments((", " if state.count else "{") + f'"{quote(half[1])}')
        elif state.phase == VALUE:
            rest = state.pending[state.cursor :].strip()
            found = ATOM.match(rest)
            atom = found[0] if found else ""
            words = [word[: len(atom)] for python, word in PYTHON_WORDS.items() if python.startswith(atom)]
            if atom:
                self._before_item(run)
                run.arguments(words[0] if words else atom)
        return False

    def _between(self, run: Run) -> int:
        state = run.state
        text = state.pending
        at = skip_gap(text, state.cursor)
        separated = bool(state.flags & SEPARATED)
        nothing = FAILED if separated or not state.done else LEFT
        if at < 0:
            return nothing
        if at == len(text):
            return MORE
        char = text[at]
        inside = not self._listed or state.stack == "["
        if char == "[" and self._listed and not inside and not state.done:
            state.cursor = at + 1
            state.stack = "["
            return -1
        if char == "]" and self._listed and inside and state.done:
            state.cursor = at + 1
            state.stack = ""
            state.flags = 0
            return -1 if self._close.all else CLOSED
        end = self._close.match(text, at)
        if end is None:
            return MORE
        if end >= 0:
            state.cursor = end
            return CLOSED
        if char in ",;" and state.done and not separated:
            state.cursor = at + 1
            state.flags = SEPARATED
            return -1
        if inside and (self._repeat or not state.done) and (separated or not state.done or not self._listed):
            call = CALL.match(text, at)
            if call is not None:
                state.name = call[1]
                state.cursor = call.end()
                state.flags = 0
                state.phase = FIRST
                return -1
            if HALF_CALL.fullmatch(text, at):
                return MORE
        return nothing

    def _key(self, run: Run) -> int:
        """Before an argument's name, or the call's end."""
        state = run.state
        text = state.pending
        at = skip_space(text, state.cursor)
        if at == len(text):
            return MORE
        if text[at] == ")":
            state.cursor = at + 1
            return self._end(run)
        argument = ARGUMENT.match(text, at)
        if argument is None or argument.end() == len(text):
            return MORE if HALF_ARGUMENT.fullmatch(text, at) else FAILED
        state.cursor = argument.end()
        if not state.open and not run.start_call(state.name):
            return FAILED
        state.key = argument[1]
        run.arguments((", " if state.count else "{") + f'"{quote(argument[1])}": ')
        state.count += 1
        state.flags &= BROKEN
        state.phase = VALUE
        return -1

    def _end(self, run: Run) -> int:
        state = run.state
        if not state.open and not run.start_call(state.name):
            return FAILED
        run.arguments("}" if state.count else "{}")
        run.end_call(not state.flags & BROKEN)
        state.stack = "[" if self._listed else ""
        state.phase = BETWEEN
        return -1

    def _before_item(self, run: Run) -> None:
        """A comma that waited is due: something follows it."""
        state = run.state
        if state.flags & COMMA:
            run.arguments(", ")
            state.flags &= ~COMMA

    def _value(self, run: Run) -> int:
        state = run.state
        text = state.pending
        at = skip_space(text, state.cursor)
        state.cursor = at
        if at == len(text):
            return MORE
        char = text[at]
        prefix = None if state.flags & WHOLE and state.phase != AFTER_STRING else PREFIXED.match(text, at)
        if prefix is not None:
            after = prefix.end()
            if len(prefix[2]) == 1 and after + 1 >= len(text) and text[after:] in ("", prefix[2]):
                # an empty string or the start of a triple quote: the next character tells
                return MORE
            joined = state.phase == AFTER_STRING
            if not joined:
                self._before_item(run)
                run.arguments('"')
            state.quoted = prefix[2] + ("r" if "r" in prefix[1].lower() else "")
            state.cursor = prefix.end()
            state.phase = STRING
            return -1
        if state.phase == AFTER_STRING:
            if HALF_PREFIXED.fullmatch(text, at):
                return MORE
            run.arguments('"')
            state.phase = VALUE
            state.flags |= WHOLE
        depth = len(state.stack) - (1 if self._listed else 0)
        if char in ",)" and depth == 0:
            if not state.flags & WHOLE:
                return FAILED
            state.flags &= BROKEN
            state.phase = KEY
            state.cursor = at + (char == ",")
            return -1
        if char in "[({" and not state.flags & WHOLE:
            if len(state.stack) >= DEPTH_LIMIT:
                return FAILED
            self._before_item(run)
            run.arguments("{" if char == "{" else "[")
            state.stack += char
        elif char in "])}" and depth:
            if state.stack[-1] not in CLOSERS[char]:
                return FAILED
            state.stack = state.stack[:-1]
            state.flags = state.flags & ~COMMA | WHOLE
            run.arguments("}" if char == "}" else "]")
        elif char == "," and state.flags & WHOLE:
            state.flags = state.flags & ~WHOLE | COMMA
            if state.stack.endswith(":"):
                state.stack = state.stack[:-1] + "{"
        elif char == ":" and state.flags & WHOLE and state.stack.endswith("{"):
            state.stack = state.stack[:-1] + ":"
            state.flags &= ~WHOLE
            run.arguments(": ")
        else:
            return self._atom(run, at)
        state.cursor = at + 1
        return -1

    def _atom(self, run: Run, at: int) -> int:
        state = run.state
        text = state.pending
        found = ATOM.match(text, at)
        end = found.end() if found else at
        if end == at or state.flags & WHOLE or end - at > ATOM_LIMIT:
            return FAILED
        if end == len(text):
            return MORE
        atom = text[at:end]
        written = _number(atom)
        if written is None:
            state.flags |= BROKEN
            written = atom
        self._before_item(run)
        run.arguments(f'"{quote(written)}"' if state.stack.endswith("{") else written)
        state.flags |= WHOLE
        state.cursor = end
        return -1

    def _string(self, run: Run) -> int:
        state = run.state
        raw = state.quoted.endswith("r")
        value, end, over = read_python_string(state.pending, state.cursor, state.quoted.rstrip("r"), raw)
        run.arguments(quote(run.restore(value)))
        state.cursor = end
        if over is None:
            return MORE
        if over is False:
            return FAILED
        state.quoted = ""
        state.phase = AFTER_STRING
        return -1


def _number(atom: str) -> str | None:
    """A Python word or number as JSON; None where it is neither."""
    atom = PYTHON_WORDS.get(atom, atom)
    try:
        json.loads(atom)
        return atom
    except ValueError:
        pass
    try:
        value = ast.literal_eval(atom)
        return json.dumps(value, allow_nan=False) if isinstance(value, int | float) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
