"""A chat completions request to its reply: read, rendered, held against the engine, ready to run."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from app.derendering.prompt_logprobs import with_texts
from app.dialects.binding import derenderer_of, effective_kwargs, history_calls
from app.dialects.chat.derender import chat_logprob_options
from app.dialects.chat.read import read
from app.dialects.chat.write import ChatOptions, ChatWriter, fold
from app.dialects.writer import Event, ReplyHead, Usage
from app.errors import Unsupported
from app.models import ServedModel
from app.protocol.chat import ChatRequest
from app.protocol.chat_reply import ChatChunk, ChatCompletion
from app.protocol.generate import GenerateRequest
from app.rendering.conversation import Text
from app.rendering.request import NamedTool, RenderInput
from app.runs.generate_check import accept
from app.runs.names import CHAT, names_for, said_as
from app.runs.reading import reading
from app.runs.reply import Events, Reply, require_engine
from app.runs.run import Run, events
from app.runs.salt import salted
from app.runs.tally import Tally

__all__ = ("chat",)


async def chat(
    request: ChatRequest, *, model: ServedModel, tenant: str = "", header_id: str | None = None, long: bool = False
) -> Reply:
    """The reply to a request, not yet running.

    Args:
        request: the body.
        model: the served model that it names.
        tenant: whose request it is.
        header_id: the request's ``X-Request-Id``.
        long: whether reading it is long work.

    Raises:
        InvalidRequest: a field is wrong; ``param`` names it.
        Unsupported: something that this server, model or engine does not do.
        BadMedia: an image or video could not be had.
    """
    require_engine(model)
    _refuse_unserved(request)
    given = await reading(lambda: read(request, model=model, request_id=header_id), long=long)
    given = salted(given, tenant)
    with said_as(CHAT, given=request):
        prompt: GenerateRequest = await model.renderer.render(given)
        accepted = accept(prompt, model)
    kwargs = effective_kwargs(model, given)
    derenderer = derenderer_of(
        model,
        given,
        request_id=prompt.request_id,
        kwargs=kwargs,
        history_calls=history_calls(given),
        logprobs=chat_logprob_options(request) if request.logprobs or request.logprob_token_ids else None,
    )
    run = Run(model=model, request=accepted, derenderer=derenderer, kwargs=kwargs, names=names_for(request, CHAT))
    head = ReplyHead(id=prompt.request_id, created=int(time.time()), model=request.model or model.name)
    options = _options(request, given, prompt.token_ids, model)
    tally = Tally(len(prompt.token_ids))

    def whole(written: Sequence[Event]) -> ChatCompletion:
        reply = fold(head, [event.data for event in written], options)
        if tally.prompt_logprobs is not None and request.prompt_logprobs is not None:
            reply.prompt_logprobs = with_texts(tally.prompt_logprobs, model.tokenizer)
        if tally.kv_transfer_params is not None:
            reply.kv_transfer_params = tally.kv_transfer_params
        if tally.ec_transfer_params is not None:
            reply.ec_transfer_params = tally.ec_transfer_params
        if tally.metrics is not None:
            reply.metrics = tally.metrics
        return reply

    return Reply(
        stream=given.stream,
        prompt_tokens=len(prompt.token_ids),
        events=_with_transfer(events(run, ChatWriter(head, options), tally=tally), tally),
        fold=whole,
    )


async def _with_transfer(written: Events, tally: Tally) -> AsyncGenerator[tuple[Event, Usage], None]:
    """The events; transfer parameters stand with the finish reason, where a decode worker's router looks for them."""
    async with aclosing(written):
        async for event, usage in written:
            chunk = event.data
            if (
                tally.kv_transfer_params is not None
                and isinstance(chunk, ChatChunk)
                and any(choice.finish_reason is not None for choice in chunk.choices)
            ):
                chunk.kv_transfer_params = tally.kv_transfer_params
            yield event, usage


def _refuse_unserved(request: ChatRequest) -> None:
    """Refuse what changes the reply and is not served; a render, which makes no reply, takes it."""
    for name, instead in (("functions", "`tools`"), ("function_call", "`tool_choice`")):
        if getattr(request, name):
            raise Unsupported(f"`{name}` is not served: use {instead}.", param=name)
    if request.audio is not None or request.modalities not in (None, [], ["text"]):
        raise Unsupported("Only text is written.", param="audio" if request.audio is not None else "modalities")
    if request.web_search_options is not None:
        raise Unsupported("Nothing here searches the web.", param="web_search_options")
    if request.return_weight_versions:
        raise Unsupported("Versions of weights are not told.", param="return_weight_versions")


def _options(request: ChatRequest, given: RenderInput, prompt_ids: list[int], model: ServedModel) -> ChatOptions:
    options = given.stream_options
    return ChatOptions(
        include_usage=not given.stream or bool(options and options.include_usage),
        continuous_usage=bool(options and options.continuous_usage_stats),
        # Ids of the output would tell the reasoning that the request hides.
        token_ids=bool(request.return_token_ids) and given.include_reasoning,
        prompt_token_ids=prompt_ids if request.return_token_ids else None,
        prompt_text=model.tokenizer.decode(prompt_ids) if request.return_prompt_text else None,
        echo=_continued(given) if request.echo else "",
        forced=given.tool_choice == "required" or isinstance(given.tool_choice, NamedTool),
    )


def _continued(given: RenderInput) -> str:
    """The text of a last message that the assistant wrote, which its answer is put behind."""
    assert given.conversation is not None
    last = given.conversation.messages[-1]
    if last.role != "assistant" or last.content is None:
        return ""
    parts = last.content
    return parts if isinstance(parts, str) else "".join([part.text for part in parts if isinstance(part, Text)])
