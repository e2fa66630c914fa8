"""Logits of a step's last positions to one token each, and to the logprobs that were asked for.

The order of operations is that of vLLM's V1 sampler, so that a seedless greedy answer agrees with it: constraint mask,
raw logprobs, allowed ids, bad words, minimum length, bias, penalties, then (unless greedy) temperature, min_p, top_k,
top_p and the draw. The draw inverts the cumulative distribution in vocabulary order at one uniform number from the
sequence's own generator, so that what others in the batch do can't change it.
"""

from collections.abc import Sequence as Sequence_
from typing import Any

from app.engines.local.sequence import Sequence
from app.protocol.generate import TokenLogprob, TopLogprob

__all__ = ("FLOOR", "draw", "position_logprobs", "sample")

FLOOR = -9999.0
"""What -inf and NaN are sent as (vLLM wire, section 10.3)."""


def sample(logits: Any, sequences: Sequence_[Sequence]) -> list[tuple[int, TokenLogprob | None]]:
    """One token a row of ``logits`` ``[rows, vocabulary]`` (float32, changed in place), with logprobs where wanted."""
    for row, sequence in enumerate(sequences):
        if sequence.constraint is not None:
            sequence.constraint.mask(logits[row : row + 1])
    raw = {
        row: logits[row].log_softmax(-1)
        for row, sequence in enumerate(sequences)
        if sequence.plan.logprobs is not None or sequence.plan.logprob_token_ids is not None
    }
    for row, sequence in enumerate(sequences):
        if sequence.plan.edits_logits:
            edit(logits[row], sequence)
    greedy = logits.argmax(-1).tolist()
    tokens = []
    for row, sequence in enumerate(sequences):
        forced = sequence.forced
        if forced is not None:
            tokens.append(forced)
        else:
            tokens.append(greedy[row] if sequence.plan.greedy else draw(logits[row], sequence))
    return [
        (token, _token_logprob(raw[row], token, sequences[row]) if row in raw else None)
        for row, token in enumerate(tokens)
    ]


def edit(row: Any, sequence: Sequence) -> None:
    """Everything that changes which token is likeliest, in place on one row ``[vocabulary]``."""
    import torch

    plan, output = sequence.plan, sequence.output
    if plan.allowed_token_ids is not None:
        kept = sequence.tensor("allowed", plan.allowed_token_ids, row, torch.long)
        values = row[kept]
        row.fill_(-torch.inf)
        row[kept] = values
    for word in plan.bad_word_ids:
        *head, last = word
        if not head or (len(output) >= len(head) and output[-len(head) :] == head):
            row[last] = -torch.inf
    if len(output) < plan.min_tokens:
        row[sequence.tensor("ends", sequence.ends, row, torch.long)] = -torch.inf
    if plan.logit_bias:
        tokens = sequence.tensor("biased", plan.logit_bias, row, torch.long)
        row[tokens] += sequence.tensor("biases", plan.logit_bias.values(), row, row.dtype)
    if plan.repetition_penalty != 1.0:
        seen = sequence.seen(row)
        row.copy_(
            torch.where(seen, torch.where(row > 0, row / plan.repetition_penalty, row * plan.repetition_penalty), row)
        )
    if plan.frequency_penalty or plan.presence_penalty:
        counts = sequence.counts(row)
        row -= plan.frequency_penalty * counts + plan.presence_penalty * (counts > 0)


def draw(row: Any, sequence: Sequence) -> int:
    """A token by temperature, min_p, top_k and top_p from one row of logits ``[vocabulary]``."""
    import torch

    plan = sequence.plan
    scaled = row.double() / plan.temperature
    probabilities = torch.softmax(scaled, -1)
    ids = None
    if plan.min_p > 0:
        ids = torch.nonzero(probabilities >= plan.min_p * probabilities.max())[:, 0]
        probabilities = probabilities[ids]
    if 0 < plan.top_k < len(probabilities) or plan.top_p < 1.0:
        kept = _truncate(probabilities, plan.top_k, plan.top_p)
        ids = kept if ids is None else ids[kept]
        probabilities = probabilities[kept]
    cumulative = probabilities.cumsum(0)
    point = torch.tensor([sequence.random.random()], dtype=torch.float64, device=row.device) * cumulative[-1]
    place = min(int(torch.searchsorted(cumulative, point, right=True)), len(cumulative) - 1)
    return place if ids is None else int(ids[place])


def _truncate(probabilities: Any, top_k: int, top_p: float) -> Any:
    """Indices that top_k and then top_p (over what top_k left, renormalised) keep, ascending."""
    size = len(probabilities)
    wide = top_k if 0 < top_k < size else size
    part = min(wide, 1024)
    values, order = probabilities.topk(part)
    total = values.sum() if part == wide else probabilities.sum()
    if part < wide:
        if wide < size:
            total = probabilities.topk(wide).values.sum()
        if float(values.sum()) < top_p * float(total):
            values, order = probabilities.topk(wide)
    if top_p < 1.0:
        before = values.cumsum(0) - values
        keep = before < top_p * total
        keep[0] = True
        order = order[keep]
    return order.sort().values


def _token_logprob(raw: Any, token: int, sequence: Sequence) -> TokenLogprob:
    plan = sequence.plan
    ids = plan.logprob_token_ids
    wanted = None if ids is None else [token, *(i for i in ids if i != token)]
    return position_logprobs(raw, token, plan.logprobs or 0, wanted)


def position_logprobs(raw: Any, token: int, count: int, ids: list[int] | None = None) -> TokenLogprob:
    """Logprobs of one position: the token, and the ``count`` likeliest (-1: all), or exactly ``ids``.

    ``raw`` are natural-log probabilities ``[vocabulary]``. The token stands first; the list has ``count`` entries where
    the token is among them and one more where it isn't. A rank counts the entries that are at least as likely.
    """
    if ids is None:
        count = len(raw) if count < 0 else min(count, len(raw))
        values, order = raw.topk(count)
        pairs = zip(order.tolist(), values.tolist(), strict=True)
        top = [TopLogprob(token_id=i, logprob=_finite(v), rank=k + 1) for k, (i, v) in enumerate(pairs)]
        own = next((entry for entry in top if entry.token_id == token), None)
        if own is None:
            own = _ranked(raw, token)
        top = [own, *(entry for entry in top if entry.token_id != token)]
    else:
        top = [_ranked(raw, i) for i in ids]
        own = top[0]
    if count == 0 and ids is None:
        return TokenLogprob(token_id=token, logprob=own.logprob, rank=own.rank, top_logprobs=[own])
    return TokenLogprob(token_id=token, logprob=own.logprob, rank=own.rank, top_logprobs=top)


def _ranked(raw: Any, token: int) -> TopLogprob:
    value = float(raw[token])
    rank = None if value != value else int((raw >= value).sum())
    return TopLogprob(token_id=token, logprob=_finite(value), rank=rank)


def _finite(value: float) -> float:
    return value if value > FLOOR else FLOOR
