"""A Responses request to ``RenderInput``."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from app.dialects.constraints import json_schema_constraint, read_constraints
from app.dialects.model import DialectModel
from app.dialects.passthrough import read_fields
from app.dialects.prompt_ids import reused_prompt
from app.dialects.responses.items import read_items
from app.dialects.responses.tools import read_tool_choice, read_tools
from app.dialects.sampling_fields import read_sampling
from app.dialects.template_fields import read_effort, read_mm_payload
from app.errors import InvalidRequest, Unsupported
from app.protocol.generate import StructuredOutputs
from app.protocol.responses import ResponsesRequest
from app.rendering.conversation import Conversation, Message
from app.rendering.limits import INCLUDES, MAX_METADATA
from app.rendering.request import NamedTool, RenderInput, SamplingRequest, TemplateOptions
from app.rendering.sampling_checks import check_sampling

__all__ = ("read",)

LOGPROBS = "message.output_text.logprobs"


def read(
    request: ResponsesRequest,
    *,
    model: DialectModel,
    request_id: str | None = None,
    response_id: str | None = None,
    history: Sequence[Mapping[str, Any]] | None = None,
) -> RenderInput:
    """What to render for a Responses request.

    Args:
        request: the decoded body.
        model: the served model that it goes to.
        request_id: the ``X-Request-Id`` header, which plays no part in this API.
        response_id: the id that the response will have; without one the body's ``request_id``, else a new one.
        history: the items of earlier turns, oldest first, that ``previous_response_id`` or ``conversation`` stand
            for; None where there is no store, and then neither is taken.

    Raises:
        InvalidRequest: a value, or a combination of values, is wrong; ``param`` names the field.
    """
    _check_state(request, stateless=history is None)
    _check_small_print(request)
    tools = read_tools(request.tools)
    choice, tools = read_tool_choice(request.tool_choice, tools, model)
    messages, unfinished = _read_messages(request, history or ())
    conversation = Conversation(messages=messages, tools=tools)
    through = read_fields(request)
    sampling = _read_sampling(request, through.extra_args)
    if isinstance(choice, NamedTool) and request.structured_outputs is not None:
        raise InvalidRequest(
            "A named tool is itself a constraint: leave out `structured_outputs`.", param="structured_outputs"
        )
    names = {"logprobs": "top_logprobs"}
    check_sampling(sampling, model.generation_defaults, model.max_model_len, names=names)
    effort = request.reasoning.effort if request.reasoning is not None else None
    return RenderInput(
        dialect="responses",
        request_id=response_id or request.request_id or f"resp_{secrets.token_hex(8)}",
        model=request.model,
        conversation=conversation,
        token_ids=reused_prompt(through.prompt_token_ids, conversation, model),
        template=TemplateOptions(
            add_generation_prompt=not unfinished,
            continue_final_message=unfinished,
            kwargs=request.chat_template_kwargs or {},
            reasoning_effort=read_effort(effort, param="reasoning.effort"),
            drop_oldest_items=request.truncation == "auto",
            mm_payload=read_mm_payload(request.mm_payload, request.return_mm_kwargs),
            mm_processor_kwargs=request.mm_processor_kwargs,
            media_io_kwargs=request.media_io_kwargs,
        ),
        sampling=sampling,
        tool_choice=choice,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        include_reasoning=request.include_reasoning is not False,
        stream=bool(request.stream),
        cache_salt=through.cache_salt,
        priority=through.priority,
        kv_transfer_params=through.kv_transfer_params,
        ec_transfer_params=through.ec_transfer_params,
    )


def _check_state(request: ResponsesRequest, *, stateless: bool) -> None:
    """Refuse what would change the meaning of the request and can't be had."""
    if request.prompt is not None:
        raise Unsupported("Stored prompt templates are not served.", param="prompt")
    if request.previous_response_id is not None and request.conversation is not None:
        raise InvalidRequest(
            "`previous_response_id` and `conversation` exclude each other.", param="previous_response_id"
        )
    if stateless and request.previous_response_id is not None:
        raise Unsupported(
            "This endpoint keeps no state: send the earlier items as `input`.", param="previous_response_id"
        )
    if stateless and request.conversation is not None:
        raise Unsupported("This endpoint keeps no state: send the earlier items as `input`.", param="conversation")
    if request.background and request.store is False:
        raise InvalidRequest("`background` needs `store`.", param="background")
    if request.previous_input_messages is not None:
        raise Unsupported(
            "`previous_input_messages` is not served: send the earlier items as `input`.",
            param="previous_input_messages",
        )


def _check_small_print(request: ResponsesRequest) -> None:
    """Fields that do not change the prompt and must be well formed."""
    if request.truncation not in (None, "auto", "disabled"):
        raise InvalidRequest("`truncation` is auto or disabled.", param="truncation")
    for position, include in enumerate(request.include or ()):
        if include not in INCLUDES:
            raise InvalidRequest(f"`include` takes {', '.join(INCLUDES)}.", param=f"include[{position}]")
    metadata = request.metadata or {}
    pairs, key_length, value_length = MAX_METADATA
    if len(metadata) > pairs or any(len(k) > key_length or len(v) > value_length for k, v in metadata.items()):
        raise InvalidRequest(
            f"`metadata` takes {pairs} pairs, keys to {key_length} and values to {value_length} characters.",
            param="metadata",
        )
    if request.max_tool_calls is not None and request.max_tool_calls < 1:
        raise InvalidRequest("`max_tool_calls` must be at least 1.", param="max_tool_calls")


def _read_messages(request: ResponsesRequest, history: Sequence[Mapping[str, Any]]) -> tuple[list[Message], bool]:
    """Instructions, the history, this request's input, in that order."""
    head = [Message(role="system", content=request.instructions)] if request.instructions else []
    given = request.input
    items: list[Mapping[str, Any]] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    place = "previous_response_id" if request.conversation is None else "conversation"
    messages, unfinished = read_items([*history, *items], history=len(history), place=place)
    if not head and not messages:
        raise InvalidRequest("`input` must have something to answer.", param="input")
    return head + messages, unfinished


def _read_sampling(request: ResponsesRequest, extra_args: dict[str, Any] | None) -> SamplingRequest:
    return read_sampling(
        request,
        max_tokens=request.max_output_tokens,
        max_tokens_param="max_output_tokens",
        logprobs=(request.top_logprobs or 0) if LOGPROBS in (request.include or ()) else None,
        structured_outputs=_read_text_format(request),
        extra_args=extra_args or {},
    )


def _read_text_format(request: ResponsesRequest) -> StructuredOutputs | None:
    format = request.text.format if request.text is not None else None
    if format is None or format.get("type") == "text":
        return read_constraints(request.structured_outputs, None)
    if request.structured_outputs is not None:
        raise InvalidRequest("`structured_outputs` and `text.format` exclude each other.", param="structured_outputs")
    match format.get("type"):
        case "json_object":
            return StructuredOutputs(json_object=True)
        case "json_schema":
            return json_schema_constraint(format.get("schema"), param="text.format.schema")
    raise InvalidRequest("`text.format.type` is text, json_object or json_schema.", param="text.format.type")
