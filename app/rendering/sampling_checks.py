"""Refuses sampling values that are out of range, before anything is rendered."""

import math
import re
import sys
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from app.errors import InvalidRequest
from app.rendering.limits import (
    INT64,
    MAX_ALLOWED_TOKEN_IDS,
    MAX_BAD_WORD_CHARACTERS,
    MAX_BAD_WORDS,
    MAX_BIASES,
    MAX_CHOICES,
    MAX_LOGPROB_TOKEN_IDS,
    MAX_STOP_CHARACTERS,
    MAX_STOP_STRINGS,
    MAX_STOP_TOKEN_IDS,
    TOKEN_IDS,
)
from app.rendering.request import SamplingRequest
from app.rendering.sampling import effective_temperature

__all__ = ("check_sampling",)

_TOKEN_ID = re.compile(r"[0-9]{1,10}")
_ABOVE_0 = math.ulp(0.0)
_INT64 = INT64.stop - 1
_RANGES: tuple[tuple[str, float, float, str], ...] = (
    ("n", 1, MAX_CHOICES, f"be from 1 to {MAX_CHOICES}"),
    ("temperature", 0, 2, "be from 0 to 2"),
    ("top_p", _ABOVE_0, 1, "be above 0 and at most 1"),
    ("top_k", -1, _INT64, "be at least 1, or 0 or -1 for all candidates"),
    ("min_p", 0, 1, "be from 0 to 1"),
    ("presence_penalty", -2, 2, "be from -2 to 2"),
    ("frequency_penalty", -2, 2, "be from -2 to 2"),
    ("repetition_penalty", _ABOVE_0, sys.float_info.max, "be above 0"),
    ("seed", INT64.start, _INT64, "be a 64-bit integer"),
    ("stream_interval", 1, _INT64, "be at least 1"),
    ("thinking_token_budget", -1, _INT64, "be at least 0, or -1 for no limit"),
    ("routed_experts_prompt_start", 0, _INT64, "be at least 0"),
    ("logprobs", -1, _INT64, "be at least 0, or -1 for the whole vocabulary"),
    ("prompt_logprobs", -1, _INT64, "be at least 0, or -1 for the whole vocabulary"),
    ("min_tokens", 0, _INT64, "be at least 0"),
)
"""Least and most of a number, and what a refusal says."""
_LEAST, _MOST = [least for _, least, _, _ in _RANGES], [most for _, _, most, _ in _RANGES]
_ID_LISTS = (
    ("stop_token_ids", MAX_STOP_TOKEN_IDS),
    ("allowed_token_ids", MAX_ALLOWED_TOKEN_IDS),
    ("logprob_token_ids", MAX_LOGPROB_TOKEN_IDS),
)
_numbers = attrgetter(*(field for field, *_ in _RANGES))


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
    for place, value in enumerate(_numbers(request)):
        if value is not None and not _LEAST[place] <= value <= _MOST[place]:
            field, _, _, must = _RANGES[place]
            checks.require(False, field, must)


def _check_lengths(request: SamplingRequest, max_model_len: int, checks: _Checks) -> None:
    limit, name = request.max_tokens, request.max_tokens_param
    if limit is None:
        return
    if not 1 <= limit <= max_model_len:
        must = "be at least 1" if limit < 1 else f"be at most {max_model_len}, the model's context"
        checks.require(False, name, must)
    if request.min_tokens > limit:
        checks.require(False, "min_tokens", f"be at most `{name}`")


def _check_lists(request: SamplingRequest, checks: _Checks) -> None:
    require = checks.require
    ids = (request.stop_token_ids, request.allowed_token_ids, request.logprob_token_ids)
    if not any((request.stop, request.bad_words, request.logit_bias, *ids)):
        return
    require(len(request.stop) <= MAX_STOP_STRINGS, "stop", f"have at most {MAX_STOP_STRINGS} strings")
    require("" not in request.stop, "stop", "not have an empty string")
    longest = max(map(len, request.stop), default=0)
    require(longest <= MAX_STOP_CHARACTERS, "stop", f"have strings of at most {MAX_STOP_CHARACTERS} characters")
    require(len(request.bad_words) <= MAX_BAD_WORDS, "bad_words", f"have at most {MAX_BAD_WORDS} words")
    require("" not in request.bad_words, "bad_words", "not have an empty word")
    characters = sum(map(len, request.bad_words))
    require(
        characters <= MAX_BAD_WORD_CHARACTERS,
        "bad_words",
        f"have at most {MAX_BAD_WORD_CHARACTERS} characters in all",
    )
    for field, most in _ID_LISTS:
        found = getattr(request, field) or (0,)
        require(len(found) <= most, field, f"have at most {most} ids")
        require(min(found) in TOKEN_IDS and max(found) in TOKEN_IDS, field, "be a list of token ids")
    biased = request.logit_bias or ()
    require(len(biased) <= MAX_BIASES, "logit_bias", f"have at most {MAX_BIASES} entries")
    require(all(_TOKEN_ID.fullmatch(key) for key in biased), "logit_bias", "have token ids as keys")
