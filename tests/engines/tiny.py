"""A random model of a few thousand weights, and an engine over it: for tests in which words don't matter."""

from contextlib import aclosing, asynccontextmanager
from typing import Any

from app.engines.engine import EngineConfig, TokenChunk
from app.engines.local.engine import LocalEngine
from tests.engines.served import ByteTokenizer

VOCABULARY = 260


def tiny_model(kind: str = "llama", *, seed: int = 0, **more: Any) -> Any:
    import torch
    import transformers

    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=512, eos_token_id=256, bos_token_id=257,
        pad_token_id=256, initializer_range=0.6, **more,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


@asynccontextmanager
async def tiny_engine(model: Any = None, *, tokenizer: Any = None, **options: Any) -> Any:
    config = EngineConfig(
        name="tiny", kind="local", eos_token_ids=(256,), tokenizer=tokenizer or ByteTokenizer(),
        options={"threads": 1, **options},
    )  # fmt: skip
    engine = LocalEngine(config, model=model if model is not None else tiny_model())
    await engine.start()
    try:
        yield engine
    finally:
        health = await engine.health()
        await engine.stop()
        assert (health.running, health.waiting) == (0, 0)
        assert not engine._jobs and not engine._queues


async def collect(engine: Any, body: Any) -> dict[int, TokenChunk]:
    """All chunks of a request folded by output."""
    found: dict[int, TokenChunk] = {}
    async with aclosing(engine.generate(body)) as chunks:
        async for chunk in chunks:
            whole = found.setdefault(chunk.index, TokenChunk(index=chunk.index))
            assert whole.finish_reason is None
            whole.token_ids += chunk.token_ids
            whole.logprobs = [*(whole.logprobs or ()), *chunk.logprobs] if chunk.logprobs is not None else None
            whole.finish_reason, whole.stop_reason = chunk.finish_reason, chunk.stop_reason
            whole.prompt_logprobs = whole.prompt_logprobs or chunk.prompt_logprobs
            whole.cached_tokens = chunk.cached_tokens if chunk.cached_tokens is not None else whole.cached_tokens
    assert all(whole.finish_reason for whole in found.values())
    return found
