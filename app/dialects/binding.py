"""A request, as its dialect reads it, to the derenderer of its outputs."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.json import encode
from msgspec.structs import replace

from app.derendering.call_ids import CallIds
from app.derendering.derenderer import Derenderer
from app.derendering.logprobs import LogprobOptions
from app.derendering.options import DerenderOptions
from app.derendering.plain_text import PlainText
from app.dialects.model import DialectModel
from app.parsing.compose import make_parser
from app.parsing.format import ReasoningFormat, ToolFormat
from app.parsing.parser import Parser
from app.protocol.generate import ParseContext
from app.rendering.conversation import Conversation, Tool
from app.rendering.request import NamedTool, RenderInput
from app.tokenizing.tokenizer import Tokenizer

__all__ = (
    "DerenderModel",
    "ReadingView",
    "context_derenderer",
    "derenderer_of",
    "effective_kwargs",
    "has_formats",
    "history_calls",
    "plain_derenderer",
)

MAX_PARSERS = 256
_PARSERS_LOCK = Lock()
_PARSERS: dict[tuple[object, ...], tuple[object, Parser]] = {}
"""Parsers of the latest requests, oldest first: they hold no stream state, and a stream's chunks all ask for one. Each
keeps what its key names alive, so that no id in a key is ever another object's."""


class KwargsSource(Protocol):
    """The part of ``app.rendering.renderer.Renderer`` that derendering needs."""

    def kwargs_of(self, conversation: Conversation, request: RenderInput) -> dict[str, Any]:
        """The effective template kwargs of a request."""


class DerenderModel(DialectModel, Protocol):
    """The part of ``app.models.ServedModel`` that derendering looks at."""

    @property
    def tokenizer(self) -> Tokenizer:
        """For texts, bytes and markers."""

    @property
    def reasoning_format(self) -> ReasoningFormat | None:
        """How the model writes reasoning."""

    @property
    def eos_token_ids(self) -> Sequence[int]:
        """What ends its outputs, primary first."""

    @property
    def renderer(self) -> KwargsSource:
        """For the effective template kwargs."""


class ReadingView(Struct, frozen=True):
    """A served model for which any tools may be asked: calls that nothing can read stay visible as content."""

    name: str
    max_model_len: int
    vocab_size: int
    generation_defaults: Mapping[str, Any]
    tool_format: object = True

    @classmethod
    def of(cls, model: DialectModel) -> "ReadingView":
        """The view of a served model."""
        return cls(model.name, model.max_model_len, model.vocab_size, model.generation_defaults)


def derenderer_of(
    model: DerenderModel,
    request: RenderInput,
    *,
    request_id: str,
    kwargs: Mapping[str, Any],
    history_calls: int = 0,
    logprobs: LogprobOptions | None = None,
    call_prefix: str = "chatcmpl-tool-",
    call_digits: int = 16,
) -> Derenderer:
    """The derenderer of a request that was read by its dialect.

    Args:
        request_id: what tool-call ids are made from.
        kwargs: the effective template kwargs (:func:`effective_kwargs`).
        history_calls: how many calls the conversation holds.
        logprobs: which to report; none where reasoning is hidden, which they would tell.
        call_prefix, call_digits: the form of generated call ids.
    """
    tools = request.conversation.tools if request.conversation is not None else None
    choice = request.tool_choice
    parser = _parser(
        model,
        tools=[_tool_dict(tool) for tool in tools or ()],
        tool_choice={"type": "function", "function": {"name": choice.name}}
        if isinstance(choice, NamedTool)
        else choice,
        parallel_tool_calls=request.parallel_tool_calls,
        kwargs=kwargs,
        history_calls=history_calls,
    )
    if not request.include_reasoning and has_formats(model):
        logprobs = None
    options = _options(request, _ids(model, request_id, history_calls, call_prefix, call_digits), logprobs)
    return Derenderer(model.tokenizer, parser, options, eos_token_ids=model.eos_token_ids)


def plain_derenderer(
    model: DerenderModel, request: RenderInput | None, *, request_id: str, logprobs: LogprobOptions | None = None
) -> Derenderer:
    """A derenderer that reads no reasoning and no calls: completions, and models without formats."""
    ids = CallIds(request_id)
    options = DerenderOptions(call_ids=ids, logprobs=logprobs) if request is None else _options(request, ids, logprobs)
    return Derenderer(model.tokenizer, PlainText(), options, eos_token_ids=model.eos_token_ids)


