"""Token chunks to the text and logprobs of one choice, in the wire form of the request's output mode."""

from typing import Any, Protocol

from msgspec import UNSET

from app.derendering.call_ids import CallIds
from app.derendering.derenderer import Derenderer
from app.derendering.logprobs import LogprobOptions, Position
from app.derendering.options import DerenderOptions
from app.derendering.plain_text import PlainText
from app.engines.engine import TokenChunk
from app.models import ServedModel
from app.parsing.deltas import Content
from app.protocol.chat_reply import ChatLogprob, ChatLogprobs, ChatTopLogprob
from app.protocol.generate import GenerateLogprobs, GenerateRequest

__all__ = ("Output", "output_of")


class Output(Protocol):
    """One choice as it grows."""

    def feed(self, chunk: TokenChunk) -> tuple[str | None, Any]:
        """Text (None: the mode has none) and logprobs (None: not asked for) of a chunk.

        Where a stop string ends the choice before the engine did, the chunk's finish and stop reason are set.
        """


class TokensOutput:
    """Output mode "tokens": ids and integer logprobs, as the engine gave them."""

    def feed(self, chunk: TokenChunk) -> tuple[str | None, Any]:
        """No text."""
        return None, None if chunk.logprobs is None else GenerateLogprobs(content=chunk.logprobs)


class TextOutput:
    """Output mode "text": the plain text, special tokens as the request wants them; stop strings are held back."""

    def __init__(self, derenderer: Derenderer, prompt_ids: list[int]) -> None:
        self._derenderer = derenderer
        self._state = derenderer.start(prompt_ids, {})

    def feed(self, chunk: TokenChunk) -> tuple[str | None, Any]:
        """The text that can't be part of a stop string any more."""
        step = self._derenderer.feed(
            self._state,
            chunk.index,
            chunk.token_ids,
            logprobs=chunk.logprobs,
            finish_reason=chunk.finish_reason,
            stop_reason=chunk.stop_reason,
        )
        if step.finish_reason is not None and chunk.finish_reason is None:
            chunk.finish_reason, chunk.stop_reason = step.finish_reason, step.stop_reason
        text = "".join([delta.text for delta in step.deltas if isinstance(delta, Content)])
        return text, chat_logprobs(step.logprobs)


def chat_logprobs(positions: list[Position] | None) -> ChatLogprobs | None:
    """Positions in OpenAI's chat shape."""
    if positions is None:
        return None
    return ChatLogprobs(
        content=[
            ChatLogprob(
                position.sampled.token,
                position.sampled.logprob,
                position.sampled.bytes,
                [ChatTopLogprob(other.token, other.logprob, other.bytes) for other in position.top],
            )
            for position in positions
        ]
    )


def output_of(request: GenerateRequest, model: ServedModel) -> Output:
    """A fresh choice of ``request``."""
    if request.output_mode == "tokens":
        return TokensOutput()
    params = request.sampling_params
    wants = any(value is not UNSET and value is not None for value in (params.logprobs, params.logprob_token_ids))
    options = DerenderOptions(
        call_ids=CallIds(request.request_id),
        skip_special_tokens=params.skip_special_tokens is UNSET or params.skip_special_tokens,
        spaces_between_special_tokens=params.spaces_between_special_tokens is not False,
        stop=tuple(params.stop),
        stop_token_ids=tuple(params.stop_token_ids),
        ignore_eos=params.ignore_eos is True,
        min_tokens=0 if params.min_tokens is UNSET else params.min_tokens,
        include_stop=params.include_stop_str_in_output is True,
        logprobs=LogprobOptions(None) if wants else None,
    )
    derenderer = Derenderer(model.tokenizer, PlainText(), options, eos_token_ids=model.eos_token_ids)
    return TextOutput(derenderer, request.token_ids)
