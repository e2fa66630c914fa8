"""The Response object of the Responses API: its output items, and every key that strict clients ask for."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

__all__ = (
    "CustomToolCallItem",
    "FunctionCallItem",
    "IncompleteDetails",
    "InputTokensDetails",
    "MessageItem",
    "OutputItem",
    "OutputText",
    "OutputTokensDetails",
    "ReasoningItem",
    "ReasoningText",
    "Response",
    "ResponseError",
    "ResponseUsage",
    "TextLogprob",
    "TextTopLogprob",
)


class TextTopLogprob(Struct):
    """A token with its natural-log probability; ``bytes`` are the token's own."""

    token: str
    logprob: float
    bytes: list[int] | None


class TextLogprob(TextTopLogprob):
    """The token at one position of the text, and its alternatives."""

    top_logprobs: list[TextTopLogprob]


class OutputText(Struct, kw_only=True, tag_field="type", tag="output_text"):
    """The text part of a message."""

    text: str
    annotations: list[Any] = []
    logprobs: list[TextLogprob] = []


class ReasoningText(Struct, kw_only=True, tag_field="type", tag="reasoning_text"):
    """The text part of reasoning."""

    text: str


class MessageItem(Struct, kw_only=True, tag_field="type", tag="message"):
    """A message of the assistant. ``status`` is in_progress, completed or incomplete, as on all items."""

    id: str
    status: str
    role: str = "assistant"
    content: list[OutputText]


class ReasoningItem(Struct, kw_only=True, tag_field="type", tag="reasoning"):
    """The model's own reasoning, in full; no summaries are written."""

    id: str
    status: str
    summary: list[Any] = []
    content: list[ReasoningText]
    encrypted_content: None = None


class FunctionCallItem(Struct, kw_only=True, tag_field="type", tag="function_call"):
    """A call of a function; ``call_id`` is what its output will name, ``arguments`` JSON text."""

    id: str
    call_id: str
    name: str
    namespace: str | UnsetType = UNSET
    arguments: str
    status: str


class CustomToolCallItem(Struct, kw_only=True, tag_field="type", tag="custom_tool_call"):
    """A call of a free-form tool."""

    id: str
    call_id: str
    name: str
    namespace: str | UnsetType = UNSET
    input: str
    status: str


OutputItem = MessageItem | ReasoningItem | FunctionCallItem | CustomToolCallItem


class IncompleteDetails(Struct):
    """Why a response is incomplete: max_output_tokens."""

    reason: str


class ResponseError(Struct):
    """Why a response failed."""

    code: str
    message: str


class InputTokensDetails(Struct):
    """Of the prompt's tokens: those that the engine had in its prefix cache, and those it wrote to it.

    ``reused_tokens``, where it is there, are the ids that were taken from the stored turn before as they were.
    """

    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reused_tokens: int | UnsetType = UNSET


class OutputTokensDetails(Struct):
    """Of the output's tokens: those of reasoning."""

    reasoning_tokens: int = 0


class ResponseUsage(Struct, kw_only=True):
    """Counts in tokens."""

    input_tokens: int = 0
    input_tokens_details: InputTokensDetails = field(default_factory=InputTokensDetails)
    output_tokens: int = 0
    output_tokens_details: OutputTokensDetails = field(default_factory=OutputTokensDetails)
    total_tokens: int = 0


class Response(Struct, kw_only=True):
    """A response; times are Unix seconds. ``status``: queued, in_progress, completed, incomplete, failed, cancelled."""

    id: str
    object: str = "response"
    created_at: int
    completed_at: int | None = None
    status: str = "in_progress"
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    model: str
    previous_response_id: str | None = None
    conversation: dict[str, Any] | UnsetType = UNSET
    instructions: str | list[dict[str, Any]] | None = None
    output: list[OutputItem] = []
    parallel_tool_calls: bool = True
    tool_choice: str | dict[str, Any] = "auto"
    tools: list[dict[str, Any]] = []
    max_tool_calls: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    top_logprobs: int | None = 0
    reasoning: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    truncation: str | None = "disabled"
    usage: ResponseUsage | None = None
    store: bool | None = None
    background: bool | None = False
    service_tier: str | None = None
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    user: str | None = None
