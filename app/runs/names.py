"""Refusals in the engine's words to refusals in the words of the API that was asked."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from app.errors import InvalidRequest

__all__ = ("CHAT", "COMPLETIONS", "MESSAGES", "RESPONSES", "names_for", "said_as")

TOO_LONG = ("input_tokens", "input_text")
"""What a prompt that is too long is refused by, whatever field it came in."""


def _in(field: str, **more: str) -> dict[str, str]:
    """The names of an API whose input is in ``field``."""
    return {"token_ids": field, "features": field, "content_parts": field, **more}


CHAT = _in("messages", logprobs="top_logprobs", structured_outputs="response_format")
COMPLETIONS = _in("prompt", structured_outputs="response_format")
RESPONSES = _in("input", logprobs="top_logprobs", max_tokens="max_output_tokens", structured_outputs="text.format")
MESSAGES = _in(
    "messages",
    stop="stop_sequences",
    structured_outputs="output_config.format",
    thinking_token_budget="thinking.budget_tokens",
)


def names_for(request: object, names: Mapping[str, str]) -> Mapping[str, str]:
    """An API's names as they fit one request.

    A field that the request has itself, under the engine's name, keeps that name. A constraint that no output format
    asks for comes from the tools.
    """
    found = {
        field: name
        for field, name in names.items()
        if field in ("logprobs", "token_ids") or getattr(request, field, None) is None
    }
    if "structured_outputs" in found and getattr(request, "tools", None):
        format: Any = request
        for part in found["structured_outputs"].split("."):
            format = getattr(format, part, None)
        kind = format.get("type") if isinstance(format, Mapping) else getattr(format, "type", None)
        if format is None or kind == "text":
            found["structured_outputs"] = "tools"
    return found


@contextmanager
def said_as(names: Mapping[str, str], *, given: object = None) -> Iterator[None]:
    """Give refusals that pass the API's own name of the field at fault.

    Args:
        names: engine's fields to the API's.
        given: the request, for which the names are narrowed down (:func:`names_for`).
    """
    try:
        yield
    except InvalidRequest as error:
        if given is not None:
            names = names_for(given, names)
        param, message = error.param or "", error.message
        if param in TOO_LONG and "token_ids" in names:
            error.param, error.code = names["token_ids"], "context_length_exceeded"
            raise
        field = param.partition(".")[0]
        if field not in names:
            raise
        error.param = names[field]
        error.message = message.replace(f"`{field}`", f"`{names[field]}`")
        raise
