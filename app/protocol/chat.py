"""The chat completions request: messages, tools, sampling and rendering options."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from app.protocol.request_fields import TokenFields
from app.protocol.usage import StreamOptions

__all__ = (
    "CHAT_EXAMPLE",
    "CalledFunction",
    "ChatMessage",
    "ChatRequest",
    "ChatTool",
    "ChatToolCall",
    "ChatToolFunction",
)


class CalledFunction(Struct, frozen=True, kw_only=True):
    """The function of a call in the history; ``arguments`` is JSON text (an object is taken, too)."""

    name: str
    arguments: str | dict[str, Any] | None = None


class ChatToolCall(Struct, frozen=True, kw_only=True):
    """A call that the assistant made."""

    id: str | None = None
    type: str | None = None
    function: CalledFunction | None = None


class ChatMessage(Struct, frozen=True, kw_only=True):
    """One message. Parts are objects with a ``type``: text, image_url, video_url, input_audio and their aliases."""

    role: Annotated[str, Meta(description="system, developer, user, assistant or tool; others reach the template.")]
    content: str | list[dict[str, Any]] | UnsetType | None = UNSET
    name: str | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_call_id: str | None = None
    reasoning: Annotated[str | None, Meta(description="The assistant's reasoning of an earlier turn.")] = None
    reasoning_content: Annotated[str | None, Meta(description="Older name of `reasoning`.")] = None
    tools: Annotated[list[dict[str, Any]] | None, Meta(description="Passed to the template as it is.")] = None
    task: Annotated[str | None, Meta(description="Passed to the template as it is.")] = None


class ChatToolFunction(Struct, frozen=True, kw_only=True):
    """A function that the model may call; ``parameters`` is its JSON schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    defer_loading: bool | None = None


class ChatTool(Struct, frozen=True, kw_only=True):
    """A tool; only functions are served."""

    type: str = "function"
    function: ChatToolFunction | None = None
    defer_loading: bool | None = None


class ChatRequest(TokenFields, frozen=True, kw_only=True):
    """A conversation to be continued by the assistant. Fields that are not named here are ignored."""

    messages: Annotated[list[ChatMessage], Meta(description="The conversation, oldest first.")]
    model: Annotated[str | None, Meta(description="A served model's name; unset: the first one.")] = None
    tools: Annotated[list[ChatTool] | None, Meta(description="Functions that the model may call.")] = None
    tool_choice: Annotated[
        str | dict[str, Any] | None,
        Meta(
            description='none, auto, required, `{"type": "function", "function": {"name": …}}` or '
            '`{"type": "allowed_tools", "allowed_tools": {"mode": …, "tools": […]}}`; auto with tools.'
        ),
    ] = None
    parallel_tool_calls: Annotated[bool | None, Meta(description="False: one call at most.")] = True
    max_tokens: Annotated[int | None, Meta(description="Output tokens; cut to what the context leaves.")] = None
    max_completion_tokens: Annotated[int | None, Meta(description="Newer name of `max_tokens`, and it wins.")] = None
    n: Annotated[int | None, Meta(description="Choices, 1 to 16384.")] = 1
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    response_format: Annotated[
        dict[str, Any] | None, Meta(description="text, json_object, json_schema or structural_tag.")
    ] = None
    logprobs: bool | None = False
    top_logprobs: Annotated[int | None, Meta(description="Alternatives per token, with `logprobs`; -1: all.")] = 0
    reasoning_effort: Annotated[
        str | None, Meta(description="none, minimal, low, medium, high, xhigh or max; none switches thinking off.")
    ] = None
    include_reasoning: Annotated[bool | None, Meta(description="False: reasoning is left out of the reply.")] = True
    add_generation_prompt: Annotated[bool | None, Meta(description="Open the assistant's turn.")] = None
    continue_final_message: Annotated[
        bool | None, Meta(description="The last message is continued; not with `add_generation_prompt: true`.")
    ] = None
    add_special_tokens: Annotated[
        bool | None, Meta(description="The tokenizer's own BOS on top of the template's.")
    ] = False
    documents: Annotated[list[dict[str, Any]] | None, Meta(description="For templates that cite documents.")] = None
    chat_template: Annotated[
        str | None, Meta(description="Name of one of the model's templates; a text only where the server trusts it.")
    ] = None
    chat_template_kwargs: Annotated[dict[str, Any] | None, Meta(description="Variables of the template.")] = None
    user: Annotated[str | None, Meta(description="Ignored.")] = None
    functions: Annotated[Any, Meta(description="Refused, except by render: use `tools`.")] = None
    function_call: Annotated[Any, Meta(description="Refused, except by render: use `tool_choice`.")] = None
    modalities: Annotated[Any, Meta(description='`["text"]`; others are refused, except by render.')] = None
    audio: Annotated[Any, Meta(description="Refused, except by render: only text is written.")] = None
    web_search_options: Annotated[Any, Meta(description="Refused, except by render.")] = None


CHAT_EXAMPLE: dict[str, Any] = {
    "model": "demo",
    "messages": [
        {"role": "system", "content": "Answer in one sentence."},
        {"role": "user", "content": "What is the capital of France?"},
    ],
    "temperature": 0,
    "max_tokens": 32,
}
"""A body that every served model takes, for the documentation."""
