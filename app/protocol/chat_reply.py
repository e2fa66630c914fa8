"""What ``/v1/chat/completions`` and its derender endpoint answer, whole and streamed.

Fields that default to UNSET are left out unless something stands in them: OpenAI's clients refuse empty stand-ins. The
derender endpoint fills them with null, as vLLM 0.33 does.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from app.protocol.usage import GenerateUsage

__all__ = (
    "ChatChoice",
    "ChatChunk",
    "ChatChunkChoice",
    "ChatCompletion",
    "ChatDelta",
    "ChatLogprob",
    "ChatLogprobs",
    "ChatReplyMessage",
    "ChatTopLogprob",
    "ErrorBody",
    "ErrorEvent",
    "FunctionCall",
    "FunctionDelta",
    "ToolCall",
    "ToolCallDelta",
)


class ChatTopLogprob(Struct):
    """A token with its natural-log probability (-9999.0 for none); ``bytes`` are the token's own."""

    token: str
    logprob: float
    bytes: list[int] | None


class ChatLogprob(ChatTopLogprob):
    """The token at one position, and its alternatives."""

    top_logprobs: list[ChatTopLogprob]


class ChatLogprobs(Struct):
    """One entry a token."""

    content: list[ChatLogprob] | None = None


class FunctionCall(Struct):
    """A whole call; ``arguments`` is JSON text as the model wrote it."""

    name: str
    arguments: str


class ToolCall(Struct, kw_only=True):
    """A whole tool call."""

    id: str
    type: str = "function"
    function: FunctionCall


class FunctionDelta(Struct, kw_only=True):
    """A piece of a call: ``name`` in its first fragment only."""

    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET


class ToolCallDelta(Struct, kw_only=True):
    """A fragment of call number ``index``; ``id`` and ``type`` in its first fragment only."""

    index: int
    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    function: FunctionDelta


class ChatReplyMessage(Struct, kw_only=True):
    """The assistant's message. ``content`` is null where there is none but calls or reasoning."""

    role: str = "assistant"
    content: str | None = None
    refusal: None = None
    annotations: UnsetType | None = UNSET
    audio: UnsetType | None = UNSET
    function_call: UnsetType | None = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET
    reasoning: str | UnsetType | None = UNSET


class ChatDelta(Struct, kw_only=True):
    """What a chunk adds to the message."""

    role: str | UnsetType | None = UNSET
    content: str | UnsetType | None = UNSET
    reasoning: str | UnsetType | None = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET


class ChatChoice(Struct, kw_only=True):
    """One finished output."""

    index: int
    message: ChatReplyMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | UnsetType | None = UNSET
    token_ids: list[int] | UnsetType | None = UNSET
    routed_experts: Any | UnsetType = UNSET
    weight_versions: list[dict[str, Any]] | UnsetType | None = UNSET


class ChatChunkChoice(Struct, kw_only=True):
    """New pieces of one output; ``finish_reason`` is always there, null until the last."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | UnsetType | None = UNSET
    token_ids: list[int] | UnsetType | None = UNSET
    weight_versions: list[dict[str, Any]] | UnsetType | None = UNSET


class ChatCompletion(Struct, kw_only=True):
    """The whole answer. ``created`` is in Unix seconds."""

    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    service_tier: UnsetType | None = UNSET
    system_fingerprint: UnsetType | None = UNSET
    usage: GenerateUsage | None = None
    prompt_logprobs: list[dict[str, Any] | None] | UnsetType | None = UNSET
    prompt_token_ids: list[int] | UnsetType | None = UNSET
    prompt_text: str | UnsetType | None = UNSET
    kv_transfer_params: dict[str, Any] | UnsetType | None = UNSET
    ec_transfer_params: dict[str, Any] | UnsetType | None = UNSET
    metrics: dict[str, Any] | UnsetType | None = UNSET


class ChatChunk(Struct, kw_only=True):
    """One streamed event."""

    id: str
    object: str = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: GenerateUsage | UnsetType | None = UNSET
    system_fingerprint: UnsetType | None = UNSET
    prompt_token_ids: list[int] | UnsetType | None = UNSET
    prompt_text: str | UnsetType | None = UNSET
    metrics: dict[str, Any] | UnsetType | None = UNSET
    kv_transfer_params: dict[str, Any] | UnsetType | None = UNSET


class ErrorBody(Struct, kw_only=True):
    """A refusal or failure in OpenAI's words."""

    message: str
    type: str = "server_error"
    param: str | None = None
    code: str | int | None = None


class ErrorEvent(Struct):
    """A failure after the first byte of a stream."""

    error: ErrorBody
