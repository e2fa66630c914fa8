"""The local engine's life: clients that leave, aborts, overload, failing steps, and what stops its start."""

import asyncio
from typing import Any

import pytest

from app.engines.engine import EngineConfig
from app.engines.local.engine import LocalEngine
from app.engines.local.runner import Runner
from app.errors import EngineFailure, Overloaded, StartupError
from tests.engines.served import request
from tests.engines.tiny import collect, tiny_engine

GREEDY = {"temperature": 0, "max_tokens": 12, "ignore_eos": True}


@pytest.mark.parametrize("taken", [0, 1, 3])
async def test_a_client_that_leaves_frees_its_place(taken: int) -> None:
    async with tiny_engine() as engine:
        body = request(sampling=GREEDY | {"max_tokens": 400, "n": 1})
        stream = engine.generate(body)
        task = asyncio.ensure_future(anext(stream))
        if taken:
            await task
            for _ in range(taken - 1):
                await anext(stream)
        else:
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await stream.aclose()
        for _ in range(500):
            health = await engine.health()
            if (health.running, health.waiting) == (0, 0):
                return
            await asyncio.sleep(0.01)
    raise AssertionError("its place is still taken")


async def test_abort_ends_every_output_of_the_id_and_no_other() -> None:
    long = GREEDY | {"max_tokens": 400}
    async with tiny_engine() as engine:
        doomed = asyncio.create_task(collect(engine, request(request_id="a", sampling=long | {"n": 1})))
        other = asyncio.create_task(collect(engine, request(request_id="b", sampling=long)))
        await asyncio.sleep(0.05)
        await engine.abort(["a", "nobody"])
        assert {c.finish_reason for c in (await doomed).values()} == {"abort"}
        assert (await other)[0].finish_reason == "length"


async def test_overload_and_stopping() -> None:
    async with tiny_engine(max_num_seqs=1, max_waiting=1) as engine:
        runs = [
            asyncio.create_task(collect(engine, request(request_id=str(n), sampling=GREEDY | {"max_tokens": 100})))
            for n in range(2)
        ]
        await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):
            await collect(engine, request(request_id="x", sampling=GREEDY))
        await asyncio.gather(*runs)
    with pytest.raises(EngineFailure):
        await collect(engine, request())


async def test_a_step_that_fails_fails_its_requests_and_the_next_ones_run() -> None:
    async with tiny_engine() as engine:
        model = engine._runner._loaded.model
        forward = model.forward

        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("out of memory")

        model.forward = broken
        with pytest.raises(EngineFailure):
            await collect(engine, request(sampling=GREEDY))
        model.forward = forward
        assert len((await collect(engine, request(sampling=GREEDY)))[0].token_ids) == 12


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"colour": 1}, "colour"),
        ({"threads": "x"}, "threads"),
        ({"source": "/nowhere"}, "/nowhere"),
        ({"dtype": "float3"}, "float3"),
        ({"dtype": "int8"}, "int8"),
        ({"device": "gpu"}, "gpu"),
        ({"device": "cuda:99"}, "cuda:99"),
        ({"device": "meta"}, "meta"),
    ],
)
async def test_what_stops_the_start(options: dict[str, Any], names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(StartupError) as error:
        await LocalEngine(EngineConfig(name="e", kind="local", options={"source": "demo"} | options)).start()
    assert "\n" not in error.value.message and names in error.value.message


async def test_every_tensor_is_made_on_the_models_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """One made without a device would land on "meta" here, as on a GPU it would on the CPU, and fit no other."""
    import torch

    take = Runner._take

    def misled(runner: Runner) -> Any:
        torch.set_default_device("meta")  # of the model's thread alone
        return take(runner)

    samplings: list[dict[str, Any]] = [
        {"temperature": 0, "logprobs": 2, "prompt_logprobs": 1, "repetition_penalty": 1.3, "frequency_penalty": 0.5},
        {"seed": 1, "min_p": 0.01, "top_k": 50, "top_p": 0.9, "logit_bias": {"65": 2}, "allowed_token_ids": [65, 66]},
        {"seed": 1, "bad_words": ["A"], "min_tokens": 3, "stop_token_ids": [70], "logprob_token_ids": [1, 2]},
        {"temperature": 0, "structured_outputs": {"choice": ["abc", "xyz"]}},
    ]
    bodies = [request(request_id=str(n), sampling={"max_tokens": 6} | s) for n, s in enumerate(samplings)]
    async with tiny_engine() as engine:
        wanted = [await collect(engine, body) for body in bodies]
    monkeypatch.setattr(Runner, "_take", misled)
    async with tiny_engine() as engine:
        assert [await collect(engine, body) for body in bodies] == wanted


async def test_layers_that_keep_a_state_are_refused() -> None:
    import transformers

    config = transformers.MambaConfig(vocab_size=260, hidden_size=16, num_hidden_layers=1, state_size=4)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with pytest.raises(StartupError):
        await LocalEngine(EngineConfig(name="e", kind="local"), model=model).start()
