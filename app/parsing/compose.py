"""A tool format, a reasoning format, a tokenizer and one request to the parser of its outputs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.parsing.deltas import Delta
from app.parsing.elements_body import ElementsBody
from app.parsing.format import (
    Body,
    Elements,
    HarmonyMessages,
    JsonCalls,
    LiteralCalls,
    NamedJson,
    PythonCalls,
    ReasoningFormat,
    Section,
    ToolFormat,
)
from app.parsing.harmony_body import HarmonyScanner
from app.parsing.json_body import JsonBody
from app.parsing.literal_body import LiteralBody
from app.parsing.markers import Markers
from app.parsing.named_json_body import NamedJsonBody
from app.parsing.parser import Parser, Piece
from app.parsing.python_body import PythonBody
from app.parsing.reasoning_state import prompt_tail, starts_inside
from app.parsing.run import Run
from app.parsing.scanner import BodyMachine, Scanner
from app.parsing.schema_values import Schemas
from app.parsing.state import REASONING, State, dump, load
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("FormatParser", "make_parser", "reasoning_literals", "tool_literals")

ROLE_LINE = re.compile(r"\s*(?:assistant|model|ai|bot)\s*\n\s*", re.IGNORECASE)
"""The rest of an assistant header that ends with its role's name."""


class FormatParser:
    """A :class:`~app.parsing.parser.Parser` of one request."""

    keeps_special_tokens = False

    def __init__(
        self,
        scanner: Scanner | HarmonyScanner,
        markers: Markers,
        reasoning: ReasoningFormat | None,
        tokenizer: Tokenizer,
        *,
        keep_first: bool,
        template_kwargs: Mapping[str, Any],
        start_token: int | None,
    ) -> None:
        self._scanner = scanner
        self._markers = markers
        self._marks = markers.by_id
        self._reasoning = reasoning
        self._tokenizer = tokenizer
        self._keep_first = keep_first
        self._kwargs = template_kwargs
        self._start_token = start_token

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
        return Run(state, self._markers.restore, final=final, keep_first=self._keep_first)

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
    literals = list(tool_literals(tool_format)) if tool_format else []
    suffixed = any(format is not None and format.suffixed for format in (tool_format, reasoning_format))
    markers = Markers(tokenizer, literals, reasoning_literals(reasoning_format), suffixed=suffixed)
    reads_calls = bool(tools) and tool_choice != "none" and tool_format is not None
    schemas = Schemas(tools)
    harmony = _harmony(tool_format, reasoning_format)
    scanner: Scanner | HarmonyScanner
    start_token = None
    if harmony is not None:
        names = schemas.names if reads_calls else None
        scanner = HarmonyScanner(harmony, markers.encode, names)
        start_token = next((i for i, text in markers.text.items() if text == harmony.start), None)
    else:

        def native(name: str, index: int) -> str:
            counted = tool_format is not None and tool_format.call_ids == "counted"
            return f"functions.{name}:{history_tool_calls + index}" if counted else ""

        sections = tool_format.sections if tool_format is not None and reads_calls else ()
        bound = [(section, _bind(section, markers, schemas, native)) for section in sections]
        forced = _forced(tool_choice, markers, native) if sections and not _has_tags(tool_format) else []
        scanner = Scanner([*bound, *forced], reasoning_format, markers.encode, forced=len(forced))
    return FormatParser(
        scanner,
        markers,
        reasoning_format,
        tokenizer,
        keep_first=not parallel_tool_calls,
        template_kwargs=template_kwargs or {},
        start_token=start_token,
    )


def _bind(section: Section, markers: Markers, schemas: Schemas, native: Any) -> BodyMachine:
    body: Body = section.body
    encode = markers.encode
    close = tuple(encode(literal) for literal in section.close)
    if isinstance(body, JsonCalls):
        return JsonBody(body, close, section.repeat)
    if isinstance(body, NamedJson):
        return NamedJsonBody(body, close, section.repeat, encode, native)
    if isinstance(body, Elements):
        return ElementsBody(body, close, section.repeat, encode, schemas, native)
    if isinstance(body, PythonCalls):
        return PythonBody(body, close, section.repeat)
    if isinstance(body, LiteralCalls):
        return LiteralBody(body, close, section.repeat, encode)
    raise TypeError(f"{type(body).__name__} is no body of a section.")


def _has_tags(tool: ToolFormat | None) -> bool:
    """Whether a forced choice is held to the format's own syntax; else an engine writes JSON of no format."""
    return tool is not None and tool.constraints is not None


def _forced(choice: Any, markers: Markers, native: Any) -> list[tuple[Section, BodyMachine]]:
    """What an engine writes that a JSON schema holds to a forced choice: a list of calls, or one call's arguments."""
    listed = Section(open="[", bare=True, body=JsonCalls(arguments=("parameters", "arguments")))
    if choice == "required":
        return [(listed, JsonBody(JsonCalls(arguments=("parameters", "arguments")), (), True))]
    name = _named(choice)
    if not name:
        return []
    body = NamedJson(heads=(), certain=False)
    machine = NamedJsonBody(body, (), False, markers.encode, native, given=name)
    return [(Section(open="{", bare=True, body=body, repeat=False), machine)]


def _named(choice: Any) -> str:
    """The function that a choice names: in Chat's shape, flat, or as an object with a name."""
    if isinstance(choice, Mapping):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else choice.get("name")
    else:
        name = getattr(choice, "name", None)
    return name if isinstance(name, str) else ""


def _harmony(tool: ToolFormat | None, reasoning: ReasoningFormat | None) -> HarmonyMessages | None:
    for section in tool.sections if tool else ():
        if isinstance(section.body, HarmonyMessages):
            return section.body
    return reasoning.harmony if reasoning else None


def tool_literals(tool: ToolFormat) -> Iterator[str]:
    """Every literal of a tool format, head templates with their fields."""
    for section in tool.sections:
        body = section.body
        yield section.open
        yield from section.close
        if isinstance(body, NamedJson):
            yield from (*body.heads, *body.close)
        elif isinstance(body, Elements):
            yield from (*body.heads, *body.parameters, *body.parameter_close, *body.close)
        elif isinstance(body, LiteralCalls):
            yield from (*body.heads, body.quote, *body.close)
        elif isinstance(body, HarmonyMessages):
            yield from _harmony_literals(body)


def reasoning_literals(reasoning: ReasoningFormat | None) -> Iterator[str]:
    """Every literal of a reasoning format."""
    if reasoning is not None:
        yield from (*reasoning.open, *reasoning.close, *reasoning.dropped)
        if reasoning.harmony is not None:
            yield from _harmony_literals(reasoning.harmony)


def _harmony_literals(body: HarmonyMessages) -> Iterator[str]:
    yield from (body.start, body.channel, body.constrain, body.message, *body.ends)
