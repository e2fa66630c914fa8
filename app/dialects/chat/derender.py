"""``/v1/chat/completions/derender``: token answers to chat completions, token chunks to chat completion chunks."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import UnsetType
from msgspec.structs import replace

from app.derendering.derenderer import Derenderer, Step
from app.derendering.logprobs import LogprobOptions
from app.derendering.stream_state import StateSeal, StreamState
from app.dialects.binding import (
    DerenderModel,
    ReadingView,
    derenderer_of,
    effective_kwargs,
    has_formats,
    history_calls,
    plain_derenderer,
)
from app.dialects.chat.read import read
from app.dialects.chat.write import ChatOptions, chat_delta, chat_logprobs, fold
from app.dialects.derender_limits import check_length, check_prompt, check_response
from app.dialects.identity import base_id
from app.dialects.nested import inside
from app.dialects.recent import Recent
from app.dialects.steps import advance, chunk_usage, first_id, first_state, whole
from app.dialects.writer import ReplyHead
from app.errors import InvalidRequest
from app.protocol.chat import ChatMessage, ChatRequest
from app.protocol.chat_reply import ChatChunk, ChatChunkChoice, ChatCompletion, ChatDelta
from app.protocol.derender import ChatDerendered, ChatDerenderRequest
from app.protocol.generate import GenerateChunk
from app.protocol.usage import GenerateUsage
from app.rendering.request import RenderInput

__all__ = ("chat_logprob_options", "derender")

DIALECT = "chat"
NO_MESSAGES = [ChatMessage(role="user", content="")]
RECENT: Recent[Derenderer] = Recent()
T = TypeVar("T")


def derender(
    request: ChatDerenderRequest, model: DerenderModel, seal: StateSeal, *, now: int
) -> ChatCompletion | ChatDerendered:
    """The reply to a derender call; ``now`` is in Unix seconds.

    Raises:
        InvalidRequest: a field is missing, wrong or too large.
        InvalidState: ``stream_state`` is forged, of another key or of another stream.
    """
    if request.chat_request is None and has_formats(model):
        raise InvalidRequest(
            "`chat_request` is needed: without it this model's reasoning and calls would be left in the content.",
            param="chat_request",
        )
    check_prompt(model, request.prompt_token_ids)
    return _derender_chunk(request, model, seal, now) if request.stream else _derender_whole(request, model, now)


def chat_logprob_options(request: ChatRequest | None) -> LogprobOptions:
    """What a chat request wants of the logprobs that came; one that asks for none takes them as they are."""
    if request is None:
        return LogprobOptions(top=None)
    as_ids = bool(request.return_tokens_as_token_ids)
    everything = not request.logprobs or request.top_logprobs == -1 or bool(request.logprob_token_ids)
    return LogprobOptions(top=None if everything else request.top_logprobs or 0, as_ids=as_ids)


def _derender_whole(request: ChatDerenderRequest, model: DerenderModel, now: int) -> ChatCompletion:
    response = request.generate_response
    if response is None:
        raise InvalidRequest("`generate_response` is needed.", param="generate_response")
    check_response(model, response)
    chat = request.chat_request
    request_id = response.request_id or f"chatcmpl-{base_id(None, chat.request_id if chat else None)}"
    prompt_ids = response.prompt_token_ids if request.prompt_token_ids is None else request.prompt_token_ids
    read_request = None if chat is None else _read(chat, model)
    history = 0 if read_request is None else history_calls(read_request)
    derenderer, kwargs = _bind(model, chat, read_request, request_id, history)
    steps = whole(derenderer, response, prompt_ids, kwargs)
    head = ReplyHead(id=request_id, created=now, model=request.model or model.name)
    chunk = ChatChunk(id=head.id, created=now, model=head.model, choices=_choices(steps, (), model, chat))
    completion = sum(step.tokens for step in steps)
    prompt = request.prompt_tokens or 0
    chunk.usage = GenerateUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)
    reply = fold(head, [chunk], ChatOptions(forced=derenderer.options.tool_choice in ("required", "named")))
    ids = {choice.index: choice.token_ids for choice in reversed(chunk.choices)}
    for choice in reply.choices:
        message = choice.message
        message.annotations = message.audio = message.function_call = None
        message.reasoning = _null(message.reasoning)
        if isinstance(choice.stop_reason, UnsetType):
            choice.stop_reason = None
        choice.token_ids = ids.get(choice.index)
        choice.routed_experts = choice.weight_versions = None
    reply.service_tier = reply.system_fingerprint = reply.prompt_text = None
    reply.prompt_logprobs = response.prompt_logprobs
    reply.prompt_token_ids = response.prompt_token_ids if chat is not None and chat.return_token_ids else None
    reply.kv_transfer_params = response.kv_transfer_params
    reply.ec_transfer_params = None
    reply.metrics = response.metrics
    return reply


def _derender_chunk(request: ChatDerenderRequest, model: DerenderModel, seal: StateSeal, now: int) -> ChatDerendered:
    chunk, chat = request.generate_chunk, request.chat_request
    if chunk is None:
        raise InvalidRequest("`generate_chunk` is needed with `stream: true`.", param="generate_chunk")
    check_response(model, chunk, param="generate_chunk")
    if request.stream_state is None:
        derenderer, state = _first(request, chunk, model, now)
    else:
        state = seal.open(request.stream_state, dialect=DIALECT, model=model.name, request_id=chunk.request_id)
        request_id, calls = state.request_id, state.history_calls
        derenderer = RECENT.get(DIALECT, request_id, model, chat, lambda: _rebind(model, chat, request_id, calls))
    check_length(model, request.prompt_token_ids, state, chunk)
    steps = advance(derenderer, state, chunk)
    told = state.writer or []
    reply = ChatChunk(
        id=state.request_id,
        created=state.created,
        model=request.model or model.name,
        choices=_choices(steps, told, model, chat),
        usage=chunk_usage(chunk, state, request.prompt_tokens),
        system_fingerprint=None,
        prompt_token_ids=_null(chunk.prompt_token_ids) if chat is not None and chat.return_token_ids else None,
        prompt_text=None,
        metrics=_null(chunk.metrics),
        kv_transfer_params=_null(chunk.kv_transfer_params),
    )
    state.writer = list(dict.fromkeys([*told, *(step.index for step in steps)]))
    return ChatDerendered(reply, seal.seal(state, dialect=DIALECT, model=model.name))


def _first(
    request: ChatDerenderRequest, chunk: GenerateChunk, model: DerenderModel, now: int
) -> tuple[Derenderer, StreamState]:
    chat = request.chat_request
    prompt_ids = _null(chunk.prompt_token_ids) if request.prompt_token_ids is None else request.prompt_token_ids
    if prompt_ids is None and has_formats(model):
        raise InvalidRequest(
            "`prompt_token_ids` are needed with the first chunk: they tell whether the prompt left reasoning open.",
            param="prompt_token_ids",
        )
    request_id = chunk.request_id or first_id("chatcmpl-", prompt_ids, chunk)
    read_request = None if chat is None else _read(chat, model)
    history = 0 if read_request is None else history_calls(read_request)
    derenderer, kwargs = _bind(model, chat, read_request, request_id, history)
    state = first_state(derenderer, prompt_ids, kwargs, request_id=request_id, created=now, history_calls=history)
    return derenderer, state


def _rebind(model: DerenderModel, chat: ChatRequest | None, request_id: str, history: int) -> Derenderer:
    """The derenderer of a later chunk: the messages were read with the first, and what they told is in the state."""
    rest = None if chat is None else _read(replace(chat, messages=[]), model)
    return _bind(model, chat, rest, request_id, history)[0]


def _read(chat: ChatRequest, model: DerenderModel) -> RenderInput:
    """The request in no dialect's words; here it may come without its messages."""
    with inside("chat_request"):
        return read(chat if chat.messages else replace(chat, messages=NO_MESSAGES), model=ReadingView.of(model))


