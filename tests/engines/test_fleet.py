"""Workers that fail in every way: no hang, no leak, a clear error, a retry before the first token and never after."""

import asyncio
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import pytest

from app.engines.engine import EngineConfig
from app.engines.fleet.open import sglang, vllm
from app.errors import EngineFailure, EngineTimeout, InvalidRequest, Overloaded, Unsupported
from tests.engines.fake_worker import FakeWorker
from tests.engines.served import request

QUICK = {
    "connect_timeout_s": 20, "first_token_timeout_s": 20, "token_timeout_s": 20, "health_timeout_s": 5,
    "health_interval_s": 0, "breaker_rest_s": 5,
}  # fmt: skip


@asynccontextmanager
async def fleet(*workers: FakeWorker, kind: Any = vllm, **options: Any) -> Any:
    async with AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
        urls = {} if "decode" in options else {"urls": [worker.url for worker in workers]}
        roles = {k: [w.url for w in v] for k, v in options.items() if k in ("encode", "prefill", "decode")}
        engine = kind(EngineConfig(name="e", kind="k", eos_token_ids=(13,), options=QUICK | urls | options | roles))
        await engine.start()
        try:
            yield engine
        finally:
            assert engine.roles.health().running == 0
            await engine.stop()
        for worker in workers:
            await until(lambda worker=worker: worker.running == 0 and worker.connections == 0)


def deadlines(fault: str) -> dict[str, float]:
    """Short ones only where they are what is tested: the machine may be busy."""
    return {"first_token_timeout_s": 1.0, "token_timeout_s": 0.5} if fault.startswith("hang") else {}


async def until(holds: Any) -> None:
    for _ in range(300):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to pass")


async def collect(engine: Any, body: Any = None) -> list[int]:
    async with aclosing(engine.generate(body or request())) as chunks:
        found = [chunk async for chunk in chunks]
    assert [c.finish_reason is not None for c in found] == [False] * (len(found) - 1) + [True]
    return [token for chunk in found for token in chunk.token_ids]


async def test_a_stream_comes_through_with_its_authorization() -> None:
    worker = FakeWorker([5, 6, 7], api_key="k")
    async with fleet(worker, api_key="k", model="served-there") as engine:
        body = request(sampling={"max_tokens": 16, "stop": ["x"]}, cache_salt="s", priority=2, model="here")
        assert await collect(engine, body) == [5, 6, 7]
    sent = worker.requests[0]
    assert worker.authorization == ["Bearer k"]
    assert sent["model"] == "served-there" and sent["stream"] is True and sent["sampling_params"]["max_tokens"] == 16
    assert (sent["cache_salt"], sent["priority"], sent["output_mode"]) == ("s", 2, "tokens")
    assert sent["request_id"].startswith("r-") and worker.aborted == []


FAULTS = ["die:0", "hang:0", "half:0", "garbage", "nonsense:0", "status:500", "status:401", "status:404", "error:500:0"]


@pytest.mark.parametrize("fault", [*FAULTS, "status:503", "status:429"])
async def test_before_the_first_token_another_worker_answers(fault: str) -> None:
    bad, good = FakeWorker([1], fault=fault), FakeWorker([7, 8])
    async with fleet(bad, good, retries=1, **deadlines(fault)) as engine:
        for _ in range(2):
            assert await collect(engine) == [7, 8]


@pytest.mark.parametrize("fault", FAULTS)
async def test_alone_it_fails_clearly(fault: str) -> None:
    async with fleet(FakeWorker([1], fault=fault), **deadlines(fault)) as engine:
        with pytest.raises(EngineTimeout if "hang" in fault else EngineFailure):
            await collect(engine)


@pytest.mark.parametrize("status", [429, 503])
async def test_full_everywhere_is_overload(status: int) -> None:
    async with fleet(FakeWorker(fault=f"status:{status}"), FakeWorker(fault=f"status:{status}")) as engine:
        for _ in range(5):
            with pytest.raises(Overloaded):
                await collect(engine)


@pytest.mark.parametrize("fault", ["status:400", "error:400:0"])
async def test_a_refused_request_is_refused_and_asked_of_no_other(fault: str) -> None:
    workers = [FakeWorker(fault=fault), FakeWorker(fault=fault)]
    async with fleet(*workers) as engine:
        with pytest.raises(InvalidRequest) as error:
            await collect(engine)
        assert sum(len(worker.requests) for worker in workers) == 1
        if fault.startswith("status"):
            assert error.value.message == "the worker says no" and error.value.param == "stop"


@pytest.mark.parametrize("fault", ["die:2", "hang:2", "half:2", "nonsense:2", "error:500:2", "early"])
async def test_after_the_first_token_nothing_is_tried_again(fault: str) -> None:
    workers = [FakeWorker([1, 2, 3, 4], fault=fault), FakeWorker([1, 2, 3, 4], fault=fault)]
    async with fleet(*workers, **deadlines(fault)) as engine:
        got: list[int] = []
        with pytest.raises(EngineFailure):
            async for chunk in engine.generate(request()):
                got += chunk.token_ids
        assert got == ([1, 2, 3, 4] if fault == "early" else [1, 2])
        assert sum(len(worker.requests) for worker in workers) == 1
        assert engine.roles.health().running == 0


