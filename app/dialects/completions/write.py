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

__all__ = (
    "CompletionOptions",
    "CompletionWriter",
    "Echo",
    "completion_logprobs",
    "completion_text",
    "echo_of",
    "fold",
)


class CompletionOptions(Struct, frozen=True, kw_only=True):
    """What of a completions request changes how its reply is written.

    ``include_usage`` and ``continuous_usage`` are the stream options; ``token_ids``: the output's ids are told, and
    ``prompt_token_ids`` (by choice index) with a choice's first chunk.
    """

    include_usage: bool = False
    continuous_usage: bool = False
    token_ids: bool = False
    prompt_token_ids: dict[int, list[int]] = {}


class Echo(Struct, frozen=True):
    """What a choice begins with where the prompt is echoed: its text, and its logprobs where they were asked for."""

    text: str = ""
    logprobs: CompletionLogprobs | None = None


NO_ECHO = Echo()


class CompletionWriter:
    """OpenAI's text completion chunks."""

    def __init__(self, head: ReplyHead, options: CompletionOptions = CompletionOptions()) -> None:
        self._head = head
        self._options = options
        self._begun: list[int] = []
        self._echoes: dict[int, Echo] = {}

    def precede(self, index: int, echo: "Echo") -> None:
        """Begin choice ``index`` with its prompt; told before the choice's first step."""
        self._echoes[index] = echo

    def start(self) -> list[Event]:
        """Nothing comes before the text."""
        return []

    def feed(self, step: Step, usage: Usage | None = None) -> list[Event]:
        """One chunk, if there is anything to say."""
        text = completion_text(step)
        echo = self._echoes.get(step.index, NO_ECHO)
        before, before_logprobs = "", None
        prompt_ids: list[int] | UnsetType = UNSET
        if step.index not in self._begun:
            prompt_ids = self._options.prompt_token_ids.get(step.index, UNSET)
            self._begun.append(step.index)
            before, before_logprobs = echo.text, echo.logprobs
        ids = step.token_ids if self._options.token_ids else []
        if not (text or before or prompt_ids or step.finish_reason is not None or step.logprobs or ids):
            return []
        logprobs = completion_logprobs(step.logprobs, step.text_offset + len(echo.text))
        choice = CompletionChunkChoice(
            index=step.index,
            text=before + text,
            logprobs=_joined(before_logprobs, logprobs),
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


def echo_of(text: str, prompt: Sequence[Position] | None) -> Echo:
    """The echo of a prompt.

    Args:
        text: as it was given, or decoded.
        prompt: one position a token, or None where no logprobs were asked for. A token that the tokenizer put before
            the text takes no room in it.
    """
    if prompt is None:
        return Echo(text)
    logprobs = CompletionLogprobs()
    offset = 0
    for number, position in enumerate(prompt):
        one = completion_logprobs([position], offset)
        assert one is not None
        if number == 0:  # nothing precedes the first token
            one.token_logprobs, one.top_logprobs = [None], [None]
        _extend(logprobs, one)
        token = position.sampled.token
        if text.startswith(token, offset):
            offset += len(token)
    return Echo(text, logprobs)


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
        choice.logprobs = choice.logprobs or CompletionLogprobs()
        _extend(choice.logprobs, piece.logprobs)
    if isinstance(piece.token_ids, list):
        if not isinstance(choice.token_ids, list):
            choice.token_ids = []
        choice.token_ids += piece.token_ids
    if isinstance(piece.prompt_token_ids, list):
        choice.prompt_token_ids = piece.prompt_token_ids
    choice.finish_reason = piece.finish_reason or choice.finish_reason
    if piece.stop_reason is not UNSET and piece.stop_reason is not None:
        choice.stop_reason = piece.stop_reason


def _joined(before: CompletionLogprobs | None, after: CompletionLogprobs | None) -> CompletionLogprobs | None:
    """The logprobs of two stretches of one text."""
    if before is None or after is None:
        return after if before is None else before
    joined = CompletionLogprobs()
    _extend(joined, before)
    _extend(joined, after)
    return joined


def _extend(whole: CompletionLogprobs, piece: CompletionLogprobs) -> None:
    whole.text_offset += piece.text_offset
    whole.token_logprobs += piece.token_logprobs
    whole.tokens += piece.tokens
    whole.top_logprobs += piece.top_logprobs
