from typing import Any

import pytest

from app.errors import InvalidRequest
from app.rendering.limits import MAX_BAD_WORDS, MAX_CHOICES, MAX_LOGPROB_TOKEN_IDS
from app.rendering.request import SamplingRequest
from app.rendering.sampling_checks import check_sampling

FINE: list[tuple[str, Any]] = [
    ("n", 1),
    ("n", MAX_CHOICES),
    ("temperature", 0),
    ("temperature", 2),
    ("top_p", 1),
    ("top_p", 1e-6),
    ("top_k", -1),
    ("top_k", 0),
    ("min_p", 0),
    ("min_p", 1),
    ("presence_penalty", -2),
    ("frequency_penalty", 2),
    ("repetition_penalty", 0.01),
    ("repetition_penalty", 5),
    ("seed", -(2**63)),
    ("seed", 2**63 - 1),
    ("stop", ["a"] * 4),
    ("stop_token_ids", [0]),
    ("max_tokens", 100),
    ("min_tokens", 0),
    ("logprobs", -1),
    ("prompt_logprobs", -1),
    ("logprob_token_ids", [1] * MAX_LOGPROB_TOKEN_IDS),
    ("logit_bias", {"12": 1e9}),
    ("allowed_token_ids", []),
    ("bad_words", ["a"] * MAX_BAD_WORDS),
    ("stream_interval", 1),
    ("thinking_token_budget", -1),
    ("routed_experts_prompt_start", 0),
]

WRONG: list[tuple[str, Any]] = [
    ("n", 0),
    ("n", MAX_CHOICES + 1),
    ("temperature", -0.1),
    ("temperature", 2.1),
    ("temperature", float("nan")),
    ("top_p", 0),
    ("top_p", 1.01),
    ("top_k", -2),
    ("min_p", -0.1),
    ("min_p", 1.1),
    ("presence_penalty", 2.1),
    ("frequency_penalty", -2.1),
    ("repetition_penalty", 0),
    ("repetition_penalty", float("inf")),
    ("seed", 2**63),
    ("stop", ["a"] * 5),
    ("stop", [""]),
    ("stop_token_ids", [-1]),
    ("max_tokens", 0),
    ("max_tokens", -4),
    ("max_tokens", 101),
    ("min_tokens", -1),
    ("logprobs", -2),
    ("prompt_logprobs", -2),
    ("logprob_token_ids", [1] * (MAX_LOGPROB_TOKEN_IDS + 1)),
    ("logprob_token_ids", [2**31]),
    ("logit_bias", {"x": 1}),
    ("logit_bias", {"-1": 1}),
    ("logit_bias", {"": 1}),
    ("allowed_token_ids", [-1]),
    ("bad_words", ["a"] * (MAX_BAD_WORDS + 1)),
    ("bad_words", [""]),
    ("stream_interval", 0),
    ("thinking_token_budget", -2),
    ("routed_experts_prompt_start", -1),
]


def check(defaults: dict[str, Any] | None = None, names: dict[str, str] | None = None, **asked: Any) -> None:
    check_sampling(SamplingRequest(**asked), defaults or {}, 100, names=names or {})


@pytest.mark.parametrize(("field", "value"), FINE)
def test_the_ends_of_a_range_are_in_it(field: str, value: Any) -> None:
    check(**{field: value})


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_beyond_them_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(**{field: value})
    assert caught.value.param == field
    assert f"`{field}`" in caught.value.message


def test_greedy_has_one_choice() -> None:
    for asked, defaults in (({"temperature": 0}, {}), ({}, {"temperature": 0.0})):
        with pytest.raises(InvalidRequest) as caught:
            check(defaults, n=2, **asked)
        assert caught.value.param == "n"
    check({"temperature": 0}, n=2, temperature=1)


def test_min_tokens_fits_into_max_tokens() -> None:
    check(min_tokens=5, max_tokens=5)
    with pytest.raises(InvalidRequest) as caught:
        check(min_tokens=6, max_tokens=5)
    assert caught.value.param == "min_tokens"


def test_fields_have_the_dialects_names() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(names={"stop": "stop_sequences"}, stop=[""])
    assert caught.value.param == "stop_sequences"
    with pytest.raises(InvalidRequest) as caught:
        check(max_tokens=0, max_tokens_param="max_output_tokens")
    assert caught.value.param == "max_output_tokens"