async def test_a_worker_killed_in_the_middle_leaves_the_others_untouched() -> None:
    first, second = FakeWorker([1] * 40, delay_s=0.01), FakeWorker([2] * 40, delay_s=0.01)
    async with fleet(first, second, affinity_slack=0, affinity_load_blocks=100) as engine:
        runs = [asyncio.create_task(collect(engine, request([n], request_id=str(n)))) for n in range(8)]
        await until(lambda: first.running == 4 and second.running == 4)
        await asyncio.sleep(0.05)
        first.kill()
        results = await asyncio.gather(*runs, return_exceptions=True)
        assert sum(isinstance(r, EngineFailure) for r in results) == 4
        assert [r for r in results if not isinstance(r, Exception)] == [[2] * 40] * 4


async def test_three_dead_of_four_and_the_dead_rest() -> None:
    workers = [FakeWorker(fault="die:0"), FakeWorker(fault="die:0"), FakeWorker(fault="die:0"), FakeWorker([9])]
    async with fleet(*workers, retries=3) as engine:
        for n in range(24):
            assert await collect(engine, request([n])) == [9]
        asked = [len(worker.requests) for worker in workers]
        assert asked[3] == 24 and all(count <= 3 for count in asked[:3])
        assert engine.roles.health().ok


async def test_a_worker_that_nobody_listens_at() -> None:
    worker = FakeWorker()
    async with fleet(worker) as engine:
        worker.kill()
        for _ in range(5):
            with pytest.raises(EngineFailure):
                await collect(engine)
        assert not engine.roles.health().ok


@pytest.mark.parametrize("taken", [0, 1, 3])
async def test_a_client_that_leaves_ends_the_request_on_the_worker(taken: int) -> None:
    worker = FakeWorker([1, 2, 3, 4, 5], fault=f"hang:{taken}")
    async with fleet(worker, first_token_timeout_s=60) as engine:
        stream = engine.generate(request())

        async def take() -> None:
            async for _ in stream:
                pass

        task = asyncio.create_task(take())
        await until(lambda: worker.running == 1)
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: worker.running == 0 and worker.aborted)
        assert worker.aborted == ["generate-tokens-" + worker.requests[0]["request_id"]]
        assert engine.roles.health().running == 0


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
async def test_a_reader_that_stops_at_the_end_leaves_its_connection_to_the_next(kind: str) -> None:
    worker = FakeWorker([1, 2, 3], kind=kind)
    async with fleet(worker, kind=vllm if kind == "vllm" else sglang) as engine:
        for _ in range(5):
            async with aclosing(engine.generate(request())) as chunks:
                async for chunk in chunks:
                    if chunk.finish_reason is not None:
                        break
            await until(lambda: worker.running == 0)
            await asyncio.sleep(0.02)
    assert worker.accepted == 1
    assert worker.aborted == []


async def test_a_worker_that_never_ends_its_stream_after_the_last_token_is_left() -> None:
    worker = FakeWorker([1, 2, 3], fault="linger")
    async with fleet(worker, health_timeout_s=0.2) as engine, aclosing(engine.generate(request())) as chunks:
        async for chunk in chunks:
            if chunk.finish_reason is not None:
                break
        assert chunk.finish_reason is not None
        await chunks.aclose()
        await until(lambda: worker.connections == 0)
    assert worker.aborted == []


async def test_abort_by_id_reaches_the_worker() -> None:
    worker = FakeWorker([1, 2, 3], fault="hang:1")
    async with fleet(worker) as engine:
        task = asyncio.create_task(collect(engine))
        await until(lambda: worker.running == 1)
        await engine.abort(["other"])
        assert worker.aborted == []
        await engine.abort(["r"])
        assert len(worker.aborted) == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_health_checks_tell_the_sick_from_the_well() -> None:
    sick, well = FakeWorker([1]), FakeWorker([2])
    async with fleet(sick, well, health_interval_s=0.02, health_timeout_s=5) as engine:
        sick.healthy = False
        await until(lambda: engine.roles.health().detail.startswith("1 of 2"))
        for n in range(6):
            assert await collect(engine, request([n])) == [2]
        well.healthy = False
        await until(lambda: not engine.roles.health().ok)
        assert (await engine.health()).ok is False
        assert await collect(engine) in ([1], [2])
        sick.healthy = well.healthy = True
        await until(lambda: engine.roles.health().ok)


async def test_equal_leading_blocks_go_to_one_worker_and_load_moves_them() -> None:
    workers = [FakeWorker([1], delay_s=0.02) for _ in range(4)]
    async with fleet(*workers, block_tokens=4) as engine:
        for turn in range(6):
            await collect(engine, request([7] * (8 + 4 * turn)))
        assert sorted(len(worker.requests) for worker in workers) == [0, 0, 0, 6]
        await asyncio.gather(*(collect(engine, request([7] * 8 + [n], request_id=str(n))) for n in range(40)))
        assert all(len(worker.requests) >= 5 for worker in workers)


