"""One output in the making: its ids, its cache, its random numbers, and when it ends."""

import random
from collections.abc import Iterable
from typing import Any

from app.engines.local.attention import KvCache
from app.engines.local.constraint import Constraint
from app.engines.local.plan import Plan
from app.engines.local.stops import StopWatch
from app.engines.local.vision import MediaInput
from app.protocol.generate import GenerateRequest, RepetitionDetection

__all__ = ("Sequence", "repeats")


class Sequence:
    """State of one output of a request; touched by the model thread alone.

    ``ids`` are prompt and output; the first ``cache.length`` are computed. ``ends`` are the ids that end the output.
    """

    def __init__(
        self,
        request: GenerateRequest,
        plan: Plan,
        index: int,
        *,
        eos: tuple[int, ...],
        stops: StopWatch | None = None,
        constraint: Constraint | None = None,
        media: MediaInput | None = None,
    ) -> None:
        self.request = request
        self.media = media
        self.salt = request.cache_salt if media is None else f"{request.cache_salt or ''}/{media.key}"
        """Sequences of another salt share no keys and values with this one."""
        self.plan = plan
        self.index = index
        self.ids = list(request.token_ids)
        self.prompt_length = len(self.ids)
        self.output: list[int] = []
        self.cache: KvCache | None = None
        self.cached_tokens = 0
        self.constraint = constraint
        self.stops = stops
        self.eos = () if plan.ignore_eos else eos
        self.ends = frozenset(eos) | plan.stop_token_ids
        seed = plan.seed
        self.random = random.Random(None if seed is None else seed + index)
        self._thinking_end = plan.thinking_end
        self.prompt_logprobs: list[dict[str, Any] | None] = []
        self.finish_reason: str | None = None
        self.stop_reason: int | str | None = None
        self._seen: Any = None
        self._counts: Any = None
        self._tensors: dict[str, Any] = {}

    @property
    def pending(self) -> int:
        """Tokens that are known but not yet computed; 1 while decoding."""
        return len(self.ids) - (self.cache.length if self.cache is not None else 0)

    @property
    def forced(self) -> int | None:
        """The token that must come next: the end of reasoning, where its budget is used up."""
        budget = self.plan.thinking_token_budget
        return self._thinking_end if budget is not None and 0 <= budget <= len(self.output) else None

    def tensor(self, name: str, values: Iterable[float], like: Any, dtype: Any) -> Any:
        """``values``, which are the same at every step, on the device of ``like``."""
        if name not in self._tensors:
            import torch

            self._tensors[name] = torch.tensor(list(values), device=like.device, dtype=dtype)
        return self._tensors[name]

    def seen(self, like: Any) -> Any:
        """Which ids stand in the prompt or the output, as booleans ``[vocabulary]``."""
        if self._seen is None:
            import torch

            self._seen = like.new_zeros(like.shape[-1], dtype=torch.bool)
            self._seen[torch.tensor(self.ids, device=like.device, dtype=torch.long)] = True
        return self._seen

    def counts(self, like: Any) -> Any:
        """How often each id stands in the output, as floats ``[vocabulary]``."""
        if self._counts is None:
            self._counts = like.new_zeros(like.shape[-1])
            for token in self.output:
                self._counts[token] += 1
        return self._counts

    def append(self, token: int) -> None:
        """Take a sampled token and decide whether it ends the output."""
        self.ids.append(token)
        self.output.append(token)
        if token == self._thinking_end:
            self._thinking_end = None
        if self._seen is not None:
            self._seen[token] = True
        if self._counts is not None:
            self._counts[token] += 1
        if self.constraint is not None:
            self.constraint.accept(token)
        self._finish(token)

    def _finish(self, token: int) -> None:
        plan, count = self.plan, len(self.output)
        ended = count >= plan.min_tokens and (token in self.eos or token in plan.stop_token_ids)
        if ended:
            primary = bool(self.eos) and token == self.eos[0]
            self.finish_reason, self.stop_reason = "stop", None if primary else token
            return
        stop = self.stops.add(token) if self.stops is not None else None
        if stop is not None:
            self.finish_reason, self.stop_reason = "stop", stop
        elif self.constraint is not None and self.constraint.finished:
            self.finish_reason = "stop"
        elif count >= plan.max_tokens:
            self.finish_reason = "length"
        elif plan.repetition_detection is not None and repeats(self.output, plan.repetition_detection):
            self.finish_reason = "repetition"


def repeats(output: list[int], rule: RepetitionDetection) -> bool:
    """Whether the output ends in ``min_count`` copies of a pattern of an allowed size, in tokens."""
    if rule.max_pattern_size <= 0 or rule.min_count < 2:
        return False
    for size in range(max(1, rule.min_pattern_size), rule.max_pattern_size + 1):
        span = size * rule.min_count
        if span > len(output):
            return False
        tail = output[-span:]
        if tail[size:] == tail[:-size]:
            return True
    return False
