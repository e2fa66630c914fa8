"""The bodies of error replies, one for each family of APIs (:mod:`app.http.errors` says which is whose)."""

from typing import Literal

from msgspec import Struct

__all__ = ("AnthropicError", "AnthropicFault", "Fault", "OpenAIError", "OpenAIFault", "VllmError")


class Fault(Struct, kw_only=True):
    """What is wrong, and with which field (``messages[0].content``); ``code`` is the HTTP status."""

    message: str
    type: str
    param: str | None
    code: int


class VllmError(Struct, kw_only=True):
    """Errors of render, derender, tokenize, generate and everything that is not a public API."""

    error: Fault


class OpenAIFault(Struct, kw_only=True):
    """What is wrong, and with which field; ``code`` is a word where OpenAI has one for it."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Struct, kw_only=True):
    """Errors of the public chat completions, completions, responses and conversations."""

    error: OpenAIFault


class AnthropicFault(Struct, kw_only=True):
    """What is wrong."""

    type: str
    message: str


class AnthropicError(Struct, kw_only=True):
    """Errors of messages and count_tokens; ``request_id`` is the reply's ``X-Request-Id``."""

    type: Literal["error"] = "error"
    error: AnthropicFault
    request_id: str | None
