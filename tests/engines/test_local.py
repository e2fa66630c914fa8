"""The local engine on tiny random models: batching changes nothing, every parameter does what it says."""

import asyncio
import math
import random
from typing import Any

import pytest

from app.engines.engine import EngineConfig
from app.engines.local.engine import LocalEngine
from app.errors import InvalidRequest, Unsupported
from tests.engines.served import request
from tests.engines.tiny import VOCABULARY, collect, tiny_engine, tiny_model

GREEDY = {"temperature": 0, "max_tokens": 12, "ignore_eos": True}


def greedy_ids(model: Any, prompt: list[int], count: int) -> list[int]:
    """The reference: transformers' own generate."""
    import torch

    model.set_attn_implementation("eager")
    with torch.inference_mode():
        out = model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
            max_new_tokens=count, eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
    return out[0, len(prompt) :].tolist()


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("llama", {}),
        ("qwen3", {}),
        ("mistral", {"sliding_window": 6}),
        ("gemma2", {"sliding_window": 6, "query_pre_attn_scalar": 8}),
        ("gpt_oss", {"sliding_window": 6, "num_local_experts": 2, "num_experts_per_tok": 1}),
    ],
)
async def test_greedy_equals_transformers_for_every_kind_of_attention(kind: str, more: dict[str, Any]) -> None:
    prompts = [[1, 2, 3], list(range(5, 30)), [9] * 17]
    wanted = [greedy_ids(tiny_model(kind, **more), prompt, 12) for prompt in prompts]
    async with tiny_engine(tiny_model(kind, **more), max_step_tokens=8, prefix_cache=False) as engine:
        found = await asyncio.gather(
            *(collect(engine, request(p, request_id=str(n), sampling=GREEDY)) for n, p in enumerate(prompts))
        )
    assert [one[0].token_ids for one in found] == wanted


async def test_64_at_once_say_what_they_say_alone() -> None:
    draw = random.Random(5)
    bodies = []
    for n in range(64):
        sampling: dict[str, Any] = {"max_tokens": draw.randrange(1, 24), "temperature": draw.choice([0, 0.7, 1])}
        if n % 3 == 0:
            sampling |= {"repetition_penalty": 1.3, "top_k": 20, "top_p": 0.9}
        sampling["seed"] = n
        prompt = [draw.randrange(250) for _ in range(draw.randrange(1, 40))]
        bodies.append(request(prompt, request_id=str(n), sampling=sampling))
    async with tiny_engine(max_num_seqs=1, prefix_cache=False) as engine:
        alone = [await collect(engine, body) for body in bodies]
    async with tiny_engine(max_num_seqs=24, max_step_tokens=48) as engine:
        together = await asyncio.gather(*(collect(engine, body) for body in bodies))
    assert [one[0].token_ids for one in together] == [one[0].token_ids for one in alone]
    assert {one[0].finish_reason for one in alone} <= {"length", "stop"}


async def test_little_memory_preempts_and_changes_nothing() -> None:
    bodies = [request([n, 3, 4], request_id=str(n), sampling=GREEDY | {"max_tokens": 200}) for n in range(6)]
    async with tiny_engine(max_num_seqs=1, prefix_cache=False) as engine:
        alone = [await collect(engine, body) for body in bodies]
    # One byte of memory: the budget is the model's length, which holds two of these sequences and not six.
    async with tiny_engine(kv_cache_bytes=1) as engine:
        preempted = 0
        make_room = engine._runner.scheduler._make_room

        def counted(work: Any) -> bool:
            nonlocal preempted
            fits = make_room(work)
            preempted += not fits
            return fits

        engine._runner.scheduler._make_room = counted
        together = await asyncio.gather(*(collect(engine, body) for body in bodies))
    assert preempted > 0
    assert [one[0].token_ids for one in together] == [one[0].token_ids for one in alone]


async def test_prefixes_are_reused_within_a_salt_only() -> None:
    prompt = [random.Random(1).randrange(250) for _ in range(60)]
    async with tiny_engine() as engine:
        first = await collect(engine, request(prompt, sampling=GREEDY))
        again = await collect(engine, request(prompt, sampling=GREEDY))
        longer = await collect(engine, request([*prompt, *first[0].token_ids, 7], sampling=GREEDY))
        other = await collect(engine, request(prompt, sampling=GREEDY, cache_salt="x"))
        skipped = await collect(engine, request(prompt, sampling=GREEDY | {"skip_reading_prefix_cache": True}))
    assert [r[0].cached_tokens for r in (first, again, longer, other, skipped)] == [0, 59, 71, 0, 0]
    assert first[0].token_ids == again[0].token_ids == other[0].token_ids == skipped[0].token_ids


