"""A loaded model to the number of tokens whose keys and values fit in memory."""

from app.engines.local.attention import KvCache, StepRange
from app.engines.local.load import LoadedModel
from app.errors import StartupError

__all__ = ("kv_tokens", "probe")

CPU_BYTES = 2 * 1024**3


def probe(loaded: LoadedModel) -> int:
    """Run one token through the model; answers the bytes of cache that a token takes.

    Raises:
        StartupError: the architecture doesn't run on packed steps (state space layers, cross attention).
    """
    import torch

    cache = KvCache()
    cache.reserve(1)
    try:
        with torch.inference_mode():
            logits = loaded.model(
                input_ids=torch.tensor([[0]], device=loaded.device),
                position_ids=torch.tensor([[0]], device=loaded.device),
                use_cache=False,
                step=[StepRange(cache, 0, 1)],
                logits_to_keep=torch.tensor([0], device=loaded.device),
            ).logits
    except Exception as error:
        raise StartupError(f"{type(loaded.model).__name__} does not run on the local engine: {error}") from error
    layers = loaded.model.config.get_text_config().num_hidden_layers
    if logits.shape[:2] != (1, 1) or len(cache.keys) != layers:
        raise StartupError(f"{type(loaded.model).__name__} has layers that the local engine can't batch")
    stores = [*cache.keys.values(), *cache.values.values()]
    return sum(store.shape[0] * store.shape[2] * store.element_size() for store in stores)


def kv_tokens(loaded: LoadedModel, bytes_per_token: int, limit: int = 0) -> int:
    """How many tokens of cache fit in ``limit`` bytes; 0: 2 GiB on a CPU, a third of the free memory of a GPU."""
    import torch

    if limit <= 0:
        limit = torch.cuda.mem_get_info(loaded.device)[0] // 3 if loaded.device.startswith("cuda") else CPU_BYTES
    return max(1, limit // bytes_per_token)
