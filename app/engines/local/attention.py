"""Attention over a packed step: every sequence's new tokens against that sequence's own keys and values.

A step packs the new tokens of all running sequences (one each while decoding, a piece of the prompt while prefilling)
into one row, without padding. All matrix products of the model run over the packed row; only attention is done per
sequence, each over its own contiguous cache, so a sequence's result doesn't depend on whom it shares the step with.
Registered with transformers' attention interface, which hands the step through the model as the keyword ``step``.
"""

from collections.abc import Sequence
from typing import Any

__all__ = ("ATTENTION", "KvCache", "Step", "StepRange", "register")

ATTENTION = "isthmus_ragged"
GROWTH = 128
"""A cache grows in multiples of this many tokens."""


class KvCache:
    """Keys and values of one sequence, per layer ``[kv_heads, capacity, head_dim]``; the first ``length`` are valid."""

    __slots__ = ("capacity", "keys", "length", "values")

    def __init__(self) -> None:
        self.keys: dict[int, Any] = {}
        self.values: dict[int, Any] = {}
        self.length = 0
        self.capacity = 0

    def growth(self, tokens: int) -> int:
        """By how many tokens room for ``tokens`` in all enlarges the cache: by a half at least, which amortises it."""
        if tokens <= self.capacity:
            return 0
        wanted = max(tokens, self.capacity + self.capacity // 2)
        return (wanted + GROWTH - 1) // GROWTH * GROWTH - self.capacity

    def reserve(self, tokens: int) -> None:
        """Make room for ``tokens`` in all."""
        growth = self.growth(tokens)
        if growth == 0:
            return
        self.capacity += growth
        for store in (self.keys, self.values):
            for layer, old in store.items():
                new = old.new_empty((old.shape[0], self.capacity, old.shape[2]))
                new[:, : self.length] = old[:, : self.length]
                store[layer] = new

    def write(self, layer: int, start: int, key: Any, value: Any) -> tuple[Any, Any]:
        """Store ``[kv_heads, new, head_dim]`` at ``start``; answers all keys and values up to its end."""
        if layer not in self.keys:
            self.keys[layer] = key.new_empty((key.shape[0], self.capacity, key.shape[2]))
            self.values[layer] = value.new_empty((value.shape[0], self.capacity, value.shape[2]))
        end = start + key.shape[1]
        keys, values = self.keys[layer], self.values[layer]
        keys[:, start:end] = key
        values[:, start:end] = value
        return keys[:, :end], values[:, :end]

    def copy(self, length: int) -> "KvCache":
        """A cache of the first ``length`` tokens, independent of this one."""
        new = KvCache()
        new.capacity = (length + GROWTH) // GROWTH * GROWTH
        new.length = length
        for source, target in ((self.keys, new.keys), (self.values, new.values)):
            for layer, old in source.items():
                target[layer] = old.new_empty((old.shape[0], new.capacity, old.shape[2]))
                target[layer][:, :length] = old[:, :length]
        return new


class StepRange:
    """One sequence's part of a packed row: ``[start, start + count)``, after ``cache.length`` tokens seen before.

    ``blocks`` are ids of the blocks that all its tokens up to here are in, -1 for none, where there are any: the tokens
    of a block attend to each other, whichever comes first (Gemma 3's images).
    """

    __slots__ = ("blocks", "cache", "count", "start")

    def __init__(self, cache: KvCache, start: int, count: int) -> None:
        self.cache, self.start, self.count = cache, start, count
        self.blocks: Any = None


Step = Sequence[StepRange]


def ragged_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    step: Step = (),
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    **kwargs: Any,
) -> tuple[Any, None]:
    """Transformers' attention interface: query ``[1, heads, packed, head_dim]`` to ``[1, packed, heads, head_dim]``."""
    import torch

    heads, kv_heads = query.shape[1], key.shape[1]
    group = heads // kv_heads
    out = query.new_empty((query.shape[2], heads, value.shape[3]))
    scale = scaling if scaling is not None else query.shape[3] ** -0.5
    plain = softcap is None and s_aux is None
    for part in step:
        start, count, seen = part.start, part.count, part.cache.length
        new = slice(start, start + count)
        keys, values = part.cache.write(module.layer_idx, seen, key[0, :, new], value[0, :, new])
        first = 0 if sliding_window is None else max(0, seen - sliding_window + 1)
        keys, values = keys[:, first:], values[:, first:]
        if count == 1 and plain:
            # The heads that share a key head become the rows of one query: no key is repeated, no mask is needed.
            rows = query[0, :, start].view(1, kv_heads, group, -1)
            result = torch.nn.functional.scaled_dot_product_attention(rows, keys[None], values[None], scale=scale)
            out[start] = result.view(heads, -1)
            continue
        mask = None
        if seen or sliding_window is not None or not plain or part.blocks is not None:
            position = torch.arange(seen, seen + count, device=query.device)[:, None]
            column = torch.arange(first, seen + count, device=query.device)[None]
            mask = column <= position
            if part.blocks is not None:
                own = part.blocks[seen:, None]
                mask |= (own >= 0) & (own == part.blocks[None, first:])
            if sliding_window is not None:
                mask &= column > position - sliding_window
        if plain:
            result = torch.nn.functional.scaled_dot_product_attention(
                query[:, :, new],
                keys[None].repeat_interleave(group, 1),
                values[None].repeat_interleave(group, 1),
                attn_mask=mask,
                is_causal=mask is None,
                scale=scale,
            )[0]
        else:
            result = _eager(query[0, :, new], keys, values, mask, scale, group, softcap, s_aux)
        out[new] = result.transpose(0, 1)
    return out[None], None


def _eager(
    query: Any, keys: Any, values: Any, mask: Any, scale: float, group: int, softcap: float | None, sinks: Any
) -> Any:
    """Attention written out, for soft-capped logits (Gemma 2) and attention sinks (gpt-oss)."""
    import torch

    scores = query @ keys.repeat_interleave(group, 0).transpose(1, 2) * scale
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    if sinks is not None:
        sink = sinks.reshape(-1, 1, 1).expand(-1, scores.shape[1], 1).to(scores.dtype)
        weights = torch.cat([scores, sink], -1).float().softmax(-1)[..., :-1]
    else:
        weights = scores.float().softmax(-1)
    return weights.to(values.dtype) @ values.repeat_interleave(group, 0)


def register() -> None:
    """Make the implementation known to transformers. Idempotent."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, ragged_attention)
