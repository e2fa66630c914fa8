"""One request's output tokens to deltas: the one path of whole and streamed replies.

::

    ids ─stop token→ ids ─detokenizer→ pieces ─stop strings→ pieces ─parser→ deltas ─calls named, reasoning hidden→ Step

A whole reply is the fold of the steps of a stream, of one chunk or of many (laws 1 and 2).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.derendering.choice_state import ChoiceState
from app.derendering.logprobs import LogprobReader, Position
from app.derendering.options import DerenderOptions
from app.derendering.well_formed import well_formed
from app.parsing.deltas import CallArguments, CallEnd, CallStart, Content, Delta, Reasoning
from app.parsing.parser import Parser, Piece
from app.protocol.generate import TokenLogprob
from app.tokenizing.detokenizer import Detokenizer
from app.tokenizing.stop_strings import NO_TOKEN, StopState, StopStrings
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("Derenderer", "Step")

REPLACEMENT = "\ufffd"
"""What a character that was never finished would be; the end of the output drops it."""


class Step(Struct, frozen=True, kw_only=True):
    """What one chunk of one choice came to.

    ``deltas`` are joined where neighbours are of a kind; the ``native_id`` of a ``CallStart`` is the call's id in
    every case. ``token_ids`` and ``logprobs`` are of this chunk's tokens up to the one that completed a stop string.
    ``finish_reason`` (stop, tool_calls, length, abort, repetition) stands on the last step alone. ``tokens`` and
    ``reasoning_tokens`` count the choice's tokens so far.
    """

    index: int
    deltas: list[Delta] = []
    token_ids: list[int] = []
    logprobs: list[Position] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    tokens: int = 0
    reasoning_tokens: int = 0
    text_offset: int = 0
    """Where the first of ``logprobs`` stands in the choice's text, in characters."""
    in_content: list[bool] = []
    """For each of ``logprobs``, whether its token was written in the answer's content."""


