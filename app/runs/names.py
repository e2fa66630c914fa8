"""Refusals in the engine's words to refusals in the words of the API that was asked."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from app.errors import InvalidRequest

__all__ = ("CHAT", "COMPLETIONS", "MESSAGES", "RESPONSES", "said_as")

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


@contextmanager
def said_as(names: Mapping[str, str], *, given: object = None) -> Iterator[None]:
    """Give refusals that pass the API's own name of the field at fault.

    Args:
        names: engine's fields to the API's.
        given: the request; a field that it has itself, under the engine's name, keeps that name.
    """
    try:
        yield
    except InvalidRequest as error:
        param, message = error.param or "", error.message
        if param in TOO_LONG and "token_ids" in names:
            error.param, error.code = names["token_ids"], "context_length_exceeded"
            raise
        field = param.partition(".")[0]
        if field not in names or (field not in ("logprobs", "token_ids") and getattr(given, field, None) is not None):
            raise
        error.param = names[field]
        error.message = message.replace(f"`{field}`", f"`{names[field]}`")
        raise
