"""The local engine's first-token time and tokens a second at batch 1, 8 and 32, beside transformers' own ways.

    python -m bench --only engine            (or: python -m bench.engine [--model DIR] [--transformers])

Each request generates 48 tokens from a prompt of about 40, greedy. ``--transformers`` measures plain ``generate`` on a
padded batch of 8 and transformers' continuous batching on the same prompts.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from app.engines.engine import EngineConfig
from app.engines.local.engine import LocalEngine
from app.protocol.generate import GenerateRequest
from bench.table import Row, show

__all__ = ("measure",)

TOKENS = 48
PROMPT = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2]
QUESTION = [198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198]


def prompt(number: int) -> list[int]:
    """Prompts that differ from their first tokens on, so that no prefix is shared."""
    return [1, 500 + number, *PROMPT, *QUESTION]


def measure(model: Path | None, peers: Path | None, seconds: float) -> Iterable[Row]:
    """Rows for ``make bench``; the weights are the demo's, whatever ``model`` is (a renderer's has none)."""
    return asyncio.run(_measure("demo", (1, 8, 32)))


async def _measure(source: str, batches: Iterable[int]) -> list[Row]:
    engine = LocalEngine(EngineConfig(name="bench", kind="local", source=source, options={"prefix_cache": False}))
    began = time.perf_counter()
    await engine.start()
    rows = [Row("isthmus", "local engine: start", f"{time.perf_counter() - began:.1f} s")]
    await _run(engine, 0, 8)
    try:
        for batch in batches:
            began = time.perf_counter()
            firsts = await asyncio.gather(*(_run(engine, number, TOKENS) for number in range(batch)))
            took = time.perf_counter() - began
            rate = batch * TOKENS / took
            first = statistics.median(firsts)
            rows.append(
                Row("isthmus", f"local engine: batch {batch}", f"{rate:.0f} tokens/s, first after {first:.2f} s", rate)
            )
    finally:
        await engine.stop()
    return rows


async def _run(engine: LocalEngine, number: int, tokens: int) -> float:
    """One request; answers the seconds to its first token."""
    body = {
        "request_id": str(number),
        "token_ids": prompt(number),
        "sampling_params": {"temperature": 0, "max_tokens": tokens, "ignore_eos": True},
    }
    began = time.perf_counter()
    first = 0.0
    async for chunk in engine.generate(msgspec.convert(body, GenerateRequest)):
        first = first or time.perf_counter() - began
        assert chunk.token_ids
    return first


def transformers_rows(source: str, batch: int = 8) -> Iterator[Row]:
    """Plain ``generate`` on a batch, and ``generate_batch`` (continuous batching), tokens a second."""
    import torch
    import transformers

    from app.engines.local.load import weights_path

    directory, gguf = weights_path(source)
    more: dict[str, Any] = {"gguf_file": gguf} if gguf else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, **more).eval()
    prompts = [prompt(number) for number in range(batch)]
    with torch.inference_mode():
        began = time.perf_counter()
        ids = torch.tensor(prompts)
        model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=TOKENS, min_new_tokens=TOKENS,
            pad_token_id=2,
        )  # fmt: skip
        rate = batch * TOKENS / (time.perf_counter() - began)
        yield Row("transformers", f"local engine: batch {batch}", f"{rate:.0f} tokens/s (generate)", rate)
        config = transformers.GenerationConfig(max_new_tokens=TOKENS, do_sample=False, eos_token_id=-1, pad_token_id=2)
        model.set_attn_implementation("sdpa")
        began = time.perf_counter()
        found = model.generate_batch(inputs=prompts, generation_config=config, progress_bar=False)
        made = sum(len(one.generated_tokens) for one in found.values())
        rate = made / (time.perf_counter() - began)
        yield Row("transformers", f"continuous batching: batch {batch}", f"{rate:.0f} tokens/s", rate)


def main() -> None:
    """Measure alone."""
    parser = argparse.ArgumentParser(prog="bench.engine", description=__doc__)
    parser.add_argument("--model", default="demo", help="directory, .gguf file or demo")
    parser.add_argument("--transformers", action="store_true", help="measure transformers' own ways too")
    options = parser.parse_args()
    for row in asyncio.run(_measure(options.model, (1, 8, 32))):
        show(row)
    if options.transformers:
        for row in transformers_rows(options.model):
            show(row)


if __name__ == "__main__":
    main()