def _bind(
    model: DerenderModel, chat: ChatRequest | None, request: RenderInput | None, request_id: str, history: int
) -> tuple[Derenderer, dict[str, object]]:
    logprobs = chat_logprob_options(chat)
    if request is None:
        return plain_derenderer(model, None, request_id=request_id, logprobs=logprobs), {}
    kwargs = effective_kwargs(model, request)
    derenderer = derenderer_of(
        model, request, request_id=request_id, kwargs=kwargs, history_calls=history, logprobs=logprobs
    )
    return derenderer, kwargs


def _choices(
    steps: Sequence[Step], told: Sequence[int], model: DerenderModel, chat: ChatRequest | None
) -> list[ChatChunkChoice]:
    """Chunk choices as vLLM writes them: nulls kept, the role in a choice's first delta."""
    # Logprobs and ids would tell the reasoning that the request hides.
    hidden = chat is not None and chat.include_reasoning is False and has_formats(model)
    ids = chat is not None and bool(chat.return_token_ids) and not hidden
    choices = []
    for step in steps:
        delta = chat_delta(step.deltas)
        choices.append(
            ChatChunkChoice(
                index=step.index,
                delta=ChatDelta(
                    role=None if step.index in told else "assistant",
                    content=_null(delta.content),
                    reasoning=_null(delta.reasoning),
                    tool_calls=delta.tool_calls,
                ),
                logprobs=None if hidden else chat_logprobs(step.logprobs),
                finish_reason=step.finish_reason,
                stop_reason=step.stop_reason,
                token_ids=step.token_ids if ids else None,
                weight_versions=None,
            )
        )
    return choices


def _null(value: T | UnsetType | None) -> T | None:
    return None if isinstance(value, UnsetType) else value
