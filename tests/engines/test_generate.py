"""The logic of /inference/v1/generate over a scripted engine: fold, events, ids, usage, errors, abort."""

import asyncio
import json
from typing import Any

import pytest

from app.engines.engine import EngineLimits
from app.errors import EngineFailure, InvalidRequest, NotFound, Overloaded, Unsupported
from app.runs.generate import abort, events, whole
from app.runs.generate_check import accept, check_parse_context
from tests.engines.scripted import Script, ScriptedEngine
from tests.engines.served import request, served

HELLO = [*b"Hello, END of it", 256]


def fault(error: Exception) -> Any:
    return {"error": {"message": str(error), "type": "T", "param": None, "code": 500}}


async def collect(body: Any, model: Any) -> list[Any]:
    lines = [line async for line in await events(accept(body, model), model, fault)]
    assert all(line.startswith(b"data: ") and line.endswith(b"\n\n") for line in lines)
    assert lines[-1] == b"data: [DONE]\n\n"
    return [json.loads(line[6:]) for line in lines[:-1]]


@pytest.mark.parametrize("mode", ["tokens", "text"])
@pytest.mark.parametrize("sampling", [{}, {"logprobs": 0}, {"n": 3, "temperature": 1}, {"max_tokens": 4}])
async def test_the_whole_is_the_fold_of_the_events(mode: str, sampling: dict[str, Any]) -> None:
    model = served(ScriptedEngine(Script(HELLO, per_chunk=3)))
    body = request(sampling=sampling, output_mode=mode, stream=True, stream_options={"include_usage": True})
    parts = await collect(body, model)
    reply = json.loads(json_bytes(await whole(accept(request(sampling=sampling, output_mode=mode), model), model)))
    *chunks, last = parts
    assert last["choices"] == [] and "metrics" not in last
    assert last["usage"] == {k: v for k, v in reply["usage"].items() if v is not None}
    for choice in reply["choices"]:
        own = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == choice["index"]]
        assert [t for c in own for t in c["token_ids"]] == choice["token_ids"]
        assert [c["finish_reason"] for c in own] == [None] * (len(own) - 1) + [choice["finish_reason"]]
        if mode == "text":
            assert "".join(c["text"] for c in own) == choice["text"]
        else:
            assert "text" not in choice
        if "logprobs" in sampling:
            assert [e for c in own for e in c["logprobs"]["content"]] == choice["logprobs"]["content"]
        else:
            assert choice["logprobs"] is None


