"""A chat completions request to ``RenderInput``."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from app.dialects.chat.messages import read_messages, read_tools
from app.dialects.constraints import read_constraints
from app.dialects.identity import base_id
from app.dialects.model import DialectModel
from app.dialects.passthrough import read_fields
from app.dialects.prompt_ids import reused_prompt
from app.dialects.sampling_fields import read_sampling, read_stream_options
from app.dialects.template_fields import check_truncation, read_effort, read_mm_payload, read_side
from app.dialects.tool_choice import ToolChoice, check_tool_choice
from app.errors import InvalidRequest, Unsupported
from app.protocol.chat import ChatRequest
from app.rendering.conversation import Conversation, Tool
from app.rendering.request import NamedTool, RenderInput, SamplingRequest, TemplateOptions
from app.rendering.sampling_checks import check_sampling

__all__ = ("check_final_message", "read", "read_template")

NAMES = {"logprobs": "top_logprobs"}
"""A number of logprobs is this API's `top_logprobs`."""


def read(request: ChatRequest, *, model: DialectModel, request_id: str | None = None) -> RenderInput:
    """What to render for a chat request.

    Args:
        request: the decoded body.
        model: the served model that it goes to.
        request_id: the ``X-Request-Id`` header.

    Raises:
        InvalidRequest: a value, or a combination of values, is wrong; ``param`` names the field.
    """
    choice, tools = _read_tool_choice(request.tool_choice, read_tools(request.tools))
    check_tool_choice(choice, tools, model)
    conversation = Conversation(messages=read_messages(request.messages), tools=tools, documents=request.documents)
    stream_options = read_stream_options(request.stream, request.stream_options)
    through = read_fields(request)
    sampling = _read_sampling(request, through.extra_args)
    if isinstance(choice, NamedTool) and request.structured_outputs is not None:
        raise InvalidRequest(
            "A named tool is itself a constraint: leave out `structured_outputs`.", param="structured_outputs"
        )
    check_sampling(sampling, model.generation_defaults, model.max_model_len, names=NAMES)
    template = read_template(request)
    prompt_ids = None if request.echo else reused_prompt(through.prompt_token_ids, conversation, model)
    if prompt_ids is not None:
        template = replace(template, truncate_prompt_tokens=None)  # they were cut when they were rendered
    return RenderInput(
        dialect="chat",
        request_id=f"chatcmpl-{base_id(request_id, request.request_id)}",
        model=request.model,
        conversation=conversation,
        token_ids=prompt_ids,
        template=template,
        sampling=sampling,
        tool_choice=choice,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        include_reasoning=request.include_reasoning is not False,
        stream=bool(request.stream),
        stream_options=stream_options,
        return_token_ids=request.return_token_ids,
        cache_salt=through.cache_salt,
        priority=through.priority,
        kv_transfer_params=through.kv_transfer_params,
        ec_transfer_params=through.ec_transfer_params,
    )


def _read_tool_choice(
    choice: str | Mapping[str, Any] | None, tools: list[Tool] | None
) -> tuple[ToolChoice, list[Tool] | None]:
    """The resolved choice, and the tools that it leaves (``allowed_tools`` narrows them).

    Without a choice it is "auto" where there are tools and "none" where there are not.
    """
    if choice is None:
        return ("none" if tools is None else "auto"), tools
    if choice == "none":
        return "none", tools
    if tools is None:
        raise InvalidRequest("`tool_choice` needs `tools`.", param="tool_choice")
    if choice == "auto":
        return "auto", tools
    if choice == "required":
        return "required", tools
    if isinstance(choice, Mapping) and choice.get("type") == "function":
        return NamedTool(_function_name(choice, "tool_choice")), tools
    if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
        return _read_allowed(choice.get("allowed_tools"), tools)
    if isinstance(choice, Mapping) and choice.get("type") == "custom":
        raise Unsupported("Only tools of the type function are served.", param="tool_choice.type")
    raise InvalidRequest(
        '`tool_choice` is "none", "auto", "required" or an object that names a function.', param="tool_choice"
    )


