from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from app.errors import InvalidRequest
from app.parsing.format import JsonCalls, ReasoningFormat, Section, SpecialTokens, ToolFormat
from app.protocol.generate import SamplingParams, StructuredOutputs
from app.rendering.conversation import Conversation, Message, Tool
from app.rendering.request import NamedTool, RenderInput, SamplingRequest
from app.rendering.sampling import resolve

CONVERSATION = Conversation(messages=[Message(role="user", content="x")])
WITH_TOOLS = Conversation(messages=CONVERSATION.messages, tools=[Tool("f")])


def resolved(
    asked: SamplingRequest = SamplingRequest(),
    *,
    prompt_len: int = 10,
    defaults: dict[str, Any] | None = None,
    tool_format: ToolFormat | None = None,
    reasoning_format: ReasoningFormat | None = None,
    stops: tuple[int, ...] = (),
    **given: Any,
) -> SamplingParams:
    request = RenderInput(
        **{"dialect": "chat", "request_id": "r", "conversation": CONVERSATION} | given, sampling=asked
    )
    return resolve(
        request,
        prompt_len=prompt_len,
        max_model_len=100,
        defaults=defaults or {},
        tool_format=tool_format,
        reasoning_format=reasoning_format,
        default_stop_token_ids=stops,
    )


def written(params: SamplingParams) -> dict[str, Any]:
    """The object as it goes over the wire."""
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(params))
    return body


def test_a_plain_request_writes_what_vllm_writes() -> None:
    assert written(resolved()) == {
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "temperature": 1.0,
        "top_p": 1.0,
        "min_p": 0.0,
        "stop": [],
        "stop_token_ids": [],
        "max_tokens": 90,
        "output_kind": 2,
        "skip_clone": True,
        "bad_words": [],
        "skip_reading_prefix_cache": False,
    }


def test_everything_asked_for_is_written() -> None:
    asked = SamplingRequest(
        n=3,
        temperature=0.25,
        top_p=0.5,
        top_k=7,
        min_p=0.05,
        presence_penalty=0.3,
        frequency_penalty=-0.2,
        repetition_penalty=1.1,
        seed=42,
        stop=["END"],
        stop_token_ids=[5],
        ignore_eos=True,
        max_tokens=20,
        min_tokens=2,
        logprobs=0,
        prompt_logprobs=0,
        logprob_token_ids=[1],
        skip_special_tokens=False,
        spaces_between_special_tokens=False,
        include_stop_str_in_output=True,
        logit_bias={"07": 1000, "8": -1000},
        allowed_token_ids=[1, 2],
        bad_words=["no"],
        watermarking=False,
        stream_interval=4,
        thinking_token_budget=0,
        routed_experts_prompt_start=1,
        extra_args={"a": 1},
    )
    assert written(resolved(asked)) == {
        "n": 3,
        "temperature": 0.25,
        "top_p": 0.5,
        "top_k": 7,
        "min_p": 0.05,
        "presence_penalty": 0.3,
        "frequency_penalty": -0.2,
        "repetition_penalty": 1.1,
        "seed": 42,
        "stop": ["END"],
        "stop_token_ids": [5],
        "ignore_eos": True,
        "max_tokens": 20,
        "min_tokens": 2,
        "logprobs": 0,
        "prompt_logprobs": 0,
        "logprob_token_ids": [1],
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "include_stop_str_in_output": True,
        "logit_bias": {"7": 100.0, "8": -100.0},
        "allowed_token_ids": [1, 2],
        "bad_words": ["no"],
        "watermarking": False,
        "stream_interval": 4,
        "thinking_token_budget": 0,
        "routed_experts_prompt_start": 1,
        "extra_args": {"a": 1},
        "output_kind": 2,
        "skip_clone": True,
        "skip_reading_prefix_cache": True,
    }


class TestValues:
    DEFAULTS = {"temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": 0.1, "repetition_penalty": 1.05}

    def test_the_request_comes_before_the_models_defaults(self) -> None:
        params = resolved(SamplingRequest(top_p=0.5), defaults=self.DEFAULTS)
        assert (params.top_p, params.top_k, params.temperature, params.repetition_penalty) == (0.5, 20, 0.6, 1.05)

    def test_zero_is_a_value(self) -> None:
        params = resolved(SamplingRequest(top_k=0, min_p=0.0), defaults=self.DEFAULTS)
        assert (params.top_k, params.min_p) == (UNSET, 0.0)

    def test_all_candidates_have_two_names(self) -> None:
        assert resolved(SamplingRequest(top_k=-1), defaults=self.DEFAULTS).top_k == -1

    def test_greedy_looks_at_nothing_else(self) -> None:
        params = resolved(SamplingRequest(temperature=0, top_p=0.5), defaults=self.DEFAULTS)
        assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.0, 1.0, UNSET, 0.0)
        assert params.repetition_penalty == 1.05

    @pytest.mark.parametrize("tiny", [1e-9, 0.0099])
    def test_tiny_temperatures_are_raised(self, tiny: float) -> None:
        assert resolved(SamplingRequest(temperature=tiny)).temperature == 0.01
        assert resolved(defaults={"temperature": tiny}).temperature == 0.01

    def test_minus_one_is_no_seed_and_no_budget(self) -> None:
        params = resolved(SamplingRequest(seed=-1, thinking_token_budget=-1))
        assert (params.seed, params.thinking_token_budget) == (UNSET, UNSET)
        assert resolved(SamplingRequest(seed=0)).seed == 0

    def test_the_engine_holds_back_what_a_stop_string_may_take(self) -> None:
        assert resolved(SamplingRequest(stop=["abc", "de"])).output_text_buffer_length == 2
        assert resolved(SamplingRequest(stop=["a"])).output_text_buffer_length is UNSET
        kept = SamplingRequest(stop=["abc"], include_stop_str_in_output=True)
        assert resolved(kept).output_text_buffer_length is UNSET

    def test_a_stream_asks_for_deltas(self) -> None:
        assert resolved(stream=True).output_kind == 1

    def test_the_encoders_stop_tokens_come_behind(self) -> None:
        assert resolved(SamplingRequest(stop_token_ids=[3, 7]), stops=(7, 9)).stop_token_ids == [3, 7, 9]


