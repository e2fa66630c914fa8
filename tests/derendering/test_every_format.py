"""Laws 1 to 4 through derender calls, over every registered format: its samples, and what hypothesis makes of them."""

import json
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.parsing.binding import reasoning_literals, tool_literals
from app.parsing.conformance import Message, lost_words, syntax_words
from app.parsing.format import ReasoningFormat, Sample, ToolFormat
from app.parsing.sample_tokenizer import MARKER_TEXT
from tests.derendering.served import SmallModel, chat, chat_stream, cut, folded, message
from tests.derendering.tokenizers_at_hand import byte_level, with_markers

POINTS = {point.name: point for point in entry_points(group="isthmus.formats") if point.dist.name == "isthmus"}
FORMATS = {f"{name.split('.')[0]}.{point.load().name}": point.load() for name, point in POINTS.items()}
TOOLS = [{"type": "function", "function": {"name": "any_tool", "parameters": {"type": "object"}}}]


class Served:
    """A model of one format, whose markers are tokens or (``spelled``) only text."""

    def __init__(self, format: ToolFormat | ReasoningFormat, partner: ReasoningFormat | None, spelled: bool) -> None:
        tool, reasoning = (format, partner) if isinstance(format, ToolFormat) else (None, format)
        literals = [*(tool_literals(tool) if tool else ()), *reasoning_literals(reasoning)]
        markers = sorted({found[0] for literal in literals for found in MARKER_TEXT.finditer(literal)})
        self.tokenizer = byte_level() if spelled else with_markers(markers)
        self.model = SmallModel(self.tokenizer, tool, reasoning)
        self.model.eos_token_ids = (self.tokenizer.eos_token_id,)
        self.syntax = syntax_words(literals, tool)
        self.tools = TOOLS if tool else None

    def body(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        request = {"messages": [{"role": "user", "content": "hi"}], "chat_template_kwargs": kwargs}
        if self.tools:
            request["tools"] = self.tools
        return {"chat_request": request, "prompt_token_ids": [self.tokenizer.token_to_id("<|other|>")]}

    def whole(self, text: str, kwargs: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
        choice = {"index": 0, "token_ids": self.tokenizer.encode(text).ids, "finish_reason": finish}
        reply = chat(self.model, generate_response={"request_id": "r", "choices": [choice]}, **self.body(kwargs))
        return message(reply["choices"][0])

    def streamed(self, text: str, kwargs: dict[str, Any], sizes: list[int], finish: str = "stop") -> dict[str, Any]:
        parts = cut(self.tokenizer.encode(text).ids, sizes)
        chunks = [
            {
                "request_id": "r",
                "choices": [{"index": 0, "token_ids": ids, "finish_reason": finish if number == len(parts) else None}],
            }
            for number, ids in enumerate(parts, 1)
        ]
        return folded(chat_stream(self.model, chunks, **self.body(kwargs)))[0]


@cache
def served(name: str, partner: str = "", spelled: bool = False) -> Served:
    return Served(FORMATS[name], FORMATS[f"reasoning.{partner}"] if partner else None, spelled)


def lost(one: Served, text: str, found: dict[str, Any]) -> list[str]:
    calls = [(name, arguments, call_id, None) for call_id, name, arguments in found["calls"].values()]
    return lost_words(text, Message(found["content"], found["reasoning"], calls), one.syntax)


SAMPLES = [(name, sample) for name, format in sorted(FORMATS.items()) for sample in format.samples]


@pytest.mark.parametrize(("name", "sample"), SAMPLES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(SAMPLES)])
def test_a_sample_is_what_it_says_whole_and_in_any_pieces(name: str, sample: Sample) -> None:
    one = served(name, sample.reasoning_format)
    whole = one.whole(sample.text, sample.template_kwargs)
    assert (whole["content"].strip(), whole["reasoning"].strip()) == (sample.content, sample.reasoning)
    assert [(called, arguments) for _, called, arguments in whole["calls"].values()] == list(sample.calls)
    if sample.complete:
        assert all(isinstance(json.loads(arguments), dict) for _, _, arguments in whole["calls"].values())
    length = len(one.tokenizer.encode(sample.text).ids)
    for size in (1, 2, 3, 7):
        assert one.streamed(sample.text, sample.template_kwargs, [size] * (length // size)) == whole


@settings(max_examples=150)
@given(st.data())
def test_nothing_is_lost_wherever_an_output_is_cut(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FORMATS)))
    format = FORMATS[name]
    sample = data.draw(st.sampled_from([s for s in format.samples if not s.template_kwargs] or [format.samples[0]]))
    one = served(name, sample.reasoning_format, data.draw(st.booleans()))
    before, after = (data.draw(st.sampled_from(["", "earlier words ", "\n", "{[(", "🙂 "])) for _ in range(2))
    text = before + sample.text + after
    text = text[: data.draw(st.integers(0, len(text)))] if data.draw(st.booleans()) else text
    finish = data.draw(st.sampled_from(["stop", "length"]))
    whole = one.whole(text or "x", sample.template_kwargs, finish)
    assert not lost(one, text, whole)
    sizes = data.draw(st.lists(st.integers(0, 9), max_size=12))
    assert one.streamed(text or "x", sample.template_kwargs, sizes, finish) == whole