def _function_name(choice: Mapping[str, Any], param: str) -> str:
    function = choice.get("function")
    if not isinstance(function, Mapping):
        raise InvalidRequest(
            'A named function has the form {"type": "function", "function": {"name": "…"}}.', param=f"{param}.function"
        )
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest("A named choice needs the function's name.", param=f"{param}.function.name")
    return name


def _read_allowed(allowed: Any, tools: list[Tool]) -> tuple[ToolChoice, list[Tool] | None]:
    param = "tool_choice.allowed_tools"
    if not isinstance(allowed, Mapping):
        raise InvalidRequest("Allowed tools are an object with `mode` and `tools`.", param=param)
    mode, entries = allowed.get("mode", "auto"), allowed.get("tools")
    if mode not in ("auto", "required"):
        raise InvalidRequest(f"`{param}.mode` is auto or required.", param=f"{param}.mode")
    if not isinstance(entries, list) or not entries:
        raise InvalidRequest("`allowed_tools` needs a list of `tools`.", param=f"{param}.tools")
    known = {tool.name for tool in tools}
    names = set()
    for position, entry in enumerate(entries):
        place = f"{param}.tools[{position}]"
        if not isinstance(entry, Mapping):
            raise InvalidRequest("A tool is an object.", param=place)
        name = _function_name(entry, place)
        if name not in known:
            raise InvalidRequest(f"`tools` has no function '{name}'.", param=f"{place}.function.name")
        names.add(name)
    return ("required" if mode == "required" else "auto"), [tool for tool in tools if tool.name in names]


def _read_sampling(request: ChatRequest, extra_args: dict[str, Any] | None) -> SamplingRequest:
    top = request.top_logprobs or 0
    if top and not request.logprobs:
        raise InvalidRequest("`top_logprobs` needs `logprobs: true`.", param="top_logprobs")
    if top < -1:
        raise InvalidRequest("`top_logprobs` is 0 or more, or -1 for the whole vocabulary.", param="top_logprobs")
    if request.logprob_token_ids is not None and not request.logprobs:
        raise InvalidRequest("`logprob_token_ids` needs `logprobs: true`.", param="logprob_token_ids")
    newer = request.max_completion_tokens is not None
    return read_sampling(
        request,
        max_tokens=request.max_completion_tokens if newer else request.max_tokens,
        max_tokens_param="max_completion_tokens" if newer else "max_tokens",
        stream=request.stream,
        n=1 if request.n is None else request.n,
        logprobs=top if request.logprobs and request.logprob_token_ids is None else None,
        prompt_logprobs=top if request.echo and request.prompt_logprobs is None else request.prompt_logprobs,
        structured_outputs=read_constraints(request.structured_outputs, request.response_format),
        extra_args=extra_args,
    )


def check_final_message(add_generation_prompt: bool | None, continue_final_message: bool | None) -> tuple[bool, bool]:
    """Whether to open a turn of the assistant, and whether to continue the last message instead; never both.

    A last message of the assistant is continued only where that is asked for; else a new turn is opened behind it.
    """
    if continue_final_message and add_generation_prompt:
        raise InvalidRequest(
            "`continue_final_message` and `add_generation_prompt` exclude each other.", param="continue_final_message"
        )
    continued = bool(continue_final_message)
    return (not continued if add_generation_prompt is None else add_generation_prompt), continued


def read_template(request: ChatRequest) -> TemplateOptions:
    """How the conversation is to be written."""
    add, continued = check_final_message(request.add_generation_prompt, request.continue_final_message)
    return TemplateOptions(
        add_generation_prompt=add,
        continue_final_message=continued,
        chat_template=request.chat_template,
        kwargs=request.chat_template_kwargs or {},
        reasoning_effort=read_effort(request.reasoning_effort),
        add_special_tokens=bool(request.add_special_tokens),
        truncate_prompt_tokens=check_truncation(request.truncate_prompt_tokens),
        truncation_side=read_side(request.truncation_side),
        return_token_offsets=bool(request.return_token_offsets),
        mm_payload=read_mm_payload(request.mm_payload, request.return_mm_kwargs),
        mm_processor_kwargs=request.mm_processor_kwargs,
        media_io_kwargs=request.media_io_kwargs,
    )