def context_derenderer(
    model: DerenderModel, context: ParseContext, options: DerenderOptions, *, request_id: str
) -> Derenderer:
    """The derenderer of a rendered request's ``parse_context``; ``options`` are those of its sampling parameters.

    ``options.call_ids``, ``tool_choice`` and ``include_reasoning`` are taken from the context.
    """
    parser = _parser(
        model,
        tools=context.tools or (),
        tool_choice=context.tool_choice,
        parallel_tool_calls=context.parallel_tool_calls is not False,
        kwargs=context.chat_template_kwargs or {},
        history_calls=context.history_tool_call_cnt,
    )
    ids = _ids(model, request_id, context.history_tool_call_cnt, "chatcmpl-tool-", 16)
    choice: Literal["none", "auto", "required", "named"]
    match context.tool_choice:
        case "none" | "auto" | "required" as word:
            choice = word
        case None:
            choice = "auto" if context.tools else "none"
        case _:
            choice = "named"
    options = replace(options, call_ids=ids, tool_choice=choice, include_reasoning=context.include_reasoning)
    return Derenderer(model.tokenizer, parser, options, eos_token_ids=model.eos_token_ids)


def effective_kwargs(model: DerenderModel, request: RenderInput) -> dict[str, Any]:
    """The template kwargs that the request was, or would be, rendered with."""
    return {} if request.conversation is None else model.renderer.kwargs_of(request.conversation, request)


def history_calls(request: RenderInput) -> int:
    """How many tool calls the conversation holds."""
    return sum(len(message.tool_calls) for message in request.conversation.messages) if request.conversation else 0


def has_formats(model: DerenderModel) -> bool:
    """Whether the model's outputs have to be parsed."""
    return model.tool_format is not None or model.reasoning_format is not None


def _parser(
    model: DerenderModel,
    *,
    tools: Sequence[Mapping[str, Any]],
    tool_choice: str | Mapping[str, Any] | None,
    parallel_tool_calls: bool,
    kwargs: Mapping[str, Any],
    history_calls: int,
) -> Parser:
    if not has_formats(model):
        return PlainText()
    tool_format = model.tool_format if isinstance(model.tool_format, ToolFormat) else None
    formats = (tool_format, model.reasoning_format, model.tokenizer)
    wishes = encode((tools, tool_choice, parallel_tool_calls, kwargs, history_calls), enc_hook=repr)
    key = (*map(id, formats), wishes)
    bound = _PARSERS.get(key)
    if bound is None:
        parser = make_parser(
            *formats,
            tools=tools,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            template_kwargs=kwargs,
            history_tool_calls=history_calls,
        )
        bound = (formats, parser)
        with _PARSERS_LOCK:
            _PARSERS[key] = bound
            if len(_PARSERS) > MAX_PARSERS:
                del _PARSERS[next(iter(_PARSERS))]
    return bound[1]


def _ids(model: DerenderModel, request_id: str, history: int, prefix: str, digits: int) -> CallIds:
    form = model.tool_format.call_ids if isinstance(model.tool_format, ToolFormat) else "generated"
    return CallIds(request_id, form, prefix, digits, history)


def _tool_dict(tool: Tool) -> dict[str, Any]:
    return {"type": "function", "function": {"name": tool.name, "parameters": tool.parameters}}


def _options(request: RenderInput, call_ids: CallIds, logprobs: LogprobOptions | None) -> DerenderOptions:
    sampling, choice = request.sampling, request.tool_choice
    return DerenderOptions(
        call_ids=call_ids,
        tool_choice="named" if isinstance(choice, NamedTool) else choice or "auto",
        include_reasoning=request.include_reasoning,
        skip_special_tokens=sampling.skip_special_tokens is not False,
        spaces_between_special_tokens=sampling.spaces_between_special_tokens,
        stop=tuple(sampling.stop),
        stop_token_ids=tuple(sampling.stop_token_ids),
        ignore_eos=sampling.ignore_eos,
        min_tokens=sampling.min_tokens,
        include_stop=sampling.include_stop_str_in_output,
        logprobs=logprobs,
    )
