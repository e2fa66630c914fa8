"""Law 5, its text: every model's template writes what transformers' own ``render_jinja_template`` writes."""

from pathlib import Path
from typing import Any

import pytest

from app.errors import InvalidRequest
from app.models.templates import read_templates
from app.rendering.budget import Budget
from app.rendering.template import ChatTemplate, clock
from app.rendering.templates import special_tokens
from app.tokenizing.files import read_json

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather – jetzt.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Ö"}}}
CONVERSATIONS: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "Hi  there\n"}], "add_generation_prompt": True},
    {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": " a "}], "enable_thinking": False},
    {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "<think>\nr\n</think>\n\nb", "reasoning_content": "r"},
            {"role": "user", "content": "c"},
        ],
        "tools": TOOLS,
        "add_generation_prompt": True,
    },
    {
        "messages": [
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "content": "4°", "tool_call_id": "abcdefghi", "name": "get_weather"},
        ],
        "tools": TOOLS,
        "add_generation_prompt": True,
    },
    {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}],
        "documents": [{"title": "t", "text": "d"}],
        "reasoning_effort": "high",
    },
    {"messages": [{"role": "assistant", "content": "first"}, {"role": "wizard", "content": "x"}]},
]


def test_a_template_writes_what_transformers_writes(any_model_dir: Path) -> None:
    oracle = pytest.importorskip("transformers.utils.chat_template_utils")
    config = read_json(any_model_dir / "tokenizer_config.json") or {}
    sources = read_templates(any_model_dir, config)
    if not sources:
        pytest.skip("no template")
    special = special_tokens(config, read_json(any_model_dir / "special_tokens_map.json") or {})
    compared = 0
    for source in sources.values():
        template = ChatTemplate(source, now=clock(""))
        for values in CONVERSATIONS:
            values = {"tools": None, "documents": None, "add_generation_prompt": False, **special, **values}
            try:
                expected = oracle._compile_jinja_template(source).render(**values)
            except Exception:
                expected = None
            try:
                ours = template.render(values, Budget(seconds=30))
            except InvalidRequest:
                ours = None
            assert ours == expected
            compared += expected is not None
    assert compared
