"""OpenAI's chat completions, the whole path: render, generate, derender; whole and streamed."""

import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.datastructures import State
from litestar.di import NamedDependency

from app.dialects.binding import derenderer_of, effective_kwargs, history_calls
from app.dialects.chat.derender import chat_logprob_options
from app.dialects.chat.read import read
from app.dialects.chat.write import ChatOptions, ChatWriter, fold
from app.dialects.writer import Event, ReplyHead, Usage
from app.errors import Unsupported
from app.http.codec import StructDTO, encode, json_body, reply
from app.http.docs import error_replies
from app.http.errors import fault_body
from app.http.exchange import Exchange, exchange_of
from app.http.service import Service
from app.http.streams import event_stream, unless_gone
from app.models import ServedModel
from app.protocol.chat import CHAT_EXAMPLE, ChatRequest
from app.protocol.chat_reply import ChatCompletion
from app.rendering.request import NamedTool, RenderInput
from app.runs.generate_check import accept
from app.runs.run import Run, events

__all__ = ("ROUTES",)

DONE = b"data: [DONE]\n\n"
Events = AsyncGenerator[tuple[Event, Usage], None]


@post(
    "/v1/chat/completions",
    status_code=200,
    dto=StructDTO,
    return_dto=None,
    tags=["chat completions"],
    responses=error_replies("/v1/chat/completions"),
)
async def chat_completions(
    data: Annotated[ChatRequest, json_body(CHAT_EXAMPLE)],
    request: Request[Any, Any, State],
    service: NamedDependency[Service],
) -> Response[ChatCompletion]:
    """Answer a conversation. With `stream`, chunks as an event stream that ends with `data: [DONE]`."""
    exchange = exchange_of(request.scope)
    model = service.model(data.model, exchange)
    if model.engine is None:
        raise Unsupported(f"The model '{model.name}' has no engine: it is rendered and derendered here, not run.")
    given = read(data, model=model, request_id=exchange.client_id)
    prompt = await model.renderer.render(given)
    exchange.tokens_in = len(prompt.token_ids)
    run = _run(data, given, accept(prompt, model), model)
    head = ReplyHead(id=prompt.request_id, created=int(time.time()), model=data.model or model.name)
    options = _options(data, given, prompt.token_ids)
    writer = ChatWriter(head, options)
    if given.stream:
        return await event_stream(_opened(events(run, writer), exchange), _failed)
    return reply(await unless_gone(request.receive, _folded(events(run, writer), head, options, exchange)))


def _run(data: ChatRequest, given: RenderInput, prompt: Any, model: ServedModel) -> Run:
    kwargs = effective_kwargs(model, given)
    derenderer = derenderer_of(
        model,
        given,
        request_id=prompt.request_id,
        kwargs=kwargs,
        history_calls=history_calls(given),
        logprobs=chat_logprob_options(data) if data.logprobs or data.logprob_token_ids else None,
    )
    return Run(model=model, request=prompt, derenderer=derenderer, kwargs=kwargs)


def _options(data: ChatRequest, given: RenderInput, prompt_ids: list[int]) -> ChatOptions:
    options = given.stream_options
    return ChatOptions(
        include_usage=not given.stream or bool(options and options.include_usage),
        continuous_usage=bool(options and options.continuous_usage_stats),
        # Ids of the output would tell the reasoning that the request hides.
        token_ids=bool(data.return_token_ids) and given.include_reasoning,
        prompt_token_ids=prompt_ids if data.return_token_ids else None,
        forced=given.tool_choice == "required" or isinstance(given.tool_choice, NamedTool),
    )


async def _folded(run: Events, head: ReplyHead, options: ChatOptions, exchange: Exchange) -> ChatCompletion:
    chunks = []
    async for event, usage in run:
        chunks.append(event.data)
        exchange.tokens_out = usage.completion_tokens
    return fold(head, chunks, options)


async def _opened(run: Events, exchange: Exchange) -> AsyncIterator[bytes]:
    """The events as bytes, once the first one is there."""
    first = await anext(run)
    return _written(first, run, exchange)


async def _written(first: tuple[Event, Usage], run: Events, exchange: Exchange) -> AsyncIterator[bytes]:
    try:
        yield b"data: " + encode(first[0].data) + b"\n\n"
        async for event, usage in run:
            exchange.tokens_out = usage.completion_tokens
            yield b"data: " + encode(event.data) + b"\n\n"
        yield DONE
    finally:
        await run.aclose()


def _failed(error: Exception) -> bytes:
    return b"data: " + encode(fault_body(error, "openai")) + b"\n\n" + DONE


ROUTES: list[Any] = [chat_completions]