async def test_encode_prefill_decode() -> None:
    encode = FakeWorker([1], transfer={"ec": {"where": "e"}})
    prefill = FakeWorker([2], transfer={"kv": {"blocks": [4]}})
    decode = FakeWorker([5, 6])
    features = {
        "mm_hashes": {"image": ["h"]}, "mm_placeholders": {"image": [{"offset": 0, "length": 2}]},
        "kwargs_data": {"image": ["TENSORS"]}, "mm_metadata": {"image": ["META"]},
    }  # fmt: skip
    async with fleet(encode, prefill, decode, encode=[encode], prefill=[prefill], decode=[decode]) as engine:
        body = request(features=features, sampling={"max_tokens": 9, "logprobs": 1, "prompt_logprobs": 1})
        chunks = [chunk async for chunk in engine.generate(body)]
        assert [t for c in chunks for t in c.token_ids] == [5, 6] and chunks[0].prompt_logprobs == [None]
        text = request([4, 5], request_id="text")
        assert await collect(engine, text) == [5, 6]
    e, p, d = encode.requests[0], prefill.requests[0], decode.requests[0]
    assert e["features"]["kwargs_data"] == {"image": ["TENSORS"]} and e["features"]["mm_metadata"] is None
    assert e["sampling_params"]["max_tokens"] == 1
    for later in (p, d):
        assert later["features"]["kwargs_data"] is None and later["features"]["mm_metadata"] == {"image": ["META"]}
        assert later["ec_transfer_params"] == {"where": "e"}
    assert p["kv_transfer_params"]["do_remote_decode"] is True and p["sampling_params"]["max_tokens"] == 1
    assert p["sampling_params"]["prompt_logprobs"] == 1 and "logprobs" not in p["sampling_params"]
    assert d["kv_transfer_params"] == {"blocks": [4]} and d["sampling_params"]["max_tokens"] == 9
    assert len(encode.requests) == 1 and len(prefill.requests) == 2


async def test_a_step_that_hands_nothing_on_is_a_failure() -> None:
    prefill, decode = FakeWorker([2]), FakeWorker([5])
    async with fleet(prefill, decode, prefill=[prefill], decode=[decode]) as engine:
        with pytest.raises(EngineFailure):
            await collect(engine)
        assert decode.requests == []


async def test_metadata_of_items_with_tensors_is_not_sent() -> None:
    worker = FakeWorker()
    features = {
        "mm_hashes": {"image": ["a", "b"]},
        "mm_placeholders": {"image": [{"offset": 0, "length": 1}, {"offset": 1, "length": 1}]},
        "kwargs_data": {"image": ["T", None]}, "mm_metadata": {"image": ["M", "N"]},
    }  # fmt: skip
    async with fleet(worker) as engine:
        await collect(engine, request(features=features, ec_transfer_params={"k": 1}))
    assert worker.requests[0]["features"]["mm_metadata"] == {"image": [None, "N"]}


@pytest.mark.parametrize("incremental", [False, True])
async def test_sglang_in_both_output_forms(incremental: bool) -> None:
    worker = FakeWorker([10, 11, 13], kind="sglang", incremental=incremental)
    async with fleet(worker, kind=sglang) as engine:
        body = request(sampling={"logprobs": 2, "temperature": 0, "top_k": 5, "seed": 3, "min_tokens": 1})
        chunks = [chunk async for chunk in engine.generate(body)]
        assert [c.token_ids for c in chunks] == [[10], [11], [13]]
        assert (chunks[-1].finish_reason, chunks[-1].stop_reason) == ("stop", 13)
        assert chunks[0].cached_tokens == 2
        entry = chunks[1].logprobs[0]
        assert (entry.token_id, entry.logprob, entry.rank) == (11, -11.5, 2)
        assert [(t.token_id, t.rank) for t in entry.top_logprobs] == [(11, 2), (99, 1)]
        with pytest.raises(Unsupported) as error:
            engine.check(request(sampling={"bad_words": ["x"]}))
        assert error.value.param == "bad_words"
        engine.check(request(sampling={"structured_outputs": {"choice": ["a", "b"]}}))
    sent = worker.requests[0]
    assert sent["input_ids"] == [1, 2, 3] and sent["top_logprobs_num"] == 2
    assert sent["sampling_params"]["sampling_seed"] == 3 and "top_k" not in sent["sampling_params"]


@pytest.mark.parametrize("fault", ["die:0", "die:1", "hang:1", "nonsense:1", "garbage", "half:0"])
async def test_sglang_faults(fault: str) -> None:
    async with fleet(FakeWorker(kind="sglang", fault=fault), kind=sglang, retries=0, **deadlines(fault)) as engine:
        with pytest.raises(EngineFailure):
            await collect(engine)
