"""Text with markers to deltas: finds what opens reasoning or calls, and lets a section's body read the calls.

A section is an attempt until its first call is certain: until then nothing of it is given out, and where no call
comes of it, its text goes back to the channel it came from (after other sections with the same opener had their try).
"""

import re
from collections.abc import Callable, Sequence

from app.parsing.body import CLOSED, FAILED, LEFT, MORE, BodyMachine
from app.parsing.format import ReasoningFormat, Section
from app.parsing.run import ATTEMPT_LIMIT, SPACE_LIMIT, Run
from app.parsing.state import CALLS, CONTENT, REASONING, TEXT, State

__all__ = ("Scanner",)


class _Opening:
    """One literal that means something in a channel, and what it does."""

    __slots__ = ("action", "bare", "literal", "section", "start_only")

    def __init__(self, literal: str, action: str, section: int = -1, bare: bool = False, start_only: bool = False):
        self.literal = literal
        self.action = action
        self.section = section
        self.bare = bare
        self.start_only = start_only


class Scanner:
    """A format pair bound to one vocabulary and one request's schemas.

    Args:
        sections: of the tool format, each with its bound body; none where calls are not read.
        forced: how many of them, at the end, count only at the very start of content.
        reasoning: the reasoning format; None where reasoning is not read.
        encode: puts surrogates for the markers in a literal.
    """

    def __init__(
        self,
        sections: Sequence[tuple[Section, BodyMachine]],
        reasoning: ReasoningFormat | None,
        encode: Callable[[str], str],
        *,
        forced: int = 0,
    ) -> None:
        self._forced = len(sections) - forced
        self.sections = [section for section, _ in sections]
        self.bodies = [body for _, body in sections]
        self.opens = [encode(section.open) for section in self.sections]
        self.closes = [tuple(encode(literal) for literal in section.close) for section in self.sections]
        content: list[_Opening] = []
        thought: list[_Opening] = []
        taken: set[tuple[str, bool]] = set()
        for index, section in enumerate(self.sections):
            literal, bare = self.opens[index], section.bare
            if (literal, bare) not in taken:
                taken.add((literal, bare))
                content.append(_Opening(literal, "section", index, bare, index >= self._forced))
                if not bare:
                    thought.append(_Opening(literal, "section", index))
        strays = {close for closes in self.closes for close in closes if len(close) == 1 and close >= "\ud800"}
        if reasoning is not None and not reasoning.as_content:
            for literal in reasoning.open:
                content.append(_Opening(encode(literal), "open"))
                thought.append(_Opening(encode(literal), "reopen"))
            for literal in reasoning.close:
                content.append(_Opening(encode(literal), "drop"))
                thought.append(_Opening(encode(literal), "close"))
            for literal in reasoning.dropped:
                content.append(_Opening(encode(literal), "drop"))
                thought.append(_Opening(encode(literal), "drop"))
        content += [_Opening(close, "stray") for close in strays]
        self._triggers = tuple(_trigger(openings) for openings in (content, thought))
        self._openings = tuple(_by_first(openings) for openings in (content, thought))

    def advance(self, run: Run) -> None:
        """Read ``state.pending`` as far as it decides; at the end of the output, all of it."""
        state = run.state
        while state.pending or state.mode == CALLS:
            if state.mode == TEXT:
                if not self._read_text(run):
                    return
                continue
            outcome = self.bodies[state.section].step(run)
            if outcome == MORE:
                if run.final:
                    self._cut(run)
                    continue
                if state.open:
                    if state.cursor:
                        state.pending = state.pending[state.cursor :]
                        state.cursor = 0
                    return
                if len(state.pending) <= ATTEMPT_LIMIT:
                    return
                outcome = FAILED
            if outcome == CLOSED and state.done:
                run.marker()
                self._leave(state, state.cursor)
            elif outcome == LEFT:
                state.owed = bool(self.closes[state.section])
                self._leave(state, state.cursor)
            elif state.open:
                # the broken call ends; its section's closer, or another call, may still follow
                run.end_call(False)
                state.phase, state.stack = 0, ""
            else:
                self._revert(run)

    def _read_text(self, run: Run) -> bool:
        """Text up to what decides something; False where all is read, or what is left may still become a marker."""
        state = run.state
        text = state.pending
        channel = state.channel
        trigger, openings = self._triggers[channel], self._openings[channel]
        at = 0
        while True:
            found = trigger.search(text, at)
            if found is None:
                run.text(text)
                state.pending = ""
                return False
            at = found.start()
            for opening in openings[text[at]]:
                literal = opening.literal
                if not text.startswith(literal, at):
                    if not run.final and literal.startswith(text[at:]):
                        run.text(text[:at])
                        state.pending = text[at:]
                        return False
                    continue
                if opening.bare and not self._stands_bare(opening, state, text, at):
                    continue
                if opening.action == "reopen" and _begun(state, REASONING, text[:at]):
                    continue
                if opening.action == "stray" and not state.owed:
                    continue
                run.text(text[:at])
                self._act(opening, run, text, at)
                return True
            at += 1

    def _act(self, opening: _Opening, run: Run, text: str, at: int) -> None:
        state = run.state
        if opening.action == "section":
            state.pending = text[at:]
            self._enter(state, opening.section)
            return
        state.pending = text[at + len(opening.literal) :]
        run.marker()
        state.owed = False
        if opening.action == "open":
            state.channel = REASONING
        elif opening.action == "close":
            state.channel = CONTENT

    @staticmethod
    def _stands_bare(opening: _Opening, state: State, text: str, at: int) -> bool:
        before = text[:at]
        if opening.start_only and (state.calls or _begun(state, CONTENT, before)):
            return False
        line = before.rfind("\n")
        return (line >= 0 or state.line_start) and not before[line + 1 :].strip()

    def _enter(self, state: State, index: int) -> None:
        section = self.sections[index]
        state.owed = False
        state.mode = CALLS
        state.section = index
        state.cursor = 0 if section.bare or section.lead else len(self.opens[index])
        state.done = state.phase = state.flags = state.count = 0
        state.stack = state.name = state.native = state.key = state.raw = state.quoted = ""
        state.marks = [-1, -1]

    def _leave(self, state: State, cursor: int) -> None:
        """Back to text, at ``cursor``."""
        state.mode = TEXT
        state.pending = state.pending[cursor:]
        state.cursor = state.phase = state.flags = state.done = 0
        state.stack = state.name = state.native = state.key = state.raw = state.quoted = ""
        state.marks = [-1, -1]

    def _revert(self, run: Run) -> None:
        """No call here: the next section with this opener has its try, or the opener is text."""
        state = run.state
        if state.done:
            self._leave(state, 0)
            return
        literal, bare = self.opens[state.section], self.sections[state.section].bare
        begun = state.written[CONTENT] or state.calls > 0
        for index in range(state.section + 1, len(self.sections)):
            if begun and index >= self._forced:
                break
            if self.opens[index] == literal and self.sections[index].bare == bare:
                self._enter(state, index)
                return
        first = state.pending[0]
        self._leave(state, 1)
        run.text(first)

    def _cut(self, run: Run) -> None:
        """The output is over inside a section."""
        state = run.state
        body = self.bodies[state.section]
        if state.open:
            complete = body.flush(run)
            state.cursor = len(state.pending)
            run.end_call(complete)
            self._leave(state, 0)
        elif state.done and state.phase <= body.settled:
            rest = state.pending[state.cursor :]
            half = rest.strip()
            if any(close.startswith(half) for close in body.closes):
                rest = ""
            self._leave(state, len(state.pending) - len(rest))
        else:
            self._revert(run)


def _begun(state: State, channel: int, before: str) -> bool:
    """Whether a channel has text once ``before`` is given out: white space over the limit is text too."""
    held = len(state.spaces[channel]) + len(before)
    return state.written[channel] or bool(before.strip()) or held >= SPACE_LIMIT


def _trigger(openings: Sequence[_Opening]) -> "re.Pattern[str]":
    firsts = sorted({opening.literal[0] for opening in openings})
    return re.compile("[" + "".join(re.escape(first) for first in firsts) + "]" if firsts else "(?!)")


def _by_first(openings: Sequence[_Opening]) -> dict[str, list[_Opening]]:
    grouped: dict[str, list[_Opening]] = {}
    for opening in sorted(openings, key=lambda opening: -len(opening.literal)):
        grouped.setdefault(opening.literal[0], []).append(opening)
    return grouped
