"""A sampling parameter is served or refused by each engine of ours, never ignored: a new one fails here until it is."""

from collections.abc import Callable
from typing import Any

import pytest

from app.engines.local.plan import make_plan
from app.engines.sglang import SglangWire
from app.errors import Unsupported
from app.protocol.generate import GenerateRequest, RepetitionDetection, SamplingParams, StructuredOutputs

ASKED: dict[str, Any] = {
    "n": 2,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "repetition_penalty": 1.5,
    "temperature": 0.5,
    "watermarking": True,
    "top_p": 0.5,
    "top_k": 5,
    "min_p": 0.5,
    "seed": 3,
    "stop": ["x"],
    "stop_token_ids": [5],
    "ignore_eos": True,
    "max_tokens": 7,
    "min_tokens": 2,
    "logprobs": 2,
    "prompt_logprobs": 2,
    "logprob_token_ids": [1],
    "flat_logprobs": True,
    "skip_special_tokens": False,
    "include_stop_str_in_output": True,
    "stream_interval": 3,
    "structured_outputs": StructuredOutputs(json_object=True),
    "logit_bias": {"1": 1.0},
    "allowed_token_ids": [1],
    "extra_args": {"a": 1},
    "bad_words": ["x"],
    "skip_reading_prefix_cache": True,
    "thinking_token_budget": 3,
    "repetition_detection": RepetitionDetection(max_pattern_size=4, min_count=3),
    "routed_experts_prompt_start": 1,
}
NO_MATTER = {
    "detokenize",  # engines answer token ids
    "spaces_between_special_tokens",
    "output_kind",  # vLLM's engine-private keys
    "skip_clone",
    "output_text_buffer_length",
}
NOT_SGLANGS = {
    "include_stop_str_in_output",  # its token ids always have it; derendering takes it away
    "skip_reading_prefix_cache",  # written beside prompt_logprobs, which are refused
}


class Tokenizer:
    def token_to_id(self, text: str) -> int:
        return 9


def local(request: GenerateRequest) -> object:
    return make_plan(request, vocab_size=100, room=50, tokenizer=Tokenizer(), reasoning_end="</think>")


def sglang(request: GenerateRequest) -> object:
    wire = SglangWire()
    wire.check(request)
    return wire.body(request, "w")


def test_every_parameter_is_here() -> None:
    assert set(SamplingParams.__struct_fields__) == set(ASKED) | NO_MATTER


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(("engine", "exempt"), [(local, set()), (sglang, NOT_SGLANGS)], ids=["local", "sglang"])
def test_it_is_served_or_refused(engine: Callable[[GenerateRequest], object], exempt: set[str], name: str) -> None:
    plain = GenerateRequest(token_ids=[1, 2], sampling_params=SamplingParams())
    asked = GenerateRequest(token_ids=[1, 2], sampling_params=SamplingParams(**{name: ASKED[name]}))
    try:
        ignored = engine(asked) == engine(plain)
    except Unsupported as error:
        ignored = error.param != name
    assert ignored == (name in exempt)
