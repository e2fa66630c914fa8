"""Chat requests of the three sizes that the design names, each with a last message of its own.

Everything but the last message repeats, as it does in an agent's requests: instructions, tools and history are the
same from turn to turn, and what is new is short.
"""

import json
from typing import Any

__all__ = ("SIZES", "bodies")

WORDS = [
    "the",
    "reactor",
    "vessel",
    "was",
    "inspected",
    "on",
    "a",
    "cold",
    "morning",
    "and",
    "every",
    "reading",
    "was",
    "copied",
    "into",
    "the",
    "ledger",
    "by",
    "hand",
    "before",
    "the",
    "second",
    "shift",
    "arrived",
    "with",
    "fresh",
    "instruments",
    "and",
    "a",
    "list",
    "of",
    "questions",
    "about",
    "pressure",
    "valves",
    "coolant",
    "flow",
    "and",
    "the",
    "schedule",
    "of",
    "repairs",
    "that",
    "had",
    "been",
    "promised",
    "for",
    "the",
    "end",
    "of",
    "the",
    "quarter",
    "but",
    "never",
    "written",
    "down",
    "anywhere",
]
SIZES = {"25 tokens": 1, "4.1k tokens, 12 tools": 2, "27k tokens, 80 turns": 3}
"""Names of the sizes; the numbers are of Qwen3's tokens."""


def bodies(model: str, size: str, count: int) -> list[bytes]:
    """``count`` request bodies of one size."""
    return [json.dumps(_request(model, size, number)).encode() for number in range(count)]


def _request(model: str, size: str, number: int) -> dict[str, Any]:
    question = {"role": "user", "content": f"What is the capital of country number {number}? Answer in one word."}
    request: dict[str, Any] = {"model": model, "max_tokens": 64, "temperature": 0.0}
    if size == "25 tokens":
        return request | {"messages": [question]}
    if size == "4.1k tokens, 12 tools":
        system = {"role": "system", "content": _text(0, 1560)}
        return request | {"messages": [system, question], "tools": [_tool(index) for index in range(12)]}
    history = []
    for turn in range(40):
        history.append({"role": "user", "content": _text(turn * 7, 280)})
        history.append({"role": "assistant", "content": _text(turn * 11, 350)})
    return request | {"messages": [*history, question]}


def _text(start: int, words: int) -> str:
    picked = [WORDS[(start + index * (1 + index // len(WORDS))) % len(WORDS)] for index in range(words)]
    return ". ".join(" ".join(picked[at : at + 14]).capitalize() for at in range(0, words, 14)) + "."


def _tool(index: int) -> dict[str, Any]:
    name = f"{WORDS[index * 3 % len(WORDS)]}_{WORDS[index * 5 % len(WORDS)]}_{index}"
    properties = {
        f"{WORDS[(index + field) % len(WORDS)]}_{field}": {"type": kind, "description": _text(index + field, 18)}
        for field, kind in enumerate(("string", "integer", "boolean", "string"))
    }
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:2]}
    return {"type": "function", "function": {"name": name, "description": _text(index, 30), "parameters": parameters}}
