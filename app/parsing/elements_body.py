"""Calls as elements (a head with the name, then one element per argument whose value is text) to deltas."""

import re
from collections.abc import Callable

from app.parsing.between import between_calls, skip_space
from app.parsing.body import FAILED, MORE
from app.parsing.element_tree import Tags, tree_json
from app.parsing.format import Elements
from app.parsing.heads import Heads, Literals
from app.parsing.run import ATTEMPT_LIMIT, SPACE_LIMIT, Run
from app.parsing.schema_values import ANY, STRING, as_json, half_json, quote

__all__ = ("ElementsBody",)

BETWEEN, ARGUMENTS, VALUE, STRING_VALUE = range(4)
VALUE_LIMIT = 16384
"""Characters of a value that are held until its end decides what it is; a longer one is a string."""
STARTED, OVER_LIMIT = 1, 2
"""Flags of ``state.flags``: the value has begun; it grew over the limit."""


class ElementsBody:
    """Reads :class:`~app.parsing.format.Elements`.

    A string streams, JSON-escaped; any other value waits for its end. A value without its closer ends at the next
    element; any marker of calls that is one token ends it too.
    """

    def __init__(
        self,
        data: Elements,
        close: tuple[str, ...],
        repeat: bool,
        encode: Callable[[str], str],
    ) -> None:
        self.settled = BETWEEN
        self._data = data
        self._repeat = repeat
        self._heads = Heads(data.heads, encode)
        self._parameters = Heads(data.parameters, encode)
        self._section_close = Literals(close)
        self._call_close = Literals([encode(literal) for literal in data.close])
        self._closers = [encode(literal) for literal in data.parameter_close]
        self._value_close = Literals([literal.split("{key}")[0] for literal in self._closers])
        self._tags = Tags(encode(data.nested)) if data.nested else None
        leads = () if data.nested else self._parameters.leads
        self._enders = Literals([*leads, *self._call_close.all, *close])
        self.closes = (*close, *self._call_close.all)
        firsts = {literal[0] for literal in (*self._enders.all, *self._value_close.all)}
        self._stop = re.compile("[\ud800-\udbff" + "".join(re.escape(first) for first in sorted(firsts)) + "]")

    def step(self, run: Run) -> int:
        """See :class:`~app.parsing.scanner.BodyMachine`."""
        state = run.state
        while True:
            if state.phase == BETWEEN:
                found = between_calls(run, self._heads, self._section_close, self._repeat)
                if isinstance(found, int):
                    return found
                state.cursor, fields = found
                state.name = self._tool(fields["name"], run)
                state.native = fields.get("id") or ""
                if self._data.certain:
                    self._start(run)
                state.phase = ARGUMENTS
            elif state.phase == ARGUMENTS:
                outcome = self._arguments(run)
                if outcome >= 0:
                    return outcome
            elif state.phase == VALUE and self._tags is not None:
                outcome = self._tree(run, self._tags)
                if outcome >= 0:
                    return outcome
            elif not self._value(run):
                return MORE

    def flush(self, run: Run) -> bool:
        """See :class:`~app.parsing.scanner.BodyMachine`."""
        state = run.state
        rest = state.pending[state.cursor :]
        if state.phase == ARGUMENTS:
            key = self._parameters.half_key(rest.lstrip(), 0)
            if key:
                run.arguments((", " if state.count else "{") + f'"{quote(key)}')
        elif state.phase == VALUE and self._tags is not None:
            run.arguments(half_json(run.restore(rest), self._types(run)))
        elif state.phase == VALUE:
            self._take(run, len(state.pending), last=True)
            run.arguments(half_json(state.raw, self._types(run)))
        return False

    def _tool(self, name: str, run: Run) -> str:
        once, _, again = name.partition(".")
        tools = run.request.schemas.names
        return once if self._data.doubled and once == again and once in tools and name not in tools else name

    def _start(self, run: Run) -> None:
        state = run.state
        run.start_call(state.name, state.native or run.request.native_id(state.name, state.calls))

    def _types(self, run: Run) -> frozenset[str]:
        state = run.state
        if state.flags & OVER_LIMIT:
            return STRING
        if self._data.typed_by == "schema" or not state.kind:
            return run.request.schemas.types(state.name, state.key)
        return STRING if state.kind == "string" else ANY

    def _arguments(self, run: Run) -> int:
        """Between two arguments: the next one, or the call's end."""
        state = run.state
        text = state.pending
        at = skip_space(text, state.cursor)
        if state.open:
            state.cursor = at
        elif at - state.cursor > SPACE_LIMIT:
            return FAILED
        if at == len(text):
            return MORE
        head = self._parameters.match(text, at)
        end = self._call_close.match(text, at)
        if isinstance(head, tuple):
            if not state.open:
                self._start(run)
            state.cursor, fields = head
            state.key = fields["key"]
            run.arguments((", " if state.count else "{") + f'"{quote(state.key)}": ')
            state.count += 1
            kind = (fields.get("type") or "").lower()
            state.kind = "string" if kind in ("true", "string", "str") else kind
            state.flags = 0
            state.raw = ""
            if self._types(run) == STRING:
                run.arguments('"')
                state.phase = STRING_VALUE
            else:
                state.phase = VALUE
                state.marks = [0, 0]
            return -1
        if end is None or (head == "partial" and end < 0):
            return MORE
        if end >= 0:
            if not state.open:
                self._start(run)
            self._end(run, end)
            return -1
        over = self._section_close.match(text, at)
        if over is None:
            return MORE
        if over >= 0 and state.open:
            self._end(run, at)
            return -1
        return FAILED

    def _end(self, run: Run, cursor: int) -> None:
        state = run.state
        run.arguments("}" if state.count else "{}")
        state.cursor = cursor
        run.end_call(True)
        state.phase = BETWEEN

    def _value(self, run: Run) -> bool:
        """A value up to its end; False where that is still to come."""
        state = run.state
        text, at = state.pending, state.cursor
        if self._data.trim and not state.flags & STARTED:
            if at == len(text):
                return False
            if text[at] == "\n":
                state.cursor = at = at + 1
            elif text.startswith("\r\n", at):
                state.cursor = at = at + 2
            state.flags |= STARTED
        while True:
            found = self._stop.search(text, at)
            if found is None:
                at = len(text)
                break
            at = found.start()
            end = self._closer(state.key).match(text, at)
            if end is not None and end >= 0:
                return self._finish_value(run, at, end)
            ender = self._enders.match(text, at)
            if end is None or ender is None:
                break
            if ender >= 0 or "\ud800" <= text[at] <= "\udbff":
                return self._finish_value(run, at, at)
            at += 1
        self._take(run, at, last=False)
        return False

    def _closer(self, key: str) -> Literals:
        if self._tags is None:
            return self._value_close
        return Literals([literal.replace("{key}", key) for literal in self._closers])

    def _tree(self, run: Run, tags: Tags) -> int:
        """A value that may hold elements, up to its own closer: ``marks`` are the depth and how far it is read."""
        state = run.state
        text = state.pending
        depth, seen = state.marks
        for found in tags.pattern.finditer(text, state.cursor + seen):
            depth += -1 if found[1] else 1
            seen = found.end() - state.cursor
            if depth < 0:
                inside = text[state.cursor : found.start()]
                if found[2] != state.key:
                    return FAILED
                schema = run.request.schemas.parameters(state.name).property(state.key)
                run.arguments(run.restore(tree_json(inside, tags, schema)))
                state.cursor = found.end()
                state.marks = [-1, -1]
                state.phase = ARGUMENTS
                return -1
        state.marks = [depth, seen]
        return FAILED if len(text) - state.cursor > ATTEMPT_LIMIT else MORE

    def _finish_value(self, run: Run, at: int, cursor: int) -> bool:
        state = run.state
        self._take(run, at, last=True)
        if state.phase == STRING_VALUE:
            run.arguments('"')
        else:
            run.arguments(as_json(state.raw, self._types(run)))
        state.raw = ""
        state.cursor = cursor
        state.phase = ARGUMENTS
        return True

    def _take(self, run: Run, at: int, *, last: bool) -> None:
        """The value's text up to ``at``, less the line break that belongs to its closer."""
        state = run.state
        piece = state.pending[state.cursor : at]
        if self._data.trim and piece.endswith("\n"):
            cut = 2 if piece.endswith("\r\n") else 1
            piece = piece[:-cut]
            if not last:
                at -= cut
        elif self._data.trim and not last and piece.endswith("\r"):
            piece = piece[:-1]
            at -= 1
        state.cursor = at
        if state.phase == STRING_VALUE:
            run.arguments(quote(run.restore(piece)))
            return
        state.raw += run.restore(piece)
        if len(state.raw) > VALUE_LIMIT:
            run.arguments('"' + quote(state.raw))
            state.raw = ""
            state.flags |= OVER_LIMIT
            state.phase = STRING_VALUE
