"""What ``/v1/completions`` and its derender endpoint answer, whole and streamed.

Fields that default to UNSET are left out unless something stands in them; the derender endpoint fills them with null.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from app.protocol.usage import GenerateUsage

__all__ = ("Completion", "CompletionChoice", "CompletionChunk", "CompletionChunkChoice", "CompletionLogprobs")


class CompletionLogprobs(Struct):
    """Parallel lists, one entry a token. ``text_offset`` is in characters of the choice's text."""

    text_offset: list[int] = []
    token_logprobs: list[float | None] = []
    tokens: list[str] = []
    top_logprobs: list[dict[str, float] | None] = []


class CompletionChoice(Struct, kw_only=True):
    """One finished output; ``index`` runs over all prompts."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | UnsetType | None = UNSET
    token_ids: list[int] | UnsetType | None = UNSET
    prompt_logprobs: list[dict[str, Any] | None] | UnsetType | None = UNSET
    prompt_token_ids: list[int] | UnsetType | None = UNSET
    routed_experts: Any | UnsetType = UNSET
    weight_versions: list[dict[str, Any]] | UnsetType | None = UNSET


class CompletionChunkChoice(Struct, kw_only=True):
    """New text of one output; ``finish_reason`` is always there, null until the last."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | UnsetType | None = UNSET
    prompt_token_ids: list[int] | UnsetType | None = UNSET
    token_ids: list[int] | UnsetType | None = UNSET
    weight_versions: list[dict[str, Any]] | UnsetType | None = UNSET


class Completion(Struct, kw_only=True):
    """The whole answer. ``created`` is in Unix seconds."""

    id: str
    object: str = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    service_tier: UnsetType | None = UNSET
    system_fingerprint: UnsetType | None = UNSET
    usage: GenerateUsage | None = None
    kv_transfer_params: dict[str, Any] | UnsetType | None = UNSET
    ec_transfer_params: dict[str, Any] | UnsetType | None = UNSET
    metrics: dict[str, Any] | UnsetType | None = UNSET


class CompletionChunk(Struct, kw_only=True):
    """One streamed event."""

    id: str
    object: str = "text_completion"
    created: int
    model: str
    choices: list[CompletionChunkChoice]
    usage: GenerateUsage | UnsetType | None = UNSET
    system_fingerprint: UnsetType | None = UNSET
    metrics: dict[str, Any] | UnsetType | None = UNSET
    kv_transfer_params: dict[str, Any] | UnsetType | None = UNSET
