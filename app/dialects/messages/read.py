"""A Messages request to ``RenderInput``."""

from collections.abc import Mapping
from typing import Any

from app.dialects.constraints import json_schema_constraint
from app.dialects.identity import base_id
from app.dialects.messages.blocks import read_messages, read_system
from app.dialects.messages.tools import read_tool_choice, read_tools
from app.dialects.model import DialectModel
from app.dialects.passthrough import read_passthrough
from app.dialects.prompt_ids import reused_prompt
from app.dialects.template_fields import read_effort, read_mm_payload
from app.errors import InvalidRequest
from app.protocol.generate import StructuredOutputs
from app.protocol.messages import CountTokensRequest, MessagesRequest, OutputConfig
from app.protocol.usage import StreamOptions
from app.rendering.conversation import Conversation
from app.rendering.limits import LEAST_THINKING_BUDGET
from app.rendering.request import RenderInput, SamplingRequest, TemplateOptions
from app.rendering.sampling_checks import check_sampling

__all__ = ("read", "read_for_counting")


def read(request: MessagesRequest, *, model: DialectModel, request_id: str | None = None) -> RenderInput:
    """What to render for a Messages request.

    Args:
        request: the decoded body.
        model: the served model that it goes to.
        request_id: the ``X-Request-Id`` header.

    Raises:
        InvalidRequest: a value, or a combination of values, is wrong; ``param`` names the field.
    """
    conversation = _read_conversation(request)
    choice = read_tool_choice(request.tool_choice, conversation.tools, model)
    through = read_passthrough(
        cache_salt=request.cache_salt,
        kv_transfer_params=request.kv_transfer_params,
        ec_transfer_params=request.ec_transfer_params,
        vllm_xargs=request.vllm_xargs,
    )
    sampling = SamplingRequest(
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        stop=request.stop_sequences or [],
        max_tokens=request.max_tokens,
        watermarking=request.watermarking,
        thinking_token_budget=_thinking_budget(request, through.kv_transfer_params),
        structured_outputs=_read_output_format(request.output_config),
        extra_args=through.extra_args,
    )
    names = {"stop": "stop_sequences"}
    check_sampling(sampling, model.generation_defaults, model.max_model_len, names=names)
    parallel = request.tool_choice is None or not request.tool_choice.disable_parallel_tool_use
    return RenderInput(
        dialect="messages",
        request_id=f"chatcmpl-{base_id(request_id, None)}",
        model=request.model,
        conversation=conversation,
        token_ids=reused_prompt(through.prompt_token_ids, conversation, model),
        template=_read_template(request, mm_payload=request.mm_payload),
        sampling=sampling,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        stream=bool(request.stream),
        stream_options=StreamOptions(include_usage=True, continuous_usage_stats=True) if request.stream else None,
        cache_salt=through.cache_salt,
        kv_transfer_params=through.kv_transfer_params,
        ec_transfer_params=through.ec_transfer_params,
    )


def read_for_counting(request: CountTokensRequest, *, model: DialectModel) -> RenderInput:
    """What to render to count the tokens of a request that is not to be answered."""
    conversation = _read_conversation(request)
    return RenderInput(
        dialect="messages",
        request_id=f"chatcmpl-{base_id(None, None)}",
        model=request.model,
        conversation=conversation,
        template=_read_template(request),
        tool_choice=read_tool_choice(request.tool_choice, conversation.tools, model),
    )


def _read_conversation(request: CountTokensRequest) -> Conversation:
    messages = read_system(request.system) + read_messages(request.messages)
    if not any(message.role != "system" for message in messages):
        raise InvalidRequest("`messages` must have something to answer.", param="messages")
    return Conversation(messages=messages, tools=read_tools(request.tools, request.messages))


def _read_template(request: CountTokensRequest, *, mm_payload: str | None = None) -> TemplateOptions:
    """A last message of the assistant is not continued: a new turn is opened behind it, as in the other dialects.

    Thinking that is disabled is the effort "none", whatever effort the output configuration asks for.
    """
    effort = read_effort(
        request.output_config.effort if request.output_config is not None else None, param="output_config.effort"
    )
    if request.thinking is not None and request.thinking.type == "disabled":
        effort = "none"
    return TemplateOptions(
        kwargs=request.chat_template_kwargs or {},
        reasoning_effort=effort,
        mm_payload=read_mm_payload(mm_payload),
    )


def _thinking_budget(request: MessagesRequest, kv_transfer_params: Mapping[str, Any] | None) -> int | None:
    """The budget of enabled thinking, in tokens; it must leave room for an answer.

    A prefill that hands over to a decode worker generates one token only, so ``max_tokens`` says nothing there.
    """
    thinking = request.thinking
    if thinking is None or thinking.type in ("disabled", "adaptive"):
        return None
    if thinking.type != "enabled":
        raise InvalidRequest("`thinking.type` is enabled, disabled or adaptive.", param="thinking.type")
    budget, param = thinking.budget_tokens, "thinking.budget_tokens"
    if budget is None:
        raise InvalidRequest("Enabled thinking needs `budget_tokens`.", param=param)
    if budget < LEAST_THINKING_BUDGET:
        raise InvalidRequest(f"`{param}` must be at least {LEAST_THINKING_BUDGET}.", param=param)
    handed_over = bool((kv_transfer_params or {}).get("do_remote_decode"))
    if budget >= request.max_tokens and not handed_over:
        raise InvalidRequest(f"`{param}` must be less than `max_tokens`.", param=param)
    return budget


def _read_output_format(config: OutputConfig | None) -> StructuredOutputs | None:
    format = config.format if config is not None else None
    if format is None:
        return None
    if format.get("type") != "json_schema":
        raise InvalidRequest("`output_config.format.type` is json_schema.", param="output_config.format.type")
    return json_schema_constraint(format.get("schema"), param="output_config.format.schema")