def json_bytes(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


async def test_keys_stand_in_vllms_order() -> None:
    model = served(ScriptedEngine(HELLO))
    reply = json.loads(json_bytes(await whole(accept(request(), model), model)))
    assert list(reply) == [
        "request_id", "model", "created", "usage", "prompt_logprobs", "prompt_token_id_logprobs", "prompt_token_ids",
        "mm_placeholders", "metrics", "kv_transfer_params", "ec_transfer_params", "output_mode", "choices",
    ]  # fmt: skip
    assert list(reply["choices"][0]) == [
        "index", "finish_reason", "stop_reason", "token_ids", "routed_experts", "sampling_mask", "weight_versions",
        "logprobs",
    ]  # fmt: skip
    assert reply["request_id"] == "generate-tokens-r"
    assert reply["usage"]["total_tokens"] == 3 + len(HELLO)


async def test_ids_come_from_the_header_then_the_body_then_chance() -> None:
    model = served(ScriptedEngine(HELLO))
    assert accept(request(), model, header_id="H").request_id == "generate-tokens-H"
    drawn = {accept(request(request_id=""), model).request_id for _ in range(4)}
    assert len(drawn) == 4 and all(len(name) == len("generate-tokens-") + 16 for name in drawn)


async def test_usage_modes_and_first_chunk_extras() -> None:
    model = served(ScriptedEngine(Script(HELLO, per_chunk=8)))
    options = {"include_usage": True, "continuous_usage_stats": True}
    parts = await collect(request(stream=True, stream_options=options, return_token_ids=True), model)
    assert [p["usage"]["completion_tokens"] for p in parts] == [8, 16, 17, 17]
    assert parts[0]["prompt_token_ids"] == [1, 2, 3] and parts[0]["mm_placeholders"] is None
    assert all("prompt_token_ids" not in p and "metrics" not in p for p in parts[1:])
    plain = await collect(request(stream=True, stream_options={"continuous_usage_stats": True}), model)
    assert all(p["usage"] is None and p["choices"] for p in plain)
    assert list(plain[0]) == ["request_id", "usage", "output_mode", "choices"]


async def test_a_stop_string_cuts_text_and_not_ids_and_ends_the_engine() -> None:
    engine = ScriptedEngine(HELLO)
    model = served(engine)
    for include, text in ((False, "Hello, "), (True, "Hello, END")):
        body = request(sampling={"stop": ["END"], "include_stop_str_in_output": include}, output_mode="text")
        reply = await whole(accept(body, model), model)
        choice = reply.choices[0]
        assert (choice.text, choice.finish_reason, choice.stop_reason) == (text, "stop", "END")
        assert choice.token_ids == list(b"Hello, END")
        assert engine.running == 0
    assert len(engine.aborted) == 2


async def test_transfer_parameters_and_cached_tokens_come_back() -> None:
    engine = ScriptedEngine(Script(HELLO, kv_transfer_params={"a": 1}, ec_transfer_params={"b": 2}, cached_tokens=2))
    model = served(engine)
    body = request(kv_transfer_params={"x": 1}, ec_transfer_params={"y": 2}, cache_salt="s", priority=3)
    reply = await whole(accept(body, model), model)
    sent = engine.requests[0]
    assert (sent.kv_transfer_params, sent.ec_transfer_params, sent.cache_salt, sent.priority) == (
        {"x": 1}, {"y": 2}, "s", 3,
    )  # fmt: skip
    assert (reply.kv_transfer_params, reply.ec_transfer_params) == ({"a": 1}, {"b": 2})
    assert reply.usage is not None and reply.usage.prompt_tokens_details == {"cached_tokens": 2}


async def test_an_error_before_the_first_event_is_raised_and_after_it_is_an_event() -> None:
    early = served(ScriptedEngine(Script(HELLO, fail_after=0, error=Overloaded("full"))))
    with pytest.raises(Overloaded):
        await events(accept(request(stream=True), early), early, fault)
    late = served(ScriptedEngine(Script(HELLO, fail_after=2)))
    parts = await collect(request(stream=True), late)
    assert len(parts) == 3 and parts[-1]["error"]["message"] == "the engine died"
    with pytest.raises(EngineFailure):
        await whole(accept(request(), late), late)
    assert early.engine.running == late.engine.running == 0


async def test_an_engine_that_ends_too_early_is_a_failure() -> None:
    class Short(ScriptedEngine):
        async def _run(self, request: Any, script: Any) -> Any:
            from app.engines.engine import TokenChunk

            yield TokenChunk(token_ids=[1])

    model = served(Short(HELLO))
    with pytest.raises(EngineFailure):
        await whole(accept(request(), model), model)


@pytest.mark.parametrize("taken", [0, 1, 3])
async def test_a_client_that_leaves_ends_the_run(taken: int) -> None:
    engine = ScriptedEngine(Script(HELLO, delay_s=0.001))
    model = served(engine)
    stream = await events(accept(request(stream=True), model), model, fault)
    for _ in range(taken):
        await anext(stream)
    await stream.aclose()
    assert engine.running == 0 and engine.aborted == ["generate-tokens-r"]


async def test_abort_by_the_returned_id() -> None:
    engine = ScriptedEngine(Script(HELLO, delay_s=5))
    model = served(engine)
    run = asyncio.create_task(whole(accept(request(), model), model))
    await asyncio.sleep(0.01)
    await abort([model, model, served(None)], ["unknown", "generate-tokens-r"])
    reply = await asyncio.wait_for(run, 2)
    assert reply.choices[0].finish_reason == "abort" and reply.choices[0].token_ids == []


def features(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "mm_hashes": {"image": ["a", "b"]},
        "mm_placeholders": {"image": [{"offset": 0, "length": 2}, {"offset": 2, "length": 3}]},
        "kwargs_data": {"image": ["x", "y"]},
    }
    return base | changes


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"token_ids": []}, "token_ids"),
        ({"token_ids": [-1]}, "token_ids"),
        ({"token_ids": [259]}, "token_ids"),
        ({"token_ids": [1] * 256}, "token_ids"),
        ({"cache_salt": ""}, "cache_salt"),
        ({"cache_salt": "a/b"}, "cache_salt"),
        ({"cache_salt": "a@b"}, "cache_salt"),
        ({"cache_salt": "a\\b"}, "cache_salt"),
        ({"cache_salt": "a\0b"}, "cache_salt"),
        ({"cache_salt": "a" * 129}, "cache_salt"),
        ({"sampling": {"n": 0}}, "n"),
        ({"sampling": {"n": 65}}, "n"),
        ({"sampling": {"n": 2, "temperature": 0}}, "n"),
        ({"sampling": {"logprobs": 21}}, "logprobs"),
        ({"sampling": {"logprobs": -1}}, "logprobs"),
        ({"sampling": {"prompt_logprobs": 21}}, "prompt_logprobs"),
        ({"sampling": {"top_p": 0}}, "top_p"),
        ({"sampling": {"temperature": -1}}, "temperature"),
        ({"sampling": {"max_tokens": 0}}, "max_tokens"),
        ({"sampling": {"min_tokens": 5, "max_tokens": 4}}, "min_tokens"),
        ({"sampling": {"stop": [""]}}, "stop"),
        ({"sampling": {"stop": ["a"], "detokenize": False}}, "stop"),
        ({"sampling": {"stop": ["a" * 1025]}}, "stop"),
        ({"sampling": {"stop_token_ids": [1] * 1025}}, "stop_token_ids"),
        ({"sampling": {"stop_token_ids": [-1]}}, "stop_token_ids"),
        ({"sampling": {"bad_words": ["a" * 8193]}}, "bad_words"),
        ({"sampling": {"bad_words": ["a" * 65] * 128}}, "bad_words"),
        ({"sampling": {"bad_words": ["a"] * 129}}, "bad_words"),
        ({"sampling": {"logit_bias": {str(i): 1.0 for i in range(8_193)}}}, "logit_bias"),
        ({"sampling": {"allowed_token_ids": [1] * 65_537}}, "allowed_token_ids"),
        ({"sampling": {"detokenize": False}, "output_mode": "text"}, "output_mode"),
        ({"output_mode": "derender", "stream": True}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"features": features(mm_hashes={"video": ["a", "b"]})}, "features.mm_placeholders"),
        ({"features": features(kwargs_data={"video": ["x", "y"]})}, "features.kwargs_data"),
        ({"features": features(kwargs_data={"image": ["x"]})}, "features.kwargs_data.image"),
        ({"features": features(mm_metadata={"image": ["x"]})}, "features.mm_metadata.image"),
        ({"features": features(mm_hashes={"image": ["a"]})}, "features.mm_placeholders.image"),
        (
            {"features": features(mm_placeholders={"image": [{"offset": 0, "length": 3}, {"offset": 2, "length": 1}]})},
            "features.mm_placeholders.image[1]",
        ),
        (
            {"features": features(mm_placeholders={"image": [{"offset": 0, "length": 1}, {"offset": 4, "length": 2}]})},
            "features.mm_placeholders.image[1]",
        ),
        (
            {"features": features(mm_placeholders={"image": [{"offset": 0, "length": 0}, {"offset": 4, "length": 1}]})},
            "features.mm_placeholders.image[0]",
        ),
        (
            {"features": features(kwargs_data={"image": ["x", None]}, mm_metadata={"image": ["x", "y"]})},
            "features.mm_metadata.image[1]",
        ),
        (
            {"features": features(kwargs_data=None, mm_metadata={"image": [None, "y"]}, ), "ec_transfer_params": {}},
            "features.mm_metadata.image[1]",
        ),
        ({"features": features(), "content_parts": [{"type": "image_url"}]}, "content_parts"),
    ],
)  # fmt: skip
def test_what_is_refused_and_by_which_name(fields: dict[str, Any], param: str) -> None:
    engine = ScriptedEngine(HELLO, limits=EngineLimits(max_num_seqs=64))
    body = request(**({"token_ids": [1, 2, 3, 4, 5]} | fields))
    with pytest.raises(InvalidRequest) as error:
        accept(body, served(engine))
    assert error.value.param == param


