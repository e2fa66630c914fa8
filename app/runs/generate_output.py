"""Token chunks to the text and logprobs of one choice, in the wire form of the request's output mode."""

from typing import Any, Protocol

from msgspec import UNSET, Struct

from app.derendering.call_ids import CallIds
from app.derendering.derenderer import Derenderer, Step
from app.derendering.logprobs import LogprobOptions
from app.derendering.options import DerenderOptions
from app.derendering.plain_text import PlainText
from app.dialects.binding import context_derenderer
from app.dialects.chat.write import ChatOptions, chat_delta, chat_logprobs, fold
from app.dialects.writer import ReplyHead
from app.engines.engine import TokenChunk
from app.models import ServedModel
from app.parsing.deltas import Content
from app.protocol.chat_reply import ChatChunk, ChatChunkChoice
from app.protocol.generate import GenerateChoice, GenerateLogprobs, GenerateRequest, ParseContext

__all__ = ("Output", "Piece", "finish_derendered", "output_of")


class Piece(Struct, frozen=True):
    """What a chunk comes to in the request's output mode; None where the mode has no such thing."""

    text: str | None = None
    logprobs: Any = None
    chat: ChatChunkChoice | None = None


class Output(Protocol):
    """One choice as it grows."""

    def feed(self, chunk: TokenChunk) -> Piece:
        """The piece of a chunk.

        Where a stop string ends the choice before the engine did, the chunk's finish and stop reason are set.
        """


class TokensOutput:
    """Output mode "tokens": ids and integer logprobs, as the engine gave them."""

    def feed(self, chunk: TokenChunk) -> Piece:
        """Integer logprobs at most."""
        return Piece(logprobs=None if chunk.logprobs is None else GenerateLogprobs(content=chunk.logprobs))


class _Derendered:
    def __init__(self, derenderer: Derenderer, prompt_ids: list[int], kwargs: dict[str, Any]) -> None:
        self._derenderer = derenderer
        self._state = derenderer.start(prompt_ids, kwargs)

    def step(self, chunk: TokenChunk) -> Step:
        step = self._derenderer.feed(
            self._state,
            chunk.index,
            chunk.token_ids,
            logprobs=chunk.logprobs,
            finish_reason=chunk.finish_reason,
            stop_reason=chunk.stop_reason,
        )
        if step.finish_reason is not None and chunk.finish_reason is None:
            chunk.finish_reason, chunk.stop_reason = "stop", step.stop_reason
        return step


class TextOutput(_Derendered):
    """Output mode "text": the plain text, special tokens as the request wants them; stop strings are held back."""

    def feed(self, chunk: TokenChunk) -> Piece:
        """The text that can't be part of a stop string any more."""
        step = self.step(chunk)
        text = "".join([delta.text for delta in step.deltas if isinstance(delta, Content)])
        return Piece(text, chat_logprobs(step.logprobs))


class MessageOutput(_Derendered):
    """Output mode "derender": reasoning, content and calls, in chat's shape."""

    def feed(self, chunk: TokenChunk) -> Piece:
        """What the chunk adds to the message."""
        step = self.step(chunk)
        choice = ChatChunkChoice(
            index=step.index,
            delta=chat_delta(step.deltas),
            logprobs=chat_logprobs(step.logprobs),
            finish_reason=step.finish_reason,
            stop_reason=step.stop_reason,
        )
        return Piece(chat=choice)


def finish_derendered(
    request: GenerateRequest, choices: dict[int, GenerateChoice], pieces: list[ChatChunkChoice]
) -> None:
    """Fold the pieces of output mode "derender" into the choices' messages, with nulls as vLLM writes them.

    Ids and logprobs would tell the reasoning that a request hides, so they go with it.
    """
    context = request.parse_context or ParseContext()
    forced = context.tool_choice not in (None, "none", "auto")
    head = ReplyHead(id=request.request_id, created=0, model="")
    whole = fold(head, [ChatChunk(id="", created=0, model="", choices=pieces)], ChatOptions(forced=forced))
    for folded in whole.choices:
        choice, message = choices[folded.index], folded.message
        message.annotations = message.audio = message.function_call = None
        message.reasoning = None if message.reasoning is UNSET else message.reasoning
        choice.message = message
        choice.finish_reason = folded.finish_reason
        choice.logprobs = folded.logprobs
        if not context.include_reasoning:
            choice.logprobs = choice.token_ids = None


def output_of(request: GenerateRequest, model: ServedModel) -> Output:
    """A fresh choice of ``request``."""
    if request.output_mode == "tokens":
        return TokensOutput()
    params = request.sampling_params
    wants = any(value is not UNSET and value is not None for value in (params.logprobs, params.logprob_token_ids))
    # In derender mode the alternatives are cut to what was asked for; text mode shows them all.
    top = params.logprobs if isinstance(params.logprobs, int) and params.logprobs >= 0 else None
    options = DerenderOptions(
        call_ids=CallIds(request.request_id),
        skip_special_tokens=params.skip_special_tokens is UNSET or params.skip_special_tokens,
        spaces_between_special_tokens=params.spaces_between_special_tokens is not False,
        stop=tuple(params.stop),
        stop_token_ids=tuple(params.stop_token_ids),
        ignore_eos=params.ignore_eos is True,
        min_tokens=0 if params.min_tokens is UNSET else params.min_tokens,
        include_stop=params.include_stop_str_in_output is True,
        logprobs=LogprobOptions(top if request.output_mode == "derender" else None) if wants else None,
    )
    if request.output_mode == "derender":
        context = request.parse_context or ParseContext()
        derenderer = context_derenderer(model, context, options, request_id=request.request_id)
        return MessageOutput(derenderer, request.token_ids, context.chat_template_kwargs or {})
    derenderer = Derenderer(model.tokenizer, PlainText(), options, eos_token_ids=model.eos_token_ids)
    return TextOutput(derenderer, request.token_ids, {})
