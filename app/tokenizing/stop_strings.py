"""Text pieces to text pieces that end at the first stop string.

A piece is held back while its text may still become part of a stop string, so nothing that was given out is ever cut.
Pieces are released whole: a token's id and its text stay together.
"""

from collections.abc import Sequence

from msgspec import Struct

__all__ = ("NO_TOKEN", "Piece", "StopMatch", "StopState", "StopStrings")

Piece = tuple[int, str]
NO_TOKEN = -1
"""The id of a piece that is only a part of a token's text, so that it passes for no marker."""


class StopState(Struct, array_like=True):
    """What is held back, and how many tokens have come (which ``min_tokens`` counts)."""

    held: list[Piece] = []
    tokens: int = 0


class StopMatch(Struct, frozen=True):
    """The stop string that ended the output, and how many of the fed pieces it took."""

    stop: str
    taken: int


class StopStrings:
    """The stop strings of one request; holds no stream state.

    Args:
        stops: the strings, none empty.
        min_tokens: a match only counts if it ends in a token after this many.
        include: whether the stop string stays in the text.
    """

    def __init__(self, stops: Sequence[str], *, min_tokens: int = 0, include: bool = False) -> None:
        self._stops = tuple(dict.fromkeys(stops))
        self._min_tokens = min_tokens
        self._include = include

    def feed(
        self, state: StopState, pieces: Sequence[Piece], announced: str | None = None
    ) -> tuple[list[Piece], StopMatch | None]:
        """Pieces that no stop string can touch any more, and the match, if one is complete.

        The first match is the one that ends first; of those, the one that ``announced`` (the engine's own word on
        what stopped it) names, else the longest. After a match nothing is held and nothing may be fed.
        """
        released: list[Piece] = []
        for taken, piece in enumerate(pieces, 1):
            state.tokens += 1
            before = "".join([text for _, text in state.held])
            state.held.append(piece)
            if not piece[1]:
                if not before:
                    released += state.held
                    state.held = []
                continue
            text = before + piece[1]
            found = self._find(text, len(before), announced) if state.tokens > self._min_tokens else None
            if found is not None:
                stop, end = found
                released += _cut(state.held, end if self._include else end - len(stop))
                state.held = []
                return released, StopMatch(stop, taken)
            keep = self._partial(text)
            spare = len(text) - keep
            while state.held and len(state.held[0][1]) <= spare:
                spare -= len(state.held[0][1])
                released.append(state.held.pop(0))
        return released, None

    def flush(self, state: StopState) -> list[Piece]:
        """The output is over: what was held back is text."""
        held, state.held = state.held, []
        return held

    def _find(self, text: str, old: int, announced: str | None) -> tuple[str, int] | None:
        """The first stop string that ends after ``old`` characters, with its end."""
        best: tuple[int, bool, int, str] | None = None
        stops = self._stops if announced is None else (*self._stops, announced)
        for stop in stops:
            at = text.find(stop, max(0, old - len(stop) + 1))
            if at >= 0:
                rank = (at + len(stop), stop != announced, -len(stop), stop)
                best = rank if best is None or rank < best else best
        return None if best is None else (best[3], best[0])

    def _partial(self, text: str) -> int:
        """Length of the longest end of ``text`` that a stop string begins with."""
        longest = 0
        for stop in self._stops:
            for length in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:length]):
                    longest = length
                    break
        return longest


def _cut(pieces: Sequence[Piece], length: int) -> list[Piece]:
    """The first ``length`` characters; a piece that is cut loses its id."""
    kept: list[Piece] = []
    for token_id, text in pieces:
        if len(text) > length:
            if length:
                kept.append((NO_TOKEN, text[:length]))
            break
        kept.append((token_id, text))
        length -= len(text)
    return kept