@pytest.mark.parametrize(
    "fields",
    [
        {"features": features()},
        {"features": features(kwargs_data=None)},
        {"features": features(kwargs_data={"image": ["x", None]})},
        {"features": features(kwargs_data=None, mm_metadata={"image": ["x", "y"]}), "ec_transfer_params": {"k": 1}},
        {"features": features(mm_metadata={"image": ["x", "y"]})},
        {"features": features(mm_hashes={}, mm_placeholders={}, kwargs_data={})},
        {"sampling": {"temperature": 5}},
        {"sampling": {"max_tokens": 100}},
        {"cache_salt": "a" * 128},
    ],
)
def test_what_is_accepted(fields: dict[str, Any]) -> None:
    accept(request(**({"token_ids": [1, 2, 3, 4, 5]} | fields)), served(ScriptedEngine(HELLO)))


def test_max_tokens_is_filled_in_only_where_it_is_missing() -> None:
    model = served(ScriptedEngine(HELLO), max_model_len=100)
    assert accept(request(), model).sampling_params.max_tokens == 97
    assert accept(request(sampling={"max_tokens": None}), model).sampling_params.max_tokens == 97
    assert accept(request(sampling={"max_tokens": 16}), model).sampling_params.max_tokens == 16
    limited = served(ScriptedEngine(HELLO), max_model_len=100, generation_defaults={"max_new_tokens": 7})
    assert accept(request(), limited).sampling_params.max_tokens == 7


