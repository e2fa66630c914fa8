"""The conformance kit: a format's own samples, put to the laws that every format has to keep.

A pytest plugin (it comes with the package) whose one fixture is all that a format's author needs::

    def test_my_format(conforms):
        conforms(MY_TOOL_FORMAT)

It reads every sample as tokens (each marker is one token) and as text (each character is one), and checks that

- the whole output gives what the sample says;
- every partition into two chunks, every chunk size up to seven, and random ones give the same message, with the state
  dumped and loaded between chunks (law 1);
- of every prefix, nothing raises, the calls are a prefix of the whole's calls, and no word is lost (law 3);
- arguments only ever grow, and those of a complete call are JSON (law 4);
- the state stays small.
"""

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from app.parsing.binding import reasoning_literals, tool_literals
from app.parsing.compose import make_parser
from app.parsing.deltas import CallArguments, CallEnd, CallStart, Content, Delta, Reasoning
from app.parsing.format import ReasoningFormat, Sample, ToolFormat
from app.parsing.parser import Parser, Piece
from app.parsing.sample_tokenizer import MARKER_TEXT, SampleTokenizer

__all__ = (
    "STATE_LIMIT",
    "Message",
    "check_format",
    "check_sample",
    "conforms",
    "fold",
    "lost_words",
    "message_of",
    "syntax_words",
)

STATE_LIMIT = 2048
"""Bytes that the state of a sample may have; samples are short."""
TOOLS = ({"type": "function", "function": {"name": "any_tool", "parameters": {"type": "object"}}},)
RANDOM_PARTITIONS = 10
WORD = re.compile(r"[^\W_]{3,}")


class Message(Struct):
    """A parsed output: what the deltas come to. A call is [name, arguments, native id, complete or None]."""

    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, str | None, bool | None]] = msgspec.field(default_factory=list)


def fold(deltas: Iterable[Delta]) -> Message:
    """The deltas as one message; checks that they come in a possible order."""
    message = Message()
    for delta in deltas:
        match delta:
            case Content(text):
                assert text, "an empty delta"
                message.content += text
            case Reasoning(text):
                assert text, "an empty delta"
                message.reasoning += text
            case CallStart(index, name, native_id):
                assert index == len(message.calls), "a call out of turn"
                message.calls.append((name, "", native_id, None))
            case CallArguments(index, text):
                name, before, native_id, over = message.calls[index]
                assert over is None, "arguments after the call's end"
                message.calls[index] = (name, before + text, native_id, None)
            case CallEnd(index, complete):
                name, before, native_id, over = message.calls[index]
                assert over is None, "a call ends twice"
                message.calls[index] = (name, before, native_id, complete)
    return message


def message_of(parser: Parser, chunks: Iterable[Sequence[Piece]], kwargs: Mapping[str, Any]) -> Message:
    """The message of an output in chunks, the state dumped and loaded between them."""
    state = parser.start((), kwargs)
    deltas: list[Delta] = []
    for chunk in chunks:
        deltas += parser.feed(state, chunk)
        state = parser.load(parser.dump(state))
    return fold([*deltas, *parser.finish(state)])


@pytest.fixture
def conforms() -> Callable[..., None]:
    """Checks one format: ``conforms(FORMAT)``, or ``conforms(FORMAT, reasoning={"name": REASONING})``."""
    return check_format


def check_format(
    format: ToolFormat | ReasoningFormat, *, reasoning: Mapping[str, ReasoningFormat] | None = None
) -> None:
    """Put all samples of a format to the laws.

    Args:
        reasoning: the reasoning formats that samples of a tool format name.
    """
    assert format.samples, f"{format.name} has no samples"
    for sample in format.samples:
        partner = (reasoning or {}).get(sample.reasoning_format)
        if sample.reasoning_format and partner is None:
            continue
        if isinstance(format, ToolFormat):
            check_sample(sample, format, partner)
        else:
            check_sample(sample, None, format)


def check_sample(sample: Sample, tool: ToolFormat | None, reasoning: ReasoningFormat | None) -> None:
    """Put one sample to the laws."""
    literals = [*(tool_literals(tool) if tool else ()), *reasoning_literals(reasoning)]
    markers = [found[0] for literal in literals for found in MARKER_TEXT.finditer(literal)]
    for tokenizer in (SampleTokenizer(markers), SampleTokenizer()):
        parser = make_parser(tool, reasoning, tokenizer, tools=TOOLS if tool else (), template_kwargs={})
        pieces = tokenizer.pieces(sample.text)
        kwargs = sample.template_kwargs
        whole = message_of(parser, [pieces], kwargs)
        _means(sample, whole)
        for chunks in _partitions(pieces):
            assert message_of(parser, chunks, kwargs) == whole, f"{sample.text!r} in {len(chunks)} chunks"
        _prefixes(parser, pieces, whole, kwargs, syntax_words(literals, tool))


