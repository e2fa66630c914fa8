"""The derender endpoints' bodies: token answers or one chunk in, a reply or one chunk with the stream's state out.

``stream`` false takes ``generate_response`` (completions: ``generate_responses``), true ``generate_chunk``. Of the
prompt, ``prompt_token_ids`` are needed with the first chunk only; ``prompt_tokens`` is their count, for usage.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from app.protocol.chat import ChatRequest
from app.protocol.chat_reply import ChatChunk
from app.protocol.completions import CompletionsRequest
from app.protocol.completions_reply import CompletionChunk
from app.protocol.generate import GenerateChunk, GenerateResponse
from app.protocol.messages import MessagesRequest
from app.protocol.responses import ResponsesRequest

__all__ = (
    "ChatDerenderRequest",
    "ChatDerendered",
    "CompletionDerendered",
    "CompletionsDerenderRequest",
    "EventsDerendered",
    "MessagesDerenderRequest",
    "ResponsesDerenderRequest",
)

TokenId = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class _Common(Struct, frozen=True, kw_only=True):
    model: str | None = None
    stream: bool | None = False
    generate_chunk: GenerateChunk | None = None
    stream_state: Annotated[str | None, Meta(description="What the chunk before answered; unset with the first.")] = (
        None
    )


class _OnePrompt(_Common, frozen=True, kw_only=True):
    generate_response: GenerateResponse | None = None
    prompt_tokens: Count | None = None
    prompt_token_ids: list[TokenId] | None = None


class ChatDerenderRequest(_OnePrompt, frozen=True, kw_only=True):
    """``chat_request`` is the original request; needed where the model has an output format."""

    chat_request: ChatRequest | None = None


class ResponsesDerenderRequest(_OnePrompt, frozen=True, kw_only=True):
    """``responses_request`` is the original request."""

    responses_request: ResponsesRequest


class MessagesDerenderRequest(_OnePrompt, frozen=True, kw_only=True):
    """``messages_request`` is the original request."""

    messages_request: MessagesRequest


class CompletionsDerenderRequest(_Common, frozen=True, kw_only=True):
    """One answer per prompt. With ``stream`` the prompt's count and ids are one prompt's."""

    generate_responses: list[GenerateResponse] | None = None
    prompt_tokens: Count | list[Count] | None = None
    prompt_token_ids: list[TokenId | list[TokenId] | None] | None = None
    completion_request: CompletionsRequest | None = None


class ChatDerendered(Struct):
    """One streamed chunk of chat, and the state for the next."""

    chunk: ChatChunk
    stream_state: str


class CompletionDerendered(Struct):
    """One streamed chunk of completions, and the state for the next."""

    chunk: CompletionChunk
    stream_state: str


class EventsDerendered(Struct):
    """The API's own events that one chunk comes to, and the state for the next."""

    events: list[Any]
    stream_state: str
