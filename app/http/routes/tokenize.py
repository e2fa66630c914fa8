"""Text and conversations to ids and back: /tokenize and /detokenize."""

from collections.abc import Callable
from typing import TypeVar

from app.dialects.tokenize import read
from app.http.codec import encode
from app.http.exchange import Exchange
from app.http.json_route import JsonRoute
from app.http.service import Service
from app.http.shell import SCALE_OUT
from app.protocol.tokenize import (
    DETOKENIZE_EXAMPLE,
    TOKENIZE_EXAMPLE,
    DetokenizeReply,
    DetokenizeRequest,
    TokenizeReply,
    TokenizeRequest,
)
from app.rendering.prompt import LONG_WORK, in_thread
from app.rendering.tokenization import detokenize as text_of
from app.rendering.tokenization import token_strings, tokenize_conversation, tokenize_text
from app.runs.reading import reading

__all__ = ("ROUTES",)

T = TypeVar("T")
FEW = 4_096
"""Tokens that are spelled in a millisecond or two."""


async def tokenize(service: Service, data: TokenizeRequest, exchange: Exchange) -> bytes:
    """Ids of a text (`prompt`) or of a conversation as the chat template writes it (`messages`)."""
    model = service.model(data.model, exchange)
    wanted = await reading(lambda: read(data), long=exchange.large)
    if wanted.conversation is not None:
        ids = await tokenize_conversation(model.renderer, wanted.conversation, wanted.template, long=exchange.large)
    else:
        special = wanted.template.add_special_tokens
        ids = await tokenize_text(model.renderer, wanted.text or "", add_special_tokens=special)
    exchange.tokens_in = len(ids)
    words = None
    if data.return_token_strs:
        words = await in_turn(len(ids), lambda: token_strings(model.renderer, ids))
    reply = TokenizeReply(count=len(ids), max_model_len=model.max_model_len, tokens=ids, token_strs=words)
    return encode(reply)


async def detokenize(service: Service, data: DetokenizeRequest, exchange: Exchange) -> bytes:
    """Text of ids, special tokens kept; ids outside the vocabulary give nothing."""
    model = service.model(data.model, exchange)
    exchange.tokens_in = len(data.tokens)
    text = await in_turn(len(data.tokens), lambda: text_of(model.renderer, data.tokens))
    return encode(DetokenizeReply(prompt=text))


async def in_turn(tokens: int, work: Callable[[], T]) -> T:
    """``work()`` on so many tokens: on the event loop, or in a thread where they are many."""
    return work() if tokens <= FEW else await in_thread(LONG_WORK, work)


ROUTES = [
    JsonRoute(
        path="/tokenize",
        run=tokenize,
        takes=TokenizeRequest,
        gives=TokenizeReply,
        example=TOKENIZE_EXAMPLE,
        tag="tokenize",
        opt=SCALE_OUT,
    ),
    JsonRoute(
        path="/detokenize",
        run=detokenize,
        takes=DetokenizeRequest,
        gives=DetokenizeReply,
        example=DETOKENIZE_EXAMPLE,
        tag="tokenize",
        opt=SCALE_OUT,
    ),
]
