"""What a run's chunks tell beside their text: how many tokens there are, and facts of the prompt."""

from typing import Any

from app.dialects.writer import Usage
from app.engines.engine import TokenChunk

__all__ = ("Tally",)


class Tally:
    """What a run's chunks have told so far beside their text: token counts over all outputs, and facts of the prompt.

    ``prompt_logprobs``, ``kv_transfer_params``, ``ec_transfer_params`` and ``metrics`` are as the engine gave them.
    """

    def __init__(self, prompt: int) -> None:
        self.prompt = prompt
        self.completion: dict[int, int] = {}
        self.reasoning: dict[int, int] = {}
        self.cached: int | None = None
        self.prompt_logprobs: list[dict[str, Any] | None] | None = None
        self.kv_transfer_params: dict[str, Any] | None = None
        self.ec_transfer_params: dict[str, Any] | None = None
        self.metrics: dict[str, Any] | None = None

    def note(self, chunk: TokenChunk) -> None:
        """Keep what a chunk says of the prompt and of the run."""
        if chunk.cached_tokens is not None:
            self.cached = max(self.cached or 0, chunk.cached_tokens)
        self.prompt_logprobs = self.prompt_logprobs or chunk.prompt_logprobs
        self.kv_transfer_params = chunk.kv_transfer_params or self.kv_transfer_params
        self.ec_transfer_params = chunk.ec_transfer_params or self.ec_transfer_params
        self.metrics = chunk.metrics or self.metrics

    def count(self, index: int, tokens: int, reasoning: int = 0) -> None:
        """So many tokens an output has now, and how many of them are reasoning."""
        self.completion[index] = tokens
        self.reasoning[index] = reasoning

    @property
    def generated(self) -> int:
        """Tokens of all outputs."""
        return sum(self.completion.values())

    def usage(self) -> Usage:
        """As a writer takes it."""
        return Usage(
            prompt_tokens=self.prompt,
            completion_tokens=self.generated,
            cached_tokens=self.cached,
            reasoning_tokens=sum(self.reasoning.values()) or None,
        )
