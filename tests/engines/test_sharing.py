"""Models that name one ``[[engines]]`` table share its fleet; a local engine only where the files are the same."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.engines.engine import EngineConfig, SharedEngine
from app.engines.fleet.open import sglang, vllm
from app.engines.local.engine import LocalEngine
from tests.engines.fake_worker import FakeWorker
from tests.engines.scripted import Script, ScriptedEngine
from tests.engines.served import request, served
from tests.engines.weights import tiny_directory
from tests.models import BUILT, model_directory
from tests.sdk.live import KEY, Live, live
from tests.sdk.live import served as model_settings

pytestmark = pytest.mark.skipif(not BUILT, reason="no tokenizer data packages (make test installs them)")


def engine_of(server: Live, name: str) -> Any:
    return server.model(name).engine


def test_two_models_on_one_table_make_one_fleet() -> None:
    worker = FakeWorker(tokens=[9707, 13])
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(worker.__aenter__())
    table = {"kind": "vllm", "urls": [worker.url], "options": {"health_interval_s": 0}}
    models = [
        model_settings(model_directory("qwen3"), "a", engine="pool", tool_format="none", reasoning_format="none"),
        model_settings(model_directory("qwen2.5"), "b", engine="pool", tool_format="none", reasoning_format="none"),
        model_settings(model_directory("qwen3"), "c", engine="other", tool_format="none", reasoning_format="none"),
    ]
    engines = [{"name": "pool", **table}, {"name": "other", **table}]
    try:
        with live(models, ISTHMUS_ENGINES=json.dumps(engines)) as server:
            assert engine_of(server, "a") is engine_of(server, "b") is not engine_of(server, "c")
            (fleet,) = engine_of(server, "a").roles.fleets

            def ask(model: str) -> httpx.Response:
                body = {"model": model, "prompt": "Hi", "max_tokens": 4, "temperature": 0}
                headers = {"Authorization": f"Bearer {KEY}"}
                return httpx.post(server.url + "/v1/completions", json=body, headers=headers, trust_env=False)

            for model in ("a", "b", "a"):
                reply = loop.run_until_complete(asyncio.to_thread(ask, model))
                assert reply.status_code == 200, reply.text
            assert len(worker.requests) == 3
            assert list(fleet.workers) == [worker.url]
    finally:
        loop.run_until_complete(worker.__aexit__())
        loop.close()


@pytest.mark.slow
def test_local_models_of_the_same_files_load_them_once(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        tiny_directory(folder)
    one, two = folders
    given = [("a", one, {}), ("b", one, {}), ("c", two, {}), ("d", one, {"max_model_len": 64})]
    common = {"engine": "e", "tool_format": "none", "reasoning_format": "none"}
    models = [model_settings(folder, name, **common, **more) for name, folder, more in given]
    engine = {"name": "e", "kind": "local", "options": {"threads": 1}}
    with live(models, ISTHMUS_ENGINES=json.dumps([engine])) as server:
        a, b, c, d = (engine_of(server, name) for name in "abcd")
        assert a is b and len({id(one) for one in (a, c, d)}) == 3
        body = {"model": "b", "prompt": "Hi", "max_tokens": 2}
        headers = {"Authorization": f"Bearer {KEY}"}
        assert httpx.post(server.url + "/v1/completions", json=body, headers=headers, trust_env=False).is_success


@pytest.mark.parametrize("kind", [vllm, sglang, LocalEngine])
def test_the_engines_that_ship_can_be_shared(kind: Any) -> None:
    options = {} if kind is LocalEngine else {"urls": ["http://a"]}
    assert isinstance(kind(EngineConfig(name="e", kind="k", options=options)), SharedEngine)
    assert not isinstance(ScriptedEngine([1]), SharedEngine)


@pytest.mark.parametrize(
    ("stop_reason", "sampling", "told"),
    [
        (256, {}, None),
        (256, {"ignore_eos": True, "stop_token_ids": [256]}, 256),
        (65, {"stop_token_ids": [65]}, 65),
        ("x", {"stop": ["x"]}, "x"),
    ],
)
async def test_the_primary_end_token_is_no_stop_reason(stop_reason: Any, sampling: Any, told: Any) -> None:
    """An engine of several models does not know which end token is whose primary one."""
    from app.runs.generate import whole
    from app.runs.generate_check import accept

    model = served(ScriptedEngine(Script([65, 256], stop_reason=stop_reason)))
    reply = await whole(accept(request(sampling=sampling), model), model)
    assert reply.choices[0].stop_reason == told
