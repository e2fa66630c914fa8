"""Derendered steps to text completion chunks, and the chunks to a text completion."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from app.derendering.derenderer import Step
from app.derendering.logprobs import Position
from app.dialects.writer import Event, ReplyHead, Usage
from app.parsing.deltas import Content
from app.protocol.chat_reply import ErrorBody, ErrorEvent
from app.protocol.completions_reply import (
    Completion,
    CompletionChoice,
    CompletionChunk,
    CompletionChunkChoice,
    CompletionLogprobs,
)
from app.protocol.usage import GenerateUsage

__all__ = ("CompletionOptions", "CompletionWriter", "completion_logprobs", "completion_text", "fold")


class CompletionOptions(Struct, frozen=True, kw_only=True):
    """What of a completions request changes how its reply is written.

    ``include_usage`` and ``continuous_usage`` are the stream options; ``token_ids``: the output's ids are told, and
    ``prompt_token_ids`` (by choice index) with a choice's first chunk. ``echo`` holds what precedes each choice's text,
    by choice index, where the prompt is echoed.
    """

    include_usage: bool = False
    continuous_usage: bool = False
    token_ids: bool = False
    prompt_token_ids: dict[int, list[int]] = {}
    echo: dict[int, str] = {}


class CompletionWriter:
    """OpenAI's text completion chunks."""

    def __init__(self, head: ReplyHead, options: CompletionOptions = CompletionOptions()) -> None:
        self._head = head
        self._options = options
        self._begun: list[int] = []

    def start(self) -> list[Event]:
        """Nothing comes before the text."""
        return []

    def feed(self, step: Step, usage: Usage | None = None) -> list[Event]:
        """One chunk, if there is anything to say."""
        text = completion_text(step)
        echo = ""
        prompt_ids: list[int] | UnsetType = UNSET
        if step.index not in self._begun:
            prompt_ids = self._options.prompt_token_ids.get(step.index, UNSET)
            self._begun.append(step.index)
            echo = self._options.echo.get(step.index, "")
        ids = step.token_ids if self._options.token_ids else []
        if not (text or echo or prompt_ids or step.finish_reason is not None or step.logprobs or ids):
            return []
        shift = len(self._options.echo.get(step.index, ""))
        choice = CompletionChunkChoice(
            index=step.index,
            text=echo + text,
            logprobs=completion_logprobs(step.logprobs, step.text_offset + shift),
            finish_reason=step.finish_reason,
            prompt_token_ids=prompt_ids,
        )
        if step.stop_reason is not None:
            choice.stop_reason = step.stop_reason
        if self._options.token_ids:
            choice.token_ids = step.token_ids
        return [Event(None, self._chunk([choice], usage))]

    def finish(self, usage: Usage) -> list[Event]:
        """The usage chunk, where it was asked for."""
        if not self._options.include_usage:
            return []
        chunk = self._chunk([], None)
        chunk.usage = usage.wire()
        return [Event(None, chunk)]

    def fail(self, message: str, *, code: str = "server_error") -> list[Event]:
        """OpenAI's error object in the place of a chunk."""
        return [Event(None, ErrorEvent(ErrorBody(message=message, type=code)))]

    def dump(self) -> list[int]:
        """The choices that have begun."""
        return list(self._begun)

    def load(self, state: Any) -> None:
        """Go on from :meth:`dump`'s state."""
        self._begun = list(state)

    def _chunk(self, choices: list[CompletionChunkChoice], usage: Usage | None) -> CompletionChunk:
        head, options = self._head, self._options
        chunk = CompletionChunk(id=head.id, created=head.created, model=head.model, choices=choices)
        if options.include_usage:
            chunk.usage = usage.wire() if usage is not None and options.continuous_usage else None
        return chunk


def completion_text(step: Step) -> str:
    """The step's text; completions are never parsed, so all of it is content."""
    return "".join([delta.text for delta in step.deltas if isinstance(delta, Content)])


def completion_logprobs(positions: Sequence[Position] | None, offset: int) -> CompletionLogprobs | None:
    """Logprobs in completions' shape; ``offset`` is where the first token's text stands, in characters.

    Of alternatives with one text the likeliest stands.
    """
    if positions is None:
        return None
    logprobs = CompletionLogprobs()
    for position in positions:
        logprobs.text_offset.append(offset)
        logprobs.tokens.append(position.sampled.token)
        logprobs.token_logprobs.append(position.sampled.logprob)
        alternatives: dict[str, float] = {}
        for other in position.top:
            alternatives[other.token] = max(other.logprob, alternatives.get(other.token, other.logprob))
        logprobs.top_logprobs.append(alternatives if position.has_candidates else None)
        offset += len(position.sampled.token)
    return logprobs


def fold(head: ReplyHead, chunks: Iterable[CompletionChunk]) -> Completion:
    """The whole reply that the chunks make up, usage included where a chunk has it."""
    choices: dict[int, CompletionChoice] = {}
    texts: dict[int, list[str]] = {}
    usage: GenerateUsage | None = None
    for chunk in chunks:
        usage = chunk.usage or usage
        for piece in chunk.choices:
            choice = choices.setdefault(piece.index, CompletionChoice(index=piece.index, text=""))
            texts.setdefault(piece.index, []).append(piece.text)
            _add(choice, piece)
    for index, choice in choices.items():
        choice.text = "".join(texts[index])
    whole = [choices[index] for index in sorted(choices)]
    return Completion(id=head.id, created=head.created, model=head.model, choices=whole, usage=usage)


def _add(choice: CompletionChoice, piece: CompletionChunkChoice) -> None:
    if piece.logprobs is not None:
        whole = choice.logprobs = choice.logprobs or CompletionLogprobs()
        whole.text_offset += piece.logprobs.text_offset
        whole.token_logprobs += piece.logprobs.token_logprobs
        whole.tokens += piece.logprobs.tokens
        whole.top_logprobs += piece.logprobs.top_logprobs
    if isinstance(piece.token_ids, list):
        if not isinstance(choice.token_ids, list):
            choice.token_ids = []
        choice.token_ids += piece.token_ids
    if isinstance(piece.prompt_token_ids, list):
        choice.prompt_token_ids = piece.prompt_token_ids
    choice.finish_reason = piece.finish_reason or choice.finish_reason
    if piece.stop_reason is not UNSET and piece.stop_reason is not None:
        choice.stop_reason = piece.stop_reason