class Derenderer:
    """Binds a tokenizer, a parser and one request's options; holds no stream state, so it serves all choices.

    Args:
        eos_token_ids: the model's end-of-sequence ids, of which the tokenizer's own is not told as a ``stop_reason``.
    """

    def __init__(
        self, tokenizer: Tokenizer, parser: Parser, options: DerenderOptions, *, eos_token_ids: Sequence[int] = ()
    ) -> None:
        self.options = options
        self.parser = parser
        self._primary_eos = (
            tokenizer.eos_token_id if tokenizer.eos_token_id is not None else next(iter(eos_token_ids), None)
        )
        ends = set() if options.ignore_eos else {*eos_token_ids, self._primary_eos} - {None}
        self._stop_ids = frozenset({*options.stop_token_ids, *ends})
        self._silent_eos = None if options.ignore_eos else self._primary_eos
        self._detokenizer = Detokenizer(
            tokenizer,
            skip_special_tokens=options.skip_special_tokens and not parser.keeps_special_tokens,
            spaces_between_special_tokens=options.spaces_between_special_tokens,
        )
        self._stops = StopStrings(options.stop, min_tokens=options.min_tokens, include=options.include_stop)
        self._logprobs = None if options.logprobs is None else LogprobReader(tokenizer, options.logprobs)

    def start(self, prompt_ids: Sequence[int] | None, template_kwargs: Mapping[str, Any]) -> ChoiceState:
        """The state before a choice's first token, from the prompt's ids and the effective template kwargs."""
        return ChoiceState(
            detokenizer=self._detokenizer.start(prompt_ids),
            stop=StopState(),
            parser=self.parser.start(prompt_ids or (), template_kwargs),
        )

    def feed(
        self,
        state: ChoiceState,
        index: int,
        token_ids: Sequence[int],
        *,
        logprobs: Sequence[TokenLogprob] | None = None,
        finish_reason: str | None = None,
        stop_reason: int | str | None = None,
    ) -> Step:
        """Advance ``state`` over new tokens of choice ``index``.

        Args:
            logprobs: one entry a token, or None.
            finish_reason: the engine's, on the last chunk.
            stop_reason: the stop string or stop token id that the engine names.
        """
        if state.finished:
            state.unused_tokens += len(token_ids)
            return Step(index=index, tokens=state.tokens, reasoning_tokens=state.reasoning_tokens)
        held = [] if state.held_token is None else [state.held_token]
        ids = [*held, *token_ids]
        state.held_token = None
        used = len(token_ids)
        if finish_reason == "stop":
            ids, stop_reason = self._drop_stop_token(ids, stop_reason)
        elif finish_reason is None and ids and ids[-1] in self._stop_ids:
            state.held_token = ids.pop()
        pieces: Sequence[Piece] = self._detokenizer.feed_all(state.detokenizer, ids)
        if finish_reason is not None and (tail := self._detokenizer.finish(state.detokenizer).rstrip(REPLACEMENT)):
            pieces = [*pieces, (NO_TOKEN, tail)]
        announced = stop_reason if isinstance(stop_reason, str) else None
        if self.options.stop or announced:
            pieces, match = self._stops.feed(state.stop, pieces, announced)
            if match is not None:
                used = min(used, max(0, match.taken - len(held)))
                state.unused_tokens += len(token_ids) - used
                state.held_token = None
                finish_reason, stop_reason = "stop", match.stop
            elif finish_reason is not None:
                pieces = [*pieces, *self._stops.flush(state.stop)]
        state.tokens += used
        deltas, in_content = self._parse(state, pieces)
        if finish_reason is not None:
            deltas += self.parser.finish(state.parser)
            state.finished = True
        deltas = self._dress(state, index, deltas)
        if finish_reason == "stop" and state.calls and self.options.tool_choice != "named":
            finish_reason = "tool_calls"
        positions, offset = self._positions(state, None if logprobs is None else logprobs[:used])
        return Step(
            index=index,
            deltas=deltas,
            token_ids=list(token_ids[:used]),
            logprobs=positions,
            finish_reason=finish_reason,
            stop_reason=stop_reason,
            tokens=state.tokens,
            reasoning_tokens=state.reasoning_tokens,
            text_offset=offset,
            in_content=_aligned(in_content, len(held), used, state, bool(self.options.stop)) if positions else [],
        )

    def _drop_stop_token(self, ids: list[int], stop_reason: int | str | None) -> tuple[list[int], int | str | None]:
        """Leave out the token that stopped the output, and name it where the engine did not."""
        if not ids or isinstance(stop_reason, str):
            return ids, stop_reason
        last = ids[-1]
        if stop_reason is None:
            if last not in self._stop_ids:
                return ids, None
            stop_reason = None if last == self._silent_eos else last
        elif stop_reason != last:
            return ids, stop_reason
        return (ids if self.options.include_stop else ids[:-1]), stop_reason

    def _parse(self, state: ChoiceState, pieces: Iterable[Piece]) -> tuple[list[Delta], list[bool]]:
        """Token by token, so that every token is counted to the channel that it was written in."""
        deltas: list[Delta] = []
        in_content: list[bool] = []
        feed = self.parser.feed
        for piece in pieces:
            found = feed(state.parser, (piece,))
            if found:
                deltas += found
                state.in_reasoning = isinstance(found[-1], Reasoning)
                state.in_content = isinstance(found[-1], Content)
            state.reasoning_tokens += state.in_reasoning
            in_content.append(state.in_content)
        return deltas, in_content

    def _dress(self, state: ChoiceState, index: int, deltas: list[Delta]) -> list[Delta]:
        """Join neighbours, give every call its id, and leave out reasoning that is not wanted."""
        joined: list[Delta] = []
        run = _Run()
        for delta in deltas:
            match delta:
                case Reasoning() if not self.options.include_reasoning:
                    continue
                case Content(text):
                    run.add(joined, (Content,), text)
                case Reasoning(text):
                    run.add(joined, (Reasoning,), text)
                case CallArguments(number, text):
                    run.add(joined, (CallArguments, number), text)
                case CallStart():
                    run.end(joined)
                    state.calls += 1
                    name = self.options.call_ids.of(index, delta.index, delta.name, delta.native_id)
                    joined.append(replace(delta, native_id=name))
                case CallEnd():
                    run.end(joined)
                    joined.append(delta)
        run.end(joined)
        return joined

    def _positions(
        self, state: ChoiceState, entries: Sequence[TokenLogprob] | None
    ) -> tuple[list[Position] | None, int]:
        offset = state.text_offset
        if self._logprobs is None or entries is None:
            return None, offset
        positions, state.unfinished = self._logprobs.read(entries, state.unfinished)
        state.text_offset = offset + sum(len(position.sampled.token) for position in positions)
        return positions, offset


class _Run:
    """Neighbouring pieces of one text on their way to become one delta."""

    def __init__(self) -> None:
        self._kind: tuple[Any, ...] | None = None
        self._texts: list[str] = []

    def add(self, joined: list[Delta], kind: tuple[Any, ...], text: str) -> None:
        """One more piece; ``kind`` is the delta's class and what stands before its text."""
        if kind != self._kind:
            self.end(joined)
            self._kind = kind
        self._texts.append(well_formed(text))

    def end(self, joined: list[Delta]) -> None:
        """What was collected is one delta."""
        if self._kind is not None:
            make, *before = self._kind
            joined.append(make(*before, "".join(self._texts)))
            self._kind, self._texts = None, []


def _aligned(marks: list[bool], held: int, tokens: int, state: ChoiceState, stops: bool) -> list[bool]:
    """One mark a token; where stop strings hold pieces back, the channel of now stands for all of the chunk."""
    if stops:
        return [state.in_content] * tokens
    marks = marks[held : held + tokens]
    return marks + [False] * (tokens - len(marks))
