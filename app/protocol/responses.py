"""The Responses request. Items are kept as JSON objects: ``type`` may be missing, and third parties bring their own."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from app.protocol.request_fields import SamplingFields
from app.protocol.usage import StreamOptions

__all__ = ("RESPONSES_EXAMPLE", "Reasoning", "ResponsesRequest", "ResponsesStreamOptions", "TextOptions")


class Reasoning(Struct, frozen=True, kw_only=True):
    """How much the model should think."""

    effort: Annotated[str | None, Meta(description="none, minimal, low, medium, high, xhigh or max.")] = None
    summary: Annotated[str | None, Meta(description="Accepted; no summaries are written.")] = None
    context: Annotated[
        str | None, Meta(description="Which past reasoning is rendered: auto, current_turn or all_turns.")
    ] = None
    mode: str | None = None
    generate_summary: str | None = None


class TextOptions(Struct, frozen=True, kw_only=True):
    """The form of the output text."""

    format: Annotated[
        dict[str, Any] | None, Meta(description="`type`: text, json_object or json_schema (with `name` and `schema`).")
    ] = None
    verbosity: Annotated[str | None, Meta(description="Accepted, without effect.")] = None


class ResponsesStreamOptions(StreamOptions, kw_only=True):
    """``include_obfuscation`` is accepted; nothing is obfuscated."""

    include_obfuscation: bool | None = None


class ResponsesRequest(SamplingFields, frozen=True, kw_only=True):
    """Input items, or a text, to be answered by the model. Fields that are not named here are ignored."""

    input: Annotated[
        str | list[dict[str, Any]],
        Meta(description="A text, or items: messages (`type` optional), calls and their outputs, reasoning."),
    ]
    model: Annotated[str | None, Meta(description="A served model's name; unset: the first one.")] = None
    instructions: Annotated[str | None, Meta(description="System text of this request only; never carried on.")] = None
    previous_response_id: Annotated[str | None, Meta(description="A stored response that this one follows.")] = None
    conversation: Annotated[str | dict[str, Any] | None, Meta(description="A stored conversation, or its id.")] = None
    previous_input_messages: list[dict[str, Any]] | None = None
    store: Annotated[bool | None, Meta(description="Whether the turn is kept; needs a store.")] = True
    background: Annotated[bool | None, Meta(description="Run without waiting for it; needs `store`.")] = False
    stream: bool | None = False
    stream_options: ResponsesStreamOptions | None = None
    include: Annotated[
        list[str] | None, Meta(description="`message.output_text.logprobs` and `reasoning.encrypted_content`, …")
    ] = None
    tools: Annotated[
        list[dict[str, Any]] | None,
        Meta(description="Functions `{type: function, name, …}`, free-form `custom` tools, namespaces of them."),
    ] = None
    tool_choice: Annotated[
        str | dict[str, Any] | None,
        Meta(description='auto, none, required, `{"type": "function", "name": …}` or `allowed_tools`.'),
    ] = "auto"
    parallel_tool_calls: Annotated[bool | None, Meta(description="False: one call at most.")] = True
    max_tool_calls: int | None = None
    max_output_tokens: Annotated[int | None, Meta(description="Output tokens; cut to what the context leaves.")] = None
    top_logprobs: Annotated[int | None, Meta(description="Alternatives per token, 0 to 20, with `include`.")] = None
    truncation: Annotated[
        str | None, Meta(description="disabled: too long an input is refused; auto: whole items go, oldest first.")
    ] = "disabled"
    text: TextOptions | None = None
    reasoning: Reasoning | None = None
    include_reasoning: bool | None = True
    metadata: Annotated[
        dict[str, str] | None, Meta(description="16 pairs at most: keys to 64, values to 512 characters.")
    ] = None
    prompt: Annotated[dict[str, Any] | None, Meta(description="Refused: prompt templates are not served.")] = None
    context_management: list[dict[str, Any]] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = "auto"
    user: str | None = None
    moderation: Any = None
    image: Any = None
    access_programs: Any = None
    chat_template_kwargs: Annotated[dict[str, Any] | None, Meta(description="Variables of the template.")] = None
    enable_response_messages: bool | None = None


RESPONSES_EXAMPLE: dict[str, Any] = {
    "model": "demo",
    "instructions": "Answer in one sentence.",
    "input": [{"role": "user", "content": "What is the capital of France?"}],
    "temperature": 0,
    "max_output_tokens": 32,
}
"""A body that every served model takes, for the documentation."""
