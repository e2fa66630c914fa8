"""A prompt's logprobs by token id, as an engine gives them, to logprobs with texts.

An engine gives one entry a prompt token, ``{"<token id>": {"logprob", "rank", ...}}``: the token itself and the
likeliest others; None for the first token, which nothing precedes. (Wire protocol of vLLM 0.33, section 10.3.)
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from app.derendering.logprobs import FLOOR, LogprobReader, Position
from app.protocol.generate import TokenLogprob
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("PromptLogprobs", "positions", "with_texts")

PromptLogprobs = Sequence[Mapping[str, Any] | None]


def with_texts(entries: PromptLogprobs, tokenizer: Tokenizer) -> list[dict[str, Any] | None]:
    """The same entries, every token with its text as ``decoded_token``."""
    return [
        None
        if entry is None
        else {
            token_id: {**scored, "decoded_token": scored.get("decoded_token") or tokenizer.decode([int(token_id)])}
            for token_id, scored in entry.items()
        }
        for entry in entries
    ]


def positions(ids: Sequence[int], entries: PromptLogprobs, reader: LogprobReader) -> list[Position]:
    """One position a prompt token, alternatives by rank; a token without an entry has the logprob -9999.0."""
    return reader.read([_entry(token_id, entry) for token_id, entry in zip(ids, entries, strict=False)], b"")[0]


def _entry(token_id: int, entry: Mapping[str, Any] | None) -> TokenLogprob:
    if entry is None:
        return TokenLogprob(token_id=token_id, logprob=FLOOR)
    scored = [
        TokenLogprob(token_id=int(other), logprob=one["logprob"], rank=one.get("rank")) for other, one in entry.items()
    ]
    scored.sort(key=lambda one: one.rank if one.rank is not None else len(scored))
    own = next((one for one in scored if one.token_id == token_id), None)
    return TokenLogprob(
        token_id=token_id,
        logprob=FLOOR if own is None else own.logprob,
        rank=None if own is None else own.rank,
        top_logprobs=cast(Any, scored),
    )
