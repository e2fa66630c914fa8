"""The limits of what a derender call may bring."""

from collections.abc import Sequence

from app.derendering.stream_state import StreamState
from app.dialects.model import DialectModel
from app.errors import InvalidRequest
from app.protocol.generate import GenerateChoice, GenerateChunk, GenerateChunkChoice, GenerateResponse
from app.protocol.usage import GenerateUsage

__all__ = ("MAX_CHOICES", "MAX_COUNT", "MAX_LOGPROBS", "check_length", "check_prompt", "check_response")

MAX_CHOICES = 16384
"""Choices of one answer, and answers of one call."""
MAX_COUNT = 2**63 - 1
"""Tokens that a usage may count; larger integers fit into no stream state."""
MAX_LOGPROBS = 20
"""Alternatives at one position; the sampled token may come on top."""


def check_prompt(model: DialectModel, prompt_ids: Sequence[int] | None, *, param: str = "prompt_token_ids") -> None:
    """Refuse a prompt that is longer than the context."""
    if prompt_ids is not None and len(prompt_ids) > model.max_model_len:
        raise InvalidRequest(
            f"`{param}` has {len(prompt_ids)} tokens; this model's context has {model.max_model_len}.", param=param
        )


def check_response(
    model: DialectModel, response: GenerateResponse | GenerateChunk, *, param: str = "generate_response"
) -> None:
    """Refuse an answer that is larger than any of this model's, or that is not one of tokens."""
    if response.output_mode != "tokens":
        raise InvalidRequest(f'`{param}.output_mode` must be "tokens".', param=f"{param}.output_mode")
    if len(response.choices) > MAX_CHOICES:
        raise InvalidRequest(f"`{param}.choices` has more than {MAX_CHOICES} entries.", param=f"{param}.choices")
    _check_usage(response.usage, f"{param}.usage")
    limit = model.max_model_len
    choices: Sequence[GenerateChoice | GenerateChunkChoice] = response.choices
    for number, choice in enumerate(choices):
        _check_choice(choice, limit, f"{param}.choices[{number}]")
    prompt_logprobs = response.prompt_logprobs
    if isinstance(prompt_logprobs, list) and len(prompt_logprobs) > limit:
        raise InvalidRequest(
            f"`{param}.prompt_logprobs` has {len(prompt_logprobs)} positions; this model's context has {limit} tokens.",
            param=f"{param}.prompt_logprobs",
        )


def check_length(
    model: DialectModel, prompt_ids: Sequence[int] | None, state: StreamState, chunk: GenerateChunk
) -> None:
    """Refuse a stream whose prompt and output are together longer than the context."""
    for choice in chunk.choices:
        before = state.choices[choice.index].tokens if choice.index in state.choices else 0
        if len(prompt_ids or ()) + before + len(choice.token_ids or ()) > model.max_model_len:
            raise InvalidRequest(
                f"Prompt and output together are longer than this model's context of {model.max_model_len} tokens.",
                param="generate_chunk",
            )


def _check_usage(usage: GenerateUsage | None, where: str) -> None:
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        if usage is not None and not 0 <= getattr(usage, name) <= MAX_COUNT:
            raise InvalidRequest(f"`{where}.{name}` must be between 0 and 2**63 - 1.", param=f"{where}.{name}")


def _check_choice(choice: GenerateChoice | GenerateChunkChoice, limit: int, where: str) -> None:
    if not 0 <= choice.index < MAX_CHOICES:
        raise InvalidRequest(f"`{where}.index` must be between 0 and {MAX_CHOICES - 1}.", param=f"{where}.index")
    if choice.token_ids and len(choice.token_ids) > limit:
        raise InvalidRequest(
            f"`{where}.token_ids` has {len(choice.token_ids)} tokens; this model's context has {limit}.",
            param=f"{where}.token_ids",
        )
    if choice.token_ids and min(choice.token_ids) < 0:
        raise InvalidRequest(f"`{where}.token_ids` must not be negative.", param=f"{where}.token_ids")
    content = choice.logprobs.get("content") if isinstance(choice.logprobs, dict) else None
    if not isinstance(content, list):
        return
    if len(content) > limit:
        raise InvalidRequest(
            f"`{where}.logprobs` has {len(content)} positions; this model's context has {limit} tokens.",
            param=f"{where}.logprobs",
        )
    alternatives = [entry.get("top_logprobs") for entry in content if isinstance(entry, dict)]
    if any(isinstance(top, list) and len(top) > MAX_LOGPROBS + 1 for top in alternatives):
        raise InvalidRequest(
            f"`{where}.logprobs` has more than {MAX_LOGPROBS} alternatives at a position.", param=f"{where}.logprobs"
        )
