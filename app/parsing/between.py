"""What stands between two calls of a section: the next head, a closer, or text."""

from app.parsing.body import CLOSED, FAILED, LEFT, MORE
from app.parsing.heads import Heads, Literals, Match
from app.parsing.run import SPACE_LIMIT, Run

__all__ = ("between_calls", "skip_gap", "skip_space")


def between_calls(run: Run, heads: Heads, closes: Literals, repeat: bool) -> int | tuple[int, Match]:
    """Between two calls of a section: the next head (its end and fields), or what a body says.

    White space and one stray closing bracket before a closer are dropped.
    """
    state = run.state
    text, at = state.pending, state.cursor
    at = skip_gap(text, at)
    if at < 0:
        return LEFT if state.done else FAILED
    if at == len(text):
        return MORE
    waiting = False
    if repeat or not state.done:
        head = heads.match(text, at)
        if head == "partial":
            waiting = True
        elif head is not None:
            return head
    stray = state.done and text[at] in "]})"
    for start in (at, at + 1) if stray else (at,):
        start = skip_space(text, start)
        if start == len(text):
            return MORE
        end = closes.match(text, start)
        if end is None:
            waiting = True
        elif end >= 0:
            state.cursor = end
            return CLOSED
    if waiting:
        return MORE
    return LEFT if state.done else FAILED


def skip_space(text: str, at: int) -> int:
    """The first place from ``at`` on that is no white space."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def skip_gap(text: str, at: int) -> int:
    """:func:`skip_space`, but -1 where the white space is longer than may be held."""
    end = skip_space(text, at)
    return -1 if end - at > SPACE_LIMIT else end
