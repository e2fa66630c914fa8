"""Text and conversations to ids and back: /tokenize, /detokenize, and /v1/messages/count_tokens."""

from app.dialects.tokenize import read
from app.http.codec import encode
from app.http.exchange import Exchange
from app.http.json_route import JsonRoute
from app.http.service import Service
from app.http.shell import SCALE_OUT
from app.protocol.messages import MESSAGES_EXAMPLE, CountTokensRequest
from app.protocol.tokenize import (
    DETOKENIZE_EXAMPLE,
    TOKENIZE_EXAMPLE,
    DetokenizeReply,
    DetokenizeRequest,
    TokenCount,
    TokenizeReply,
    TokenizeRequest,
)
from app.rendering.tokenization import detokenize as text_of
from app.rendering.tokenization import token_strings, tokenize_conversation, tokenize_text
from app.runs import messages as runs

__all__ = ("ROUTES",)


async def tokenize(service: Service, data: TokenizeRequest, exchange: Exchange) -> bytes:
    """Ids of a text (`prompt`) or of a conversation as the chat template writes it (`messages`)."""
    model = service.model(data.model, exchange)
    wanted = read(data)
    if wanted.conversation is not None:
        ids = await tokenize_conversation(model.renderer, wanted.conversation, wanted.template)
    else:
        special = wanted.template.add_special_tokens
        ids = await tokenize_text(model.renderer, wanted.text or "", add_special_tokens=special)
    exchange.tokens_in = len(ids)
    words = token_strings(model.renderer, ids) if data.return_token_strs else None
    reply = TokenizeReply(count=len(ids), max_model_len=model.max_model_len, tokens=ids, token_strs=words)
    return encode(reply)


async def detokenize(service: Service, data: DetokenizeRequest, exchange: Exchange) -> bytes:
    """Text of ids, special tokens kept; ids outside the vocabulary give nothing."""
    model = service.model(data.model, exchange)
    exchange.tokens_in = len(data.tokens)
    return encode(DetokenizeReply(prompt=text_of(model.renderer, data.tokens)))


async def count_tokens(service: Service, data: CountTokensRequest, exchange: Exchange) -> bytes:
    """Prompt tokens of an Anthropic messages request."""
    model = service.model(data.model, exchange)
    exchange.tokens_in = await runs.count_tokens(data, model=model)
    return encode(TokenCount(input_tokens=exchange.tokens_in))


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
    JsonRoute(
        path="/v1/messages/count_tokens",
        run=count_tokens,
        takes=CountTokensRequest,
        gives=TokenCount,
        example={key: value for key, value in MESSAGES_EXAMPLE.items() if key in ("model", "messages", "system")},
        tag="messages",
    ),
]