async def test_a_seed_decides_every_output_of_a_request() -> None:
    sampling = {"n": 3, "seed": 11, "max_tokens": 16, "temperature": 1.0, "ignore_eos": True}
    async with tiny_engine() as engine:
        first = await collect(engine, request(sampling=sampling))
        again, *_ = await asyncio.gather(
            collect(engine, request(sampling=sampling)),
            *(collect(engine, request([5] * n, request_id=f"o{n}", sampling={"max_tokens": 9})) for n in range(1, 9)),
        )
        alone = await collect(engine, request(sampling=sampling | {"n": 1, "seed": 12}))
        free = [await collect(engine, request(sampling=sampling | {"n": 1, "seed": None})) for _ in range(2)]
    assert {i: c.token_ids for i, c in first.items()} == {i: c.token_ids for i, c in again.items()}
    assert len({tuple(c.token_ids) for c in first.values()}) == 3
    assert alone[0].token_ids == first[1].token_ids
    assert free[0][0].token_ids != free[1][0].token_ids


@pytest.mark.parametrize("count", [0, 1, 4])
async def test_logprobs_are_of_the_raw_distribution(count: int) -> None:
    import torch

    model = tiny_model()
    sampling = {"logprobs": count, "max_tokens": 6, "temperature": 1.5, "seed": 1, "logit_bias": {"7": 9}}
    async with tiny_engine(model) as engine:
        out = (await collect(engine, request([4, 5], sampling=sampling)))[0]
    reference = tiny_model()
    with torch.inference_mode():
        logits = reference(torch.tensor([[4, 5, *out.token_ids]])).logits[0].log_softmax(-1)
    assert out.logprobs is not None and len(out.logprobs) == len(out.token_ids)
    for place, (token, entry) in enumerate(zip(out.token_ids, out.logprobs, strict=True), 1):
        row = logits[place]
        assert entry.token_id == token and math.isclose(entry.logprob, row[token], abs_tol=1e-4)
        assert entry.rank == int((row >= row[token] - 1e-6).sum())
        best = row.topk(count).indices.tolist()
        assert [t.token_id for t in entry.top_logprobs] == [token, *(i for i in best if i != token)]
        assert [t.rank for t in entry.top_logprobs[1:]] == [best.index(t.token_id) + 1 for t in entry.top_logprobs[1:]]


async def test_chosen_and_prompt_logprobs() -> None:
    async with tiny_engine(max_step_tokens=4) as engine:
        chosen = (await collect(engine, request(sampling=GREEDY | {"logprob_token_ids": [3, 8]})))[0]
        assert chosen.logprobs is not None
        assert [t.token_id for t in chosen.logprobs[0].top_logprobs][-2:] == [3, 8]
        prompt = [random.Random(2).randrange(250) for _ in range(11)]
        wide = (await collect(engine, request(prompt, sampling=GREEDY | {"prompt_logprobs": 2})))[0]
    assert wide.prompt_logprobs is not None and len(wide.prompt_logprobs) == 11 and wide.prompt_logprobs[0] is None
    for token, entry in zip(prompt[1:], wide.prompt_logprobs[1:], strict=True):
        assert entry is not None and str(token) in entry and 2 <= len(entry) <= 3
        assert {r["rank"] for r in entry.values()} >= {1, 2} and "decoded_token" in entry[str(token)]


async def test_constraints_on_which_tokens_may_come() -> None:
    async with tiny_engine() as engine:

        async def ids(**sampling: Any) -> list[int]:
            return (await collect(engine, request(sampling=GREEDY | sampling)))[0].token_ids

        plain = await ids()
        assert set(await ids(allowed_token_ids=[3, 4])) <= {3, 4}
        assert set(await ids(logit_bias={"9": 100})) == {9}
        assert plain[0] not in await ids(logit_bias={str(plain[0]): -100})
        assert (await ids(temperature=1, top_k=1, seed=1)) == plain
        assert (await ids(temperature=1, top_p=1e-6, seed=1)) == plain
        assert (await ids(temperature=1, min_p=1, seed=1)) == plain
        word = bytes(plain[3:5]) if max(plain[3:5]) < 128 else None
        letter = next(chr(i) for i in plain if i < 128)
        assert ord(letter) not in await ids(bad_words=[letter])
        if word is not None:
            found = await ids(bad_words=[word.decode()])
            assert word not in bytes(i for i in found if i < 256)


