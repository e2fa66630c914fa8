"""Refuses sampling values that are out of range, before anything is rendered."""

import re
from collections.abc import Mapping
from typing import Any

from app.errors import InvalidRequest
from app.rendering.limits import INT64, MAX_BAD_WORDS, MAX_CHOICES, MAX_LOGPROB_TOKEN_IDS, MAX_STOP_STRINGS, TOKEN_IDS
from app.rendering.request import SamplingRequest
from app.rendering.sampling import effective_temperature

__all__ = ("check_sampling",)

_TOKEN_ID = re.compile(r"[0-9]{1,10}")


def check_sampling(
    request: SamplingRequest, defaults: Mapping[str, Any], max_model_len: int, *, names: Mapping[str, str] = {}
) -> None:
    """Refuse values outside their ranges, and combinations that contradict each other.

    Args:
        request: the sampling as asked for.
        defaults: the model's generation config, which decides whether an unset temperature is greedy.
        max_model_len: prompt and output together, in tokens.
        names: fields that the dialect names otherwise, such as ``stop`` to ``stop_sequences``.

    Raises:
        InvalidRequest: with ``param`` naming the field.
    """
    checks = _Checks(names)
    _check_numbers(request, checks)
    if request.n > 1 and effective_temperature(request, defaults) == 0:
        raise InvalidRequest("Greedy sampling gives one choice only: `n` must be 1.", param="n")
    _check_lengths(request, max_model_len, checks)
    _check_lists(request, checks)


class _Checks:
    """Names the field as the dialect does."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def require(self, holds: bool, field: str, must: str) -> None:
        if not holds:
            name = self.names.get(field, field)
            raise InvalidRequest(f"`{name}` must {must}.", param=name)


def _check_numbers(request: SamplingRequest, checks: _Checks) -> None:
    require = checks.require
    require(1 <= request.n <= MAX_CHOICES, "n", f"be from 1 to {MAX_CHOICES}")
    require(_within(request.temperature, 0, 2), "temperature", "be from 0 to 2")
    require(request.top_p is None or 0 < request.top_p <= 1, "top_p", "be above 0 and at most 1")
    require(_whole(request.top_k, -1), "top_k", "be at least 1, or 0 or -1 for all candidates")
    require(_within(request.min_p, 0, 1), "min_p", "be from 0 to 1")
    require(_within(request.presence_penalty, -2, 2), "presence_penalty", "be from -2 to 2")
    require(_within(request.frequency_penalty, -2, 2), "frequency_penalty", "be from -2 to 2")
    penalty = request.repetition_penalty
    require(penalty is None or 0 < penalty < float("inf"), "repetition_penalty", "be above 0")
    require(request.seed is None or request.seed in INT64, "seed", "be a 64-bit integer")
    require(_whole(request.stream_interval, 1), "stream_interval", "be at least 1")
    require(_whole(request.thinking_token_budget, -1), "thinking_token_budget", "be at least 0, or -1 for no limit")
    require(_whole(request.routed_experts_prompt_start, 0), "routed_experts_prompt_start", "be at least 0")
    require(_whole(request.logprobs, -1), "logprobs", "be at least 0, or -1 for the whole vocabulary")
    require(_whole(request.prompt_logprobs, -1), "prompt_logprobs", "be at least 0, or -1 for the whole vocabulary")


def _check_lengths(request: SamplingRequest, max_model_len: int, checks: _Checks) -> None:
    limit, name = request.max_tokens, request.max_tokens_param
    checks.require(limit is None or limit >= 1, name, "be at least 1")
    checks.require(limit is None or limit <= max_model_len, name, f"be at most {max_model_len}, the model's context")
    checks.require(_whole(request.min_tokens, 0), "min_tokens", "be at least 0")
    checks.require(limit is None or request.min_tokens <= limit, "min_tokens", f"be at most `{name}`")


def _check_lists(request: SamplingRequest, checks: _Checks) -> None:
    require = checks.require
    ids = (request.stop_token_ids, request.allowed_token_ids, request.logprob_token_ids)
    if not any((request.stop, request.bad_words, request.logit_bias, *ids)):
        return
    require(len(request.stop) <= MAX_STOP_STRINGS, "stop", f"have at most {MAX_STOP_STRINGS} strings")
    require("" not in request.stop, "stop", "not have an empty string")
    require(len(request.bad_words) <= MAX_BAD_WORDS, "bad_words", f"have at most {MAX_BAD_WORDS} words")
    require("" not in request.bad_words, "bad_words", "not have an empty word")
    asked = request.logprob_token_ids or ()
    require(len(asked) <= MAX_LOGPROB_TOKEN_IDS, "logprob_token_ids", f"have at most {MAX_LOGPROB_TOKEN_IDS} ids")
    for field in ("stop_token_ids", "allowed_token_ids", "logprob_token_ids"):
        require(all(token in TOKEN_IDS for token in getattr(request, field) or ()), field, "be a list of token ids")
    biased = request.logit_bias or ()
    require(all(_TOKEN_ID.fullmatch(key) for key in biased), "logit_bias", "have token ids as keys")


def _within(value: float | None, least: float, most: float) -> bool:
    return value is None or least <= value <= most


def _whole(value: int | None, least: int) -> bool:
    return value is None or least <= value < INT64.stop
