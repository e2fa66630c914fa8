"""The Anthropic Messages request: content blocks, tools, thinking."""

from typing import Annotated, Any

from msgspec import Meta, Struct

__all__ = (
    "MESSAGES_EXAMPLE",
    "AnthropicMessage",
    "AnthropicTool",
    "AnthropicToolChoice",
    "CountTokensRequest",
    "MessagesRequest",
    "OutputConfig",
    "Thinking",
)


class AnthropicMessage(Struct, frozen=True, kw_only=True):
    """One message. Blocks are objects: text, image, thinking, tool_use, tool_result and more."""

    role: Annotated[str, Meta(description="user, assistant or system.")]
    content: str | list[dict[str, Any]]


class AnthropicTool(Struct, frozen=True, kw_only=True):
    """A tool that the client runs; tools that Anthropic runs are refused."""

    name: str
    type: Annotated[str | None, Meta(description="custom, or unset.")] = None
    description: str | None = None
    input_schema: Annotated[dict[str, Any] | None, Meta(description="JSON schema; its type is object.")] = None
    strict: bool | None = None
    defer_loading: Annotated[bool | None, Meta(description="Not rendered before a `tool_addition` names it.")] = None


class AnthropicToolChoice(Struct, frozen=True, kw_only=True):
    """``type`` is auto, any, tool (with ``name``) or none."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Struct, frozen=True, kw_only=True):
    """``type`` is enabled (with ``budget_tokens``, 1024 or more and below ``max_tokens``), disabled or adaptive."""

    type: str
    budget_tokens: int | None = None


class OutputConfig(Struct, frozen=True, kw_only=True):
    """``effort`` of thinking, and the ``format`` of the output: ``{"type": "json_schema", "schema": …}``."""

    effort: str | None = None
    format: dict[str, Any] | None = None


class CountTokensRequest(Struct, frozen=True, kw_only=True):
    """What determines a prompt. Fields that are not named here are ignored."""

    model: Annotated[str, Meta(description="A served model's name.", min_length=1)]
    messages: Annotated[list[AnthropicMessage], Meta(description="The conversation, oldest first.")]
    system: Annotated[str | list[dict[str, Any]] | None, Meta(description="System text, or text blocks.")] = None
    tools: list[AnthropicTool] | None = None
    tool_choice: AnthropicToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    chat_template_kwargs: Annotated[dict[str, Any] | None, Meta(description="Variables of the template.")] = None


class MessagesRequest(CountTokensRequest, frozen=True, kw_only=True):
    """A conversation to be continued by the assistant. Fields that are not named here are ignored."""

    max_tokens: Annotated[int, Meta(description="Output tokens, thinking included; cut to what the context leaves.")]
    stop_sequences: Annotated[list[str] | None, Meta(description="Up to four strings that end the output.")] = None
    stream: bool | None = False
    temperature: Annotated[float | None, Meta(description="0 is greedy; unset: the model's default.")] = None
    top_p: float | None = None
    top_k: int | None = None
    metadata: Annotated[dict[str, Any] | None, Meta(description="Ignored.")] = None
    mm_payload: Annotated[str | None, Meta(description="tensors (default), or none: hashes and placeholders only.")] = (
        None
    )
    cache_salt: Annotated[str | None, Meta(description="Keeps prefix caches apart.")] = None
    watermarking: bool | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    vllm_xargs: dict[str, Any] | None = None
    mcp_servers: Annotated[Any, Meta(description="Refused, except by render: nothing here calls them.")] = None


MESSAGES_EXAMPLE: dict[str, Any] = {
    "model": "demo",
    "system": "Answer in one sentence.",
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "max_tokens": 32,
}
"""A body that every served model takes, for the documentation."""
