"""The limits of what a derender call may bring."""

from collections.abc import Sequence

from app.derendering.stream_state import StreamState
from app.dialects.model import DialectModel
from app.errors import InvalidRequest
from app.protocol.generate import GenerateChoice, GenerateChunk, GenerateChunkChoice, GenerateResponse

__all__ = ("MAX_CHOICES", "MAX_LOGPROBS", "check_length", "check_prompt", "check_response")

MAX_CHOICES = 16384
"""Choices of one answer, and answers of one call."""
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


def _check_choice(choice: GenerateChoice | GenerateChunkChoice, limit: int, where: str) -> None:
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
    if any(isinstance(e, dict) and len(e.get("top_logprobs") or ()) > MAX_LOGPROBS + 1 for e in content):
        raise InvalidRequest(
            f"`{where}.logprobs` has more than {MAX_LOGPROBS} alternatives at a position.", param=f"{where}.logprobs"
        )
