"""Sampled ids to the stop string that ends an output."""

from collections.abc import Sequence

from app.tokenizing.detokenizer import Detokenizer
from app.tokenizing.stop_strings import StopState, StopStrings
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("StopWatch",)


class StopWatch:
    """Watches one output's text. The text itself is made elsewhere; ids are never cut."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        stops: Sequence[str],
        prompt_ids: Sequence[int],
        *,
        min_tokens: int = 0,
        skip_special_tokens: bool = True,
    ) -> None:
        self._detokenizer = Detokenizer(tokenizer, skip_special_tokens=skip_special_tokens)
        self._text = self._detokenizer.start(prompt_ids)
        self._strings = StopStrings(stops, min_tokens=min_tokens)
        self._state = StopState()

    def add(self, token: int) -> str | None:
        """The stop string that this token completed, or None."""
        piece = (token, self._detokenizer.feed(self._text, token))
        _, match = self._strings.feed(self._state, [piece])
        return None if match is None else match.stop
