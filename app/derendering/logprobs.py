"""An engine's logprobs by token id to logprobs with texts and bytes, as OpenAI's APIs report them.

Both wire forms are read: integer ids (``token_id``) and names (``"token": "token_id:N"``). A logprob that is not
finite is sent as -9999.0, as vLLM does. ``bytes`` are the token's own, so those of a character over several tokens
join to it; its text stands at the token that completes the character.
"""

import codecs
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import Struct

from app.errors import InvalidRequest
from app.protocol.generate import GenerateLogprobs, TokenLogprob
from app.tokenizing.detokenizer import own_bytes
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("FLOOR", "LogprobOptions", "LogprobReader", "Position", "Scored", "read_logprobs")

FLOOR = -9999.0
REPLACEMENT = "\ufffd"
NAME = "token_id:"


class LogprobOptions(Struct, frozen=True):
    """``top`` alternatives a position (None: all that the engine gave). ``as_ids``: tokens are named ``token_id:N``."""

    top: int | None = 0
    as_ids: bool = False


class Scored(Struct, frozen=True):
    """A token with its logprob; ``bytes`` are None where tokens are named by id."""

    token: str
    logprob: float
    bytes: list[int] | None


class Position(Struct, frozen=True):
    """The token at one position of the output, and its alternatives.

    ``has_candidates`` is False where the engine gave no alternatives at all, the sampled token among them.
    """

    sampled: Scored
    top: list[Scored]
    has_candidates: bool


class _Alternative(Struct):
    token_id: int | None = None
    token: str | None = None
    logprob: float | None = None
    rank: int | None = None


class _Entry(_Alternative):
    top_logprobs: list[_Alternative] = []


class _Logprobs(Struct):
    content: list[_Entry] | None = None


def read_logprobs(raw: Any, *, param: str = "logprobs") -> list[TokenLogprob] | None:
    """Logprobs of one choice as they came over the wire, in either form; None where there are none."""
    if raw is None:
        return None
    if isinstance(raw, GenerateLogprobs):
        return raw.content
    try:
        content = msgspec.convert(raw, _Logprobs).content
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"`{param}` is no logprobs object: {error}", param=param) from error
    if content is None:
        return None
    return [
        TokenLogprob(
            token_id=_id_of(entry, param),
            logprob=_finite(entry.logprob),
            rank=entry.rank,
            top_logprobs=cast(
                Any,
                [
                    TokenLogprob(token_id=_id_of(top, param), logprob=_finite(top.logprob), rank=top.rank)
                    for top in entry.top_logprobs
                ],
            ),
        )
        for entry in content
    ]


def _id_of(entry: _Alternative, param: str) -> int:
    if entry.token_id is not None:
        return entry.token_id
    name = entry.token or ""
    if name.startswith(NAME) and name[len(NAME) :].isdecimal():
        return int(name[len(NAME) :])
    raise InvalidRequest(f"`{param}` names a token neither by `token_id` nor as `{NAME}N`.", param=param)


def _finite(logprob: float | None) -> float:
    return logprob if logprob is not None and math.isfinite(logprob) else FLOOR


class _Own(Struct, frozen=True):
    """A token's own text, None where its bytes are no whole characters, and its bytes."""

    text: str | None
    data: bytes
    numbers: list[int]


class LogprobReader:
    """Gives one tokenizer's tokens their texts and bytes; holds no stream state."""

    def __init__(self, tokenizer: Tokenizer, options: LogprobOptions) -> None:
        read = own_bytes(tokenizer)
        self._own = lru_cache(maxsize=16384)(lambda token_id: _own(read(token_id)))
        self._options = options

    def read(self, entries: Sequence[TokenLogprob], context: bytes) -> tuple[list[Position], bytes]:
        """Positions of new tokens.

        Args:
            entries: one per token, the sampled one with its alternatives.
            context: bytes of a character that the tokens before left unfinished.

        Returns:
            The positions, and the context for what follows.
        """
        positions = []
        top = self._options.top
        for entry in entries:
            kept = entry.top_logprobs if top is None else entry.top_logprobs[:top]
            positions.append(
                Position(
                    self._scored(entry.token_id, entry.logprob, context),
                    [self._scored(other.token_id, other.logprob, context) for other in kept],
                    bool(entry.top_logprobs),
                )
            )
            context = self._after(entry.token_id, context)
        return positions, context

    def _scored(self, token_id: int, logprob: float, context: bytes) -> Scored:
        logprob = _finite(logprob)
        if self._options.as_ids:
            return Scored(f"{NAME}{token_id}", logprob, None)
        own = self._own(token_id)
        text = own.text
        if text is None:
            text, _ = codecs.utf_8_decode(context + own.data, "replace", False)
            if text.startswith(REPLACEMENT):
                text, _ = codecs.utf_8_decode(own.data, "replace", False)
        return Scored(text, logprob, own.numbers)

    def _after(self, token_id: int, context: bytes) -> bytes:
        own = self._own(token_id)
        if own.text is not None:
            return b"" if own.data else context
        data = context + own.data
        return data[codecs.utf_8_decode(data, "replace", False)[1] :]


def _own(data: bytes) -> _Own:
    try:
        text: str | None = data.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    return _Own(text, data, list(data))
