"""Recorded model outputs through chat derender, whole and in chunks of every size, in this process.

What ``shared/parity/check_derender.py`` demands over HTTP: the whole reply is the wanted one, and each cut gives the
whole's very message, one stable id a call, and the same answer to a chunk that is sent twice.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.derendering.stream_state import StateSeal
from app.dialects.chat.derender import derender
from app.models import ServedModel
from app.protocol.derender import ChatDerenderRequest
from tests.models import SHARED

FILES = sorted((SHARED / "parity" / "derender").glob("*.jsonl")) if (SHARED / "parity").is_dir() else []
SEAL = StateSeal("parity")
DECODER = msgspec.json.Decoder(ChatDerenderRequest)

pytestmark = [pytest.mark.shared, pytest.mark.skipif(not FILES, reason="no shared folder")]


def rows(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        if "token_ids" in row:
            yield row


def post(model: ServedModel, body: dict[str, Any]) -> Any:
    request = DECODER.decode(msgspec.json.encode(body))
    return msgspec.json.decode(msgspec.json.encode(derender(request, model, SEAL, now=1)))


def value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def whole_of(model: ServedModel, row: dict[str, Any], common: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "token_ids": row["token_ids"], "finish_reason": row["finish_reason"]}
    response = {"request_id": "chatcmpl-x", "choices": [choice]}
    got = post(model, {**common, "generate_response": response})["choices"][0]
    message = got["message"]
    return {
        "content": message["content"] or "",
        "reasoning": message["reasoning"] or "",
        "tool_calls": [
            [c["function"]["name"], value(c["function"]["arguments"])] for c in message.get("tool_calls") or ()
        ],
        "finish_reason": got["finish_reason"],
    }


def cut_of(model: ServedModel, row: dict[str, Any], common: dict[str, Any], size: int) -> dict[str, Any]:
    ids, state, finish = row["token_ids"], None, None
    text = {"content": "", "reasoning": ""}
    calls: dict[int, list[Any]] = {}
    for number, at in enumerate(range(0, len(ids), size)):
        last = at + size >= len(ids)
        choice = {"index": 0, "token_ids": ids[at : at + size], "finish_reason": row["finish_reason"] if last else None}
        body = {**common, "stream": True, "generate_chunk": {"request_id": "chatcmpl-x", "choices": [choice]}}
        if number:
            del body["prompt_token_ids"]
        answer = post(model, {**body, "stream_state": state})
        if number % 7 == 3:
            assert post(model, {**body, "stream_state": state}) == answer
        state = answer["stream_state"]
        for got in answer["chunk"]["choices"]:
            delta = got["delta"]
            for key in text:
                text[key] += delta[key] or ""
            for call in delta.get("tool_calls") or ():
                if "id" in call:
                    assert call["index"] not in calls
                    calls[call["index"]] = [call["function"]["name"], ""]
                calls[call["index"]][1] += call["function"].get("arguments") or ""
            finish = got["finish_reason"] or finish
    made = [[name, value(arguments)] for _, (name, arguments) in sorted(calls.items())]
    return {**text, "tool_calls": made, "finish_reason": finish}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recorded_outputs(file: Path, served_model: Any) -> None:
    wrong = []
    for row in rows(file):
        fields = {"tool_format": row["tool_parser"] or "none", "reasoning_format": row["reasoning_parser"] or "none"}
        model = served_model(row["model"], **fields)
        common = {"model": file.stem, "prompt_token_ids": row["prompt_token_ids"], "chat_request": row["request"]}
        whole = whole_of(model, row, common)
        if want := row.get("want"):
            calls = [[name, value(arguments)] for name, arguments in want["tool_calls"]]
            wanted = {
                "content": (want["content"] or "").strip(),
                "reasoning": (want["reasoning"] or "").strip(),
                "tool_calls": calls,
                "finish_reason": want["finish_reason"],
            }
            got = {**whole, "content": whole["content"].strip(), "reasoning": whole["reasoning"].strip()}
            if got != wanted:
                wrong.append(f"{row['id']} whole: want {wanted} got {got}")
        for size in (1, 2, 3, 5, 1000):
            cut = cut_of(model, row, common, size)
            if cut != whole:
                wrong.append(f"{row['id']} by {size}: want {whole} got {cut}")
    assert not wrong, f"{len(wrong)} wrong\n" + "\n".join(wrong[:10])
