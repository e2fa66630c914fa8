"""A tool format, a reasoning format, a tokenizer and one request to the parser of its outputs."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.parsing.binding import Binding, bound, with_forced
from app.parsing.deltas import Delta
from app.parsing.format import ReasoningFormat, ToolFormat
from app.parsing.parser import Parser, Piece
from app.parsing.reasoning_state import prompt_tail, starts_inside
from app.parsing.run import RequestContext, Run
from app.parsing.schema_values import Schemas
from app.parsing.state import REASONING, State, dump, load
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("FormatParser", "make_parser")


ROLE_LINE = re.compile(r"\s*(?:assistant|model|ai|bot)\s*\n\s*", re.IGNORECASE)
"""The rest of an assistant header that ends with its role's name."""


class FormatParser:
    """A :class:`~app.parsing.parser.Parser` of one request."""

    keeps_special_tokens = False

    def __init__(
        self,
        binding: Binding,
        reasoning: ReasoningFormat | None,
        tokenizer: Tokenizer,
        request: RequestContext,
        template_kwargs: Mapping[str, Any],
    ) -> None:
        self._scanner = binding.scanner
        self._markers = binding.markers
        self._marks = binding.markers.by_id
        self._start_token = binding.start_token
        self._reasoning = reasoning
        self._tokenizer = tokenizer
        self._request = request
        self._kwargs = template_kwargs

    def start(self, prompt_ids: Sequence[int], template_kwargs: Mapping[str, Any] | None = None) -> State:
        """See :class:`~app.parsing.parser.Parser`; what the prompt left open is read by the scanner itself."""
        state = self._first_state(template_kwargs)
        tail = prompt_tail(self._tokenizer, prompt_ids, self._markers.text, self._start_token)
        if not tail:
            return state
        text = self._tail_text(tail)
        state.pending = text if self._start_token is not None else ROLE_LINE.sub("", text, count=1)
        if ROLE_LINE.match(text) is None and self._start_token is None:
            state.pending = text
        self._scanner.advance(self._run(state))
        if state.calls:
            return self._first_state(template_kwargs)
        if self._start_token is not None:
            state.marks[0] = len(state.pending)
        state.spaces = ["", ""]
        return state

    def _first_state(self, template_kwargs: Mapping[str, Any] | None) -> State:
        state = State()
        kwargs = self._kwargs if template_kwargs is None else template_kwargs
        if self._reasoning is not None and starts_inside(self._reasoning, kwargs):
            if self._reasoning.as_content:
                state.pending = self._reasoning.as_content
            elif self._reasoning.harmony is None:
                state.channel = REASONING
        return state

    def _tail_text(self, tail: Sequence[int]) -> str:
        parts: list[str] = []
        plain: list[int] = []
        for token_id in tail:
            mark = self._marks.get(token_id)
            if mark is None:
                plain.append(token_id)
                continue
            if plain:
                parts.append(self._tokenizer.decode(plain, skip_special_tokens=True))
                plain = []
            parts.append(mark)
        if plain:
            parts.append(self._tokenizer.decode(plain, skip_special_tokens=True))
        return "".join(parts)

    def _run(self, state: State, final: bool = False) -> Run:
        return Run(state, self._markers.restore, self._request, final=final)

    def feed(self, state: State, pieces: Sequence[Piece]) -> list[Delta]:
        """See :class:`~app.parsing.parser.Parser`. A marker counts by its id, whatever text comes with it."""
        marks = self._marks
        for token_id, text in pieces:
            mark = marks.get(token_id)
            if mark is not None:
                text = text.removesuffix(self._markers.text[token_id]) + mark
            state.pending += text
        run = self._run(state)
        self._scanner.advance(run)
        return run.end()

    def finish(self, state: State) -> list[Delta]:
        """See :class:`~app.parsing.parser.Parser`."""
        run = self._run(state, final=True)
        self._scanner.advance(run)
        return run.end()

    def dump(self, state: State) -> bytes:
        """See :class:`~app.parsing.parser.Parser`."""
        return dump(state)

    def load(self, data: bytes) -> State:
        """See :class:`~app.parsing.parser.Parser`."""
        return load(data)


def make_parser(
    tool_format: ToolFormat | None,
    reasoning_format: ReasoningFormat | None,
    tokenizer: Tokenizer,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: str | Mapping[str, Any] | None = None,
    parallel_tool_calls: bool = True,
    template_kwargs: Mapping[str, Any] | None = None,
    history_tool_calls: int = 0,
) -> Parser:
    """The parser of one request's outputs.

    Args:
        tools: the request's tools in Chat's shape (``{"type": "function", "function": {"name", "parameters"}}``) or
            flat (``{"name", "parameters"}``); their schemas type arguments of formats whose values are bare text.
        tool_choice: ``"none"``, ``"auto"``, ``"required"``, or a named function; None means auto with tools.
            With none, or without tools, calls are not read: their raw text is content.
        parallel_tool_calls: False keeps the first call and drops later ones.
        template_kwargs: the effective chat template kwargs; :meth:`Parser.start` may be given others.
        history_tool_calls: how many calls the conversation already holds (Kimi counts its ids over them).
    """
    reads_calls = bool(tools) and tool_choice != "none" and tool_format is not None
    tagged = tool_format is not None and tool_format.constraints is not None
    forced = tool_choice not in (None, "auto", "none")
    binding = bound(tool_format, reasoning_format, tokenizer, reads_calls, spelled=reads_calls and tagged and forced)
    if reads_calls and tool_format is not None and not tagged:
        binding = with_forced(binding, tool_format, reasoning_format, tool_choice)
    counted = tool_format is not None and tool_format.call_ids == "counted"
    request = RequestContext(
        Schemas(tools), keep_first=not parallel_tool_calls, counted_from=history_tool_calls if counted else None
    )
    return FormatParser(binding, reasoning_format, tokenizer, request, template_kwargs or {})
