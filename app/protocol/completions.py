"""The completions request: prompts as text or token ids, without a chat template."""

from typing import Annotated, Any

from msgspec import Meta

from app.protocol.request_fields import TokenFields
from app.protocol.usage import StreamOptions

__all__ = ("COMPLETIONS_EXAMPLE", "CompletionsRequest")


class CompletionsRequest(TokenFields, frozen=True, kw_only=True):
    """One or several prompts to be continued as they are. Fields that are not named here are ignored."""

    prompt: Annotated[
        str | list[str | int | list[int]] | None,
        Meta(description="Text, token ids, or a list of texts or of id lists (1024 at most)."),
    ] = None
    prompt_embeds: Annotated[Any, Meta(description="Refused: not served.")] = None
    model: Annotated[str | None, Meta(description="A served model's name; unset: the first one.")] = None
    suffix: Annotated[str | None, Meta(description="Refused: fill-in-the-middle is not served.")] = None
    max_tokens: Annotated[int | None, Meta(description="Output tokens; cut to what the context leaves.")] = 16
    n: Annotated[int, Meta(description="Choices per prompt, 1 to 16384.")] = 1
    best_of: Annotated[int | None, Meta(description="Ignored.")] = None
    logprobs: Annotated[int | None, Meta(description="Alternatives per token; -1: whole vocabulary.")] = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    response_format: Annotated[
        dict[str, Any] | None, Meta(description="text, json_object, json_schema or structural_tag.")
    ] = None
    add_special_tokens: Annotated[bool | None, Meta(description="The tokenizer's own BOS and the like.")] = True
    user: Annotated[str | None, Meta(description="Ignored.")] = None


COMPLETIONS_EXAMPLE: dict[str, Any] = {
    "model": "demo",
    "prompt": "The capital of France is",
    "temperature": 0,
    "max_tokens": 8,
}
"""A body that every served model takes, for the documentation."""