async def test_penalties() -> None:
    async with tiny_engine() as engine:

        async def ids(**sampling: Any) -> list[int]:
            body = request([1, 2], sampling=GREEDY | {"max_tokens": 40} | sampling)
            return (await collect(engine, body))[0].token_ids

        distinct = len(set(await ids()))
        assert len(set(await ids(presence_penalty=2.0))) >= distinct
        assert len(set(await ids(frequency_penalty=2.0))) > distinct
        bound = await ids(repetition_penalty=1e6)
        assert not {1, 2} & set(bound)


async def test_what_ends_an_output() -> None:
    async with tiny_engine() as engine:

        async def one(**sampling: Any) -> Any:
            out = (await collect(engine, request([1, 2], sampling=GREEDY | {"ignore_eos": False} | sampling)))[0]
            return out.token_ids, out.finish_reason, out.stop_reason

        plain, _, _ = await one(ignore_eos=True)
        assert await one(logit_bias={"256": 100}) == ([256], "stop", None)
        assert (await one(logit_bias={"256": 100}, ignore_eos=True))[1] == "length"
        short = await one(logit_bias={"256": 100}, min_tokens=4)
        assert len(short[0]) == 5 and short[1] == "stop"
        at = plain[2]
        assert await one(stop_token_ids=[at]) == (plain[: plain.index(at) + 1], "stop", at)
        assert (await one(max_tokens=3))[1:] == ("length", None)
        letter = next(chr(i) for i in plain if i < 128)
        cut = plain[: plain.index(ord(letter)) + 1]
        assert await one(stop=[letter]) == (cut, "stop", letter)
        assert await one(stop=[letter], max_tokens=len(cut)) == (cut, "stop", letter)
        rule = {"max_pattern_size": 2, "min_pattern_size": 1, "min_count": 3}
        assert await one(logit_bias={"9": 100}, repetition_detection=rule) == ([9, 9, 9], "repetition", None)


async def test_the_stream_interval_gathers_tokens() -> None:
    async with tiny_engine() as engine:
        body = request(sampling=GREEDY | {"stream_interval": 5, "logprobs": 0})
        chunks = [chunk async for chunk in engine.generate(body)]
    assert [len(chunk.token_ids) for chunk in chunks] == [1, 5, 5, 1]
    assert [len(chunk.logprobs or ()) for chunk in chunks] == [1, 5, 5, 1]


async def test_one_id_twice_at_once() -> None:
    async with tiny_engine() as engine:
        runs = [asyncio.create_task(collect(engine, request(sampling=GREEDY | {"max_tokens": 300}))) for _ in range(2)]
        await asyncio.sleep(0.02)
        await engine.abort(["r"])
        assert [(await run)[0].finish_reason for run in runs] == ["abort", "abort"]


@pytest.mark.parametrize(
    ("sampling", "fields", "param"),
    [
        ({"watermarking": True}, {}, "watermarking"),
        ({"extra_args": {"a": 1}}, {}, "extra_args"),
        ({"routed_experts_prompt_start": 1}, {}, "routed_experts_prompt_start"),
        ({"thinking_token_budget": 5}, {"reasoning_ended": False}, "thinking_token_budget"),
        ({}, {"kv_transfer_params": {"a": 1}}, "kv_transfer_params"),
        ({}, {"ec_transfer_params": {"a": 1}}, "ec_transfer_params"),
        ({}, {"content_parts": [{}]}, "content_parts"),
        ({}, {"features": {"mm_hashes": {"image": ["a"]}, "mm_placeholders": {"image": []}}}, "features"),
    ],
)
async def test_what_it_cannot_do_it_refuses_by_name(sampling: Any, fields: Any, param: str) -> None:
    engine = LocalEngine(EngineConfig(name="e", kind="local", vocab_size=300, max_model_len=64))
    with pytest.raises(Unsupported) as error:
        engine.check(request(sampling=sampling, **fields))
    assert error.value.param == param


@pytest.mark.parametrize("name", ["stop", "bad_words"])
def test_texts_need_a_tokenizer(name: str) -> None:
    engine = LocalEngine(EngineConfig(name="e", kind="local", vocab_size=300, max_model_len=64))
    with pytest.raises(Unsupported) as error:
        engine.check(request(sampling={name: ["x"]}))
    assert error.value.param == name


async def test_ids_outside_the_vocabulary_and_prompts_too_long() -> None:
    async with tiny_engine() as engine:
        for fields in (
            {"token_ids": [VOCABULARY]},
            {"token_ids": [1] * 512},
            {"sampling": {"logit_bias": {str(VOCABULARY): 1}}},
            {"sampling": {"allowed_token_ids": [VOCABULARY]}},
            {"sampling": {"allowed_token_ids": []}},
        ):
            with pytest.raises(InvalidRequest):
                engine.check(request(**fields))
