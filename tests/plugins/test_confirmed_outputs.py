"""Outputs of many families, written for these tests and read alike by vLLM 0.33's own parsers (``confirmed.jsonl``).

Each line holds the format names, the text, the template kwargs and the message. All have the same two tools, whose
schema has one argument of every type.
"""

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from app.parsing.binding import reasoning_literals, tool_literals
from app.parsing.compose import make_parser
from app.parsing.conformance import message_of
from app.parsing.sample_tokenizer import MARKER_TEXT, SampleTokenizer

LINES = [json.loads(line) for line in (Path(__file__).parent / "confirmed.jsonl").read_text("utf-8").splitlines()]
FORMATS = {point.name: point for point in entry_points(group="isthmus.formats") if point.dist.name == "isthmus"}
PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "n": {"type": "integer"},
        "ok": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "o": {"type": "object", "properties": {"k": {"type": "number"}, "z": {"type": "string"}}},
        "any": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
}
TOOLS = [{"type": "function", "function": {"name": n, "parameters": PARAMETERS}} for n in ("get_weather", "now")]


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line['tool']}-{line['reasoning']}")
def test_reads_what_the_peer_reads(line: dict[str, Any]) -> None:
    tool = FORMATS[f"tool.{line['tool']}"].load() if line["tool"] else None
    reasoning = FORMATS[f"reasoning.{line['reasoning']}"].load() if line["reasoning"] else None
    literals = [*(tool_literals(tool) if tool else ()), *reasoning_literals(reasoning)]
    markers = [found[0] for literal in literals for found in MARKER_TEXT.finditer(literal)]
    parser = make_parser(tool, reasoning, tokenizer := SampleTokenizer(markers), tools=TOOLS if tool else ())
    pieces = tokenizer.pieces(line["text"])
    for size in (len(pieces), 1, 3):
        chunks = [pieces[at : at + size] for at in range(0, len(pieces), size)]
        message = message_of(parser, chunks, line["kwargs"])
        assert (message.content.strip(), message.reasoning.strip()) == (line["content"], line["thought"])
        calls = [[name, json.loads(arguments)] for name, arguments, _, _ in message.calls]
        assert calls == [[name, json.loads(arguments)] for name, arguments in line["calls"]]
        assert all(complete for _, _, _, complete in message.calls)
