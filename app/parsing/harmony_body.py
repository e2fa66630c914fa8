"""Harmony's messages to deltas: analysis is reasoning, a recipient makes a call, the rest is content."""

import re
from collections.abc import Callable, Sequence

from app.parsing.format import HarmonyMessages
from app.parsing.harmony_header import HeaderReader
from app.parsing.json_value import BROKEN, DONE, walk
from app.parsing.run import SPACE_LIMIT, Run
from app.parsing.state import CONTENT, REASONING

__all__ = ("HarmonyScanner",)

OUTSIDE, HEADER, TEXT_BODY, CALL_BODY, RAW_BODY = range(5)
WHOLE, SPOILED = 1, 2
"""Flags of ``state.flags``: the arguments are one whole JSON value; something else stands in them."""


class HarmonyScanner:
    """Reads :class:`~app.parsing.format.HarmonyMessages`; takes the place of :class:`app.parsing.scanner.Scanner`.

    A channel or start marker inside a body ends it; text outside messages is content; a header that never completes is
    content; the recipient may stand in the role's part. Two messages of one channel are joined by one line break.

    Args:
        reads_calls: False where a call's message is raw content.
    """

    def __init__(self, data: HarmonyMessages, encode: Callable[[str], str], reads_calls: bool) -> None:
        self._data = data
        self._reads_calls = reads_calls
        self._headers = reader = HeaderReader(data, encode)
        ends = [encode(literal) for literal in data.ends]
        self._begin = (reader.start, reader.channel, reader.message)
        self._outside = _any_of([*self._begin, *ends])
        self._body = _any_of([reader.start, reader.channel, *ends])
        self._half = [literal for literal in (*self._begin, *ends) if len(literal) > 1]
        self.start_literal = data.start

    def advance(self, run: Run) -> None:
        """Read ``state.pending`` as far as it decides; at the end of the output, all of it."""
        state = run.state
        while state.pending:
            if state.phase == HEADER:
                if not self._read_header(run):
                    return
            elif not self._read_until(run, self._outside if state.phase == OUTSIDE else self._body):
                return
        if run.final and state.phase == CALL_BODY:
            self._end_call(run)

    def _held(self, run: Run, text: str) -> int:
        """Where a marker spelled in text may still begin at the end of ``text``."""
        if not run.final:
            for literal in self._half:
                for size in range(min(len(literal) - 1, len(text)), 0, -1):
                    if literal.startswith(text[-size:]):
                        return len(text) - size
        return len(text)

    def _read_until(self, run: Run, stop: "re.Pattern[str]") -> bool:
        """The text of a message, or between two, up to the next marker."""
        state = run.state
        text = state.pending
        found = stop.search(text)
        end = found.start() if found else self._held(run, text)
        self._give(run, text[:end])
        if found is None:
            state.pending = text[end:]
            return False
        literal = found[0]
        if state.phase == CALL_BODY:
            self._end_call(run)
        elif state.phase == RAW_BODY and literal not in self._begin:
            run.text(literal)
        if state.phase != RAW_BODY:
            run.marker()
        if literal in self._begin:
            state.pending = text[end:]
            state.phase = HEADER
        else:
            state.pending = text[found.end() :]
            state.phase = OUTSIDE
            state.channel = CONTENT
        return True

    def _give(self, run: Run, text: str) -> None:
        state = run.state
        if state.phase == CALL_BODY:
            self._arguments(run, run.restore(text))
        else:
            run.text(text)

    def _read_header(self, run: Run) -> bool:
        state = run.state
        text = state.pending
        header = self._headers.read(text)
        if header is True and not run.final:
            return False
        if isinstance(header, bool):
            prompted = max(state.marks[0], 0)
            state.marks[0] = -1
            state.phase = OUTSIDE
            state.channel = CONTENT
            state.pending = text[max(prompted, 1) :]
            if not prompted:
                run.text(text[0])
            return True
        end, role, channel = header
        state.pending = text[end:]
        state.marks[0] = -1
        run.marker()
        self._open(run, text[:end], role, channel)
        return True

    def _open(self, run: Run, raw: str, role: str, channel: str) -> None:
        """A message begins: what its header says of it."""
        state = run.state
        recipient = re.search(r"(?:^|\s)to=(\S+)", channel) or re.search(r"\sto=(\S+)", role)
        words = channel.split()
        name = self._call_name(run, recipient[1] if recipient else "")
        state.flags = 0
        state.stack = state.quoted = ""
        if name and self._reads_calls:
            run.start_call(name)
            state.phase = CALL_BODY
            return
        if name:
            state.phase = RAW_BODY
            state.channel = CONTENT
            run.text(raw)
            return
        state.phase = TEXT_BODY
        state.channel = REASONING if words and words[0] in self._data.reasoning else CONTENT
        if state.written[state.channel]:
            state.spaces[state.channel] = "\n"

    def _call_name(self, run: Run, recipient: str) -> str:
        prefix = self._data.recipient
        if recipient.startswith(prefix):
            return recipient[len(prefix) :]
        return recipient if recipient in run.request.schemas.names else ""

    def _arguments(self, run: Run, text: str) -> None:
        """Arguments as written, less white space around them; whether they are one whole value is kept in mind."""
        state = run.state
        text = state.raw + text
        if not state.count:
            text = text.lstrip()
        end = max(len(text.rstrip()), len(text) - SPACE_LIMIT)
        state.raw = text[end:]
        text = text[:end]
        if not text:
            return
        if state.flags & WHOLE or (not state.count and text[0] not in "{["):
            state.flags |= SPOILED
        state.count = 1
        if not state.flags & (WHOLE | SPOILED):
            at, state.stack, quoted, why = walk(text, 0, state.stack, bool(state.quoted), 0)
            state.quoted = '"' if quoted else ""
            if why == DONE:
                state.flags |= WHOLE
                if at < len(text):
                    state.flags |= SPOILED
            elif why == BROKEN:
                state.flags |= SPOILED
            elif at < len(text):
                # half an escape is read again with what follows it
                state.raw = text[at:] + state.raw
                text = text[:at]
        run.arguments(text)

    def _end_call(self, run: Run) -> None:
        state = run.state
        if state.raw.strip():
            run.arguments(state.raw)
        if not state.count:
            run.arguments("{}")
        complete = not state.flags & SPOILED and (bool(state.flags & WHOLE) or not state.count)
        pending = state.pending
        state.cursor = 0
        run.end_call(complete)
        state.pending = pending
        state.phase = OUTSIDE
        state.stack = ""


def _any_of(literals: Sequence[str]) -> "re.Pattern[str]":
    return re.compile("|".join(re.escape(literal) for literal in sorted(literals, key=len, reverse=True)))