def test_a_model_without_an_engine_and_an_engine_that_refuses() -> None:
    with pytest.raises(NotFound):
        accept(request(), served(None))
    engine = ScriptedEngine(HELLO)
    engine.refusal = Unsupported("no", param="watermarking")
    with pytest.raises(Unsupported):
        accept(request(), served(engine))


def test_an_unknown_parse_context_field_matters_only_for_derender() -> None:
    check_parse_context(b'{"output_mode":"tokens","parse_context":{"x":1}}')
    check_parse_context(b'{"output_mode":"derender","parse_context":{"tools":null}}')
    with pytest.raises(InvalidRequest):
        check_parse_context(b'{"output_mode":"derender","parse_context":{"x":1}}')


CALL = b'think</think>\n\nLook:<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def formats() -> dict[str, Any]:
    from app.registry import Registry

    registry = Registry()
    return {
        "tool_format": registry.get("isthmus.formats", "tool.hermes"),
        "reasoning_format": registry.get("isthmus.formats", "reasoning.qwen3"),
    }


@pytest.mark.parametrize("per_chunk", [1, 7, 200])
async def test_derender_mode_answers_the_message(per_chunk: int) -> None:
    model = served(ScriptedEngine(Script([*CALL, 256], per_chunk=per_chunk)), **formats())
    context = {"tools": TOOLS, "tool_choice": "auto", "chat_template_kwargs": {}}
    body = request(output_mode="derender", parse_context=context, sampling={"logprobs": 0})
    choice = json.loads(json_bytes(await whole(accept(body, model), model)))["choices"][0]
    message = choice["message"]
    assert (message["reasoning"], message["content"].strip()) == ("think", "Look:")
    call = message["tool_calls"][0]
    assert call["function"] == {"name": "f", "arguments": '{"a": 1}'} and call["id"].startswith("chatcmpl-tool-")
    assert choice["finish_reason"] == "tool_calls" and choice["token_ids"] == [*CALL, 256]
    assert len(choice["logprobs"]["content"]) == len(CALL) + 1 and "text" not in choice
    assert message["refusal"] is None and message["annotations"] is None

    hidden = request(output_mode="derender", parse_context=context | {"include_reasoning": False})
    choice = json.loads(json_bytes(await whole(accept(hidden, model), model)))["choices"][0]
    assert choice["message"]["reasoning"] is None and choice["token_ids"] is None and choice["logprobs"] is None


async def test_derender_mode_needs_the_context_where_there_are_formats() -> None:
    with pytest.raises(InvalidRequest) as error:
        accept(request(output_mode="derender"), served(ScriptedEngine(HELLO), **formats()))
    assert error.value.param == "parse_context"
    plain = served(ScriptedEngine(HELLO))
    reply = await whole(accept(request(output_mode="derender"), plain), plain)
    assert reply.choices[0].message.content == "Hello, END of it"