class TestMaxTokens:
    def test_it_is_always_written(self) -> None:
        """vLLM leaves out 16, and then reads the missing key as "as many as fit"."""
        for limit in (1, 16, 90):
            assert written(resolved(SamplingRequest(max_tokens=limit)))["max_tokens"] == limit

    def test_the_least_counts(self) -> None:
        assert resolved(SamplingRequest(max_tokens=100)).max_tokens == 90
        assert resolved(defaults={"max_new_tokens": 30}).max_tokens == 30
        assert resolved(defaults={"max_new_tokens": 3000}).max_tokens == 90
        assert resolved(SamplingRequest(max_tokens=50), defaults={"max_new_tokens": 30}).max_tokens == 50
        assert resolved(prompt_len=99).max_tokens == 1

    def test_no_room_is_refused(self) -> None:
        with pytest.raises(InvalidRequest) as caught:
            resolved(prompt_len=100)
        assert caught.value.param == "input_tokens"

    def test_room_for_the_least_is_needed(self) -> None:
        with pytest.raises(InvalidRequest) as caught:
            resolved(SamplingRequest(min_tokens=91))
        assert caught.value.param == "min_tokens"
        assert resolved(SamplingRequest(min_tokens=90)).min_tokens == 90


class TestSpecialTokens:
    """Which formats force ``skip_special_tokens`` to false, and when."""

    def skipped(self, policy: SpecialTokens, **given: Any) -> bool:
        tool = ToolFormat(name="t", sections=(), special_tokens=policy)
        reasoning = ReasoningFormat(name="r", special_tokens=policy)
        by_tool = resolved(tool_format=tool, **given).skip_special_tokens is UNSET
        by_reasoning = resolved(reasoning_format=reasoning, **given).skip_special_tokens is UNSET
        assert by_tool == by_reasoning
        return by_tool

    def test_policies(self) -> None:
        plain: dict[str, Any] = {"tool_choice": "none"}
        silent: dict[str, Any] = {"tool_choice": None}
        auto = {"tool_choice": "auto", "conversation": WITH_TOOLS}
        named = {"tool_choice": NamedTool("f"), "conversation": WITH_TOOLS}
        off = {"tool_choice": "none", "conversation": WITH_TOOLS}
        empty = {"tool_choice": "auto", "conversation": Conversation(messages=CONVERSATION.messages, tools=[])}
        cases = [plain, silent, auto, named, off, empty]
        assert [self.skipped("skip", **case) for case in cases] == [True, True, True, True, True, True]
        assert [self.skipped("keep", **case) for case in cases] == [False, False, False, False, False, False]
        assert [self.skipped("with_tools", **case) for case in cases] == [True, True, False, False, True, True]
        assert [self.skipped("unless_none", **case) for case in cases] == [True, False, False, False, True, False]

    def test_completions_are_never_parsed(self) -> None:
        assert self.skipped("keep", conversation=None, text="x", dialect="completions")

    def test_the_request_can_keep_them_anyway(self) -> None:
        assert resolved(SamplingRequest(skip_special_tokens=False)).skip_special_tokens is False
        assert resolved(defaults={"skip_special_tokens": False}).skip_special_tokens is False
        asked = SamplingRequest(skip_special_tokens=True)
        assert resolved(asked, defaults={"skip_special_tokens": False}).skip_special_tokens is UNSET


def test_constraints_are_written_with_all_keys() -> None:
    body = written(resolved(SamplingRequest(structured_outputs=StructuredOutputs(regex="a+"))))
    assert body["structured_outputs"] == {
        "json": None,
        "regex": "a+",
        "choice": None,
        "grammar": None,
        "json_object": None,
        "disable_any_whitespace": False,
        "disable_additional_properties": False,
        "whitespace_pattern": None,
        "structural_tag": None,
        "_backend": None,
        "_backend_was_auto": False,
    }


def test_a_required_call_is_a_constraint() -> None:
    format = ToolFormat(name="t", sections=(Section(open="{", body=JsonCalls(), bare=True),))
    given = {"tool_choice": "required", "conversation": WITH_TOOLS}
    params = resolved(tool_format=format, **given)
    assert isinstance(params.structured_outputs, StructuredOutputs)
    assert params.structured_outputs.json["minItems"] == 1