def _means(sample: Sample, message: Message) -> None:
    assert message.content.strip() == sample.content, (sample.text, message)
    assert message.reasoning.strip() == sample.reasoning, (sample.text, message)
    assert [(name, arguments) for name, arguments, _, _ in message.calls] == list(sample.calls), (sample.text, message)
    for _, arguments, _, complete in message.calls:
        if complete:
            json.loads(arguments)
    assert all(call[3] for call in message.calls) or not sample.complete, (sample.text, message)


def _partitions(pieces: Sequence[Piece]) -> Iterator[list[Sequence[Piece]]]:
    for cut in range(1, len(pieces)):
        yield [pieces[:cut], pieces[cut:]]
    for size in range(1, 8):
        yield [pieces[at : at + size] for at in range(0, len(pieces), size)]
    rng = random.Random(len(pieces))
    for _ in range(RANDOM_PARTITIONS):
        cuts = sorted(rng.randrange(len(pieces) + 1) for _ in range(rng.randrange(12)))
        yield [pieces[a:b] for a, b in zip([0, *cuts], [*cuts, len(pieces)], strict=True)]


def _prefixes(
    parser: Parser, pieces: Sequence[Piece], whole: Message, kwargs: Mapping[str, Any], syntax: frozenset[str]
) -> None:
    state = parser.start((), kwargs)
    streamed: list[Delta] = []
    text = ""
    for piece in [*pieces, None]:
        data = parser.dump(state)
        assert len(data) <= STATE_LIMIT, f"{len(data)} bytes of state after {text!r}"
        calls = fold(streamed).calls
        for (name, arguments, native, _), (full_name, full, full_native, _) in zip(calls, whole.calls, strict=False):
            assert (name, native) == (full_name, full_native), text
            assert full.startswith(arguments), (text, arguments, full)
        assert len(calls) <= len(whole.calls), text
        cut = fold([*streamed, *parser.finish(parser.load(data))])
        assert [call[0] for call in cut.calls] == [call[0] for call in whole.calls[: len(cut.calls)]], text
        lost = lost_words(text, cut, syntax)
        assert not lost, (lost, text, cut)
        if piece is not None:
            text += piece[1]
            streamed += parser.feed(state, [piece])


def lost_words(text: str, message: Message, syntax: frozenset[str]) -> list[str]:
    """Words of an output that its message has nowhere, those of the format's own syntax aside."""
    calls = " ".join(f"{name} {arguments} {native or ''}" for name, arguments, native, _ in message.calls)
    found = f"{message.content} {message.reasoning} {calls}"
    longest = sorted(syntax, key=len, reverse=True)
    whole = max((len(literal) for literal in longest if text.endswith(literal)), default=1)
    halves = (size for literal in longest for size in range(whole + 1, len(literal)) if text.endswith(literal[:size]))
    text = text[: len(text) - max(halves, default=0)]
    for literal in longest:
        text = text.replace(literal, " ")
    words = [word for word in WORD.findall(text) if word not in found]
    # literals that overlap leave parts of each other behind
    return [word for word in words if not any(word in literal for literal in syntax)]


def syntax_words(literals: Sequence[str], tool: ToolFormat | None) -> frozenset[str]:
    """What of an output belongs to the format's own syntax: literals and keys."""
    keys = {"name", "arguments", "parameters", "true", "false", "null", "True", "False", "None", "type", "index"}
    for section in tool.sections if tool else ():
        for names in (getattr(section.body, field, ()) for field in ("name", "arguments", "ids")):
            keys.update(names if isinstance(names, tuple) else ())
    keys.update(
        ("assistant", "analysis", "commentary", "final", "functions", "string", "number", "json", "tool_call_id")
    )
    fixed = [
        part for literal in literals for parts in literal.replace("}", "{").split("{")[::2] for part in parts.split()
    ]
    marks = [found[0] for literal in literals for found in MARKER_TEXT.finditer(literal)]
    return frozenset({*fixed, *marks, *keys})
