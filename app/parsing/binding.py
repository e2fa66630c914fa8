"""A format pair and a vocabulary to a scanner and its markers, once for all requests of a model."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from app.parsing.body import BodyMachine
from app.parsing.elements_body import ElementsBody
from app.parsing.format import (
    CustomBody,
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
from app.parsing.python_body import PythonBody
from app.parsing.scanner import Scanner
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("Binding", "bound", "reasoning_literals", "tool_literals", "with_forced")


class Binding(Struct, frozen=True):
    """A format pair bound to one vocabulary; one serves all requests that read calls, another all that don't."""

    scanner: Scanner | HarmonyScanner
    markers: Markers
    start_token: int | None
    """The token that begins a turn in the prompt, where the format has one."""


_bindings: OrderedDict[tuple[int, int, int, bool, bool], tuple[Binding, object]] = OrderedDict()
BINDINGS_KEPT = 256


def bound(
    tool: ToolFormat | None,
    reasoning: ReasoningFormat | None,
    tokenizer: Tokenizer,
    reads_calls: bool,
    spelled: bool = False,
) -> Binding:
    """The binding of a pair to a vocabulary, remembered: a stateless derender asks for it at every chunk.

    ``spelled`` as in :class:`~app.parsing.markers.Markers`.
    """
    key = (id(tool), id(reasoning), id(tokenizer), reads_calls, spelled)
    known = _bindings.get(key)
    if known is not None:
        return known[0]
    binding = _bind(tool, reasoning, tokenizer, reads_calls, spelled)
    # what the key's ids stand for is kept with it, so that no other object can get one of them
    _bindings[key] = (binding, (tool, reasoning, tokenizer))
    while len(_bindings) > BINDINGS_KEPT:
        _bindings.popitem(last=False)
    return binding


def _bind(
    tool: ToolFormat | None,
    reasoning: ReasoningFormat | None,
    tokenizer: Tokenizer,
    reads_calls: bool,
    spelled: bool,
) -> Binding:
    suffixed = any(format is not None and format.suffixed for format in (tool, reasoning))
    literals = list(tool_literals(tool)) if tool else []
    harmony = _harmony(tool, reasoning)
    spelled = spelled and harmony is None
    markers = Markers(tokenizer, literals, reasoning_literals(reasoning), suffixed=suffixed, spelled=spelled)
    if harmony is not None:
        start_token = next((i for i, text in markers.text.items() if text == harmony.start), None)
        return Binding(HarmonyScanner(harmony, markers.encode, reads_calls), markers, start_token)
    sections = tool.sections if tool is not None and reads_calls else ()
    bound = [(section, _bind_body(section, markers)) for section in sections]
    return Binding(Scanner(bound, reasoning, markers.encode), markers, None)


def with_forced(binding: Binding, tool: ToolFormat, reasoning: ReasoningFormat | None, choice: Any) -> Binding:
    """The binding that also reads what an engine writes whom a JSON schema holds to a forced choice.

    Only formats without structural tags: an engine holds the others to their own syntax.
    """
    forced = _forced(choice, tool, binding.markers)
    if not forced or isinstance(binding.scanner, HarmonyScanner):
        return binding
    bound = zip(tool.sections, binding.scanner.bodies, strict=True)
    scanner = Scanner([*bound, *forced], reasoning, binding.markers.encode, forced=len(forced))
    return Binding(scanner, binding.markers, None)


def _bind_body(section: Section, markers: Markers) -> BodyMachine:
    body = section.body
    encode = markers.encode
    close = tuple(encode(literal) for literal in section.close)
    if isinstance(body, JsonCalls):
        return JsonBody(body, close, section.repeat, encode)
    if isinstance(body, NamedJson):
        return NamedJsonBody(body, close, section.repeat, encode)
    if isinstance(body, Elements):
        return ElementsBody(body, close, section.repeat, encode)
    if isinstance(body, PythonCalls):
        return PythonBody(body, close, section.repeat)
    if isinstance(body, LiteralCalls):
        return LiteralBody(body, close, section.repeat, encode)
    if isinstance(body, CustomBody):
        return body.bind(close, section.repeat, encode)
    raise TypeError(f"{type(body).__name__} is no body of a section.")


def _forced(choice: Any, tool: ToolFormat, markers: Markers) -> list[tuple[Section, BodyMachine]]:
    """What an engine writes that a JSON schema holds to a forced choice: a list of calls, or one call's arguments."""
    if choice == "required":
        own = [section.body for section in tool.sections if isinstance(section.body, JsonCalls)]
        names = {"name": None, **{key: None for body in own for key in body.name}}
        arguments = {"parameters": None, "arguments": None, **{key: None for body in own for key in body.arguments}}
        listed = JsonCalls(name=tuple(names), arguments=tuple(arguments))
        return [(Section(open="[", bare=True, body=listed), JsonBody(listed, (), True))]
    name = _named(choice)
    if not name:
        return []
    body = NamedJson(heads=(), certain=False)
    machine = NamedJsonBody(body, (), False, markers.encode, given=name)
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
        if isinstance(body, JsonCalls):
            yield from body.around
        elif isinstance(body, NamedJson):
            yield from (*body.heads, *body.close)
        elif isinstance(body, Elements):
            yield from (*body.heads, *body.parameters, *body.parameter_close, *body.close)
        elif isinstance(body, LiteralCalls):
            yield from (*body.heads, body.quote, *body.close)
        elif isinstance(body, HarmonyMessages):
            yield from _harmony_literals(body)
        elif isinstance(body, CustomBody):
            yield from body.literals


def reasoning_literals(reasoning: ReasoningFormat | None) -> Iterator[str]:
    """Every literal of a reasoning format."""
    if reasoning is not None:
        yield from (*reasoning.open, *reasoning.close, *reasoning.dropped)
        if reasoning.harmony is not None:
            yield from _harmony_literals(reasoning.harmony)


def _harmony_literals(body: HarmonyMessages) -> Iterator[str]:
    yield from (body.start, body.channel, body.constrain, body.message, *body.ends)
