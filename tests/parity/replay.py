"""Recorded render rows to what our readers and renderers answer, in this process, judged by the kit's own script."""

import asyncio
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from app.dialects import tokenize
from app.dialects.chat.read import read as read_chat
from app.dialects.completions.read import read as read_completions
from app.dialects.messages.read import read as read_messages
from app.dialects.responses.read import read as read_responses
from app.errors import BadMedia, InvalidRequest
from app.models import ServedModel
from app.protocol.chat import ChatRequest
from app.protocol.completions import CompletionsRequest
from app.protocol.messages import MessagesRequest
from app.protocol.responses import ResponsesRequest
from app.protocol.tokenize import DetokenizeRequest, TokenizeRequest
from app.rendering.request import RenderInput
from app.rendering.tokenization import detokenize, token_strings, tokenize_conversation, tokenize_text

READERS: dict[str, tuple[type[msgspec.Struct], Any]] = {
    "/v1/chat/completions/render": (ChatRequest, read_chat),
    "/v1/completions/render": (CompletionsRequest, read_completions),
    "/v1/responses/render": (ResponsesRequest, read_responses),
    "/v1/messages/render": (MessagesRequest, read_messages),
}


def kit(shared: Path) -> ModuleType:
    """``check_render.py`` of the shared folder, whose ``differences`` is the judge."""
    spec = importlib.util.spec_from_file_location("check_render", shared / "parity" / "check_render.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def disagreements(path: Path, model: ServedModel, judge: ModuleType, *, structural: bool = False) -> Iterator[str]:
    """What our answers to a file's rows have wrong, a line a row."""
    for row in rows(path):
        want, status = row.get("want", row["reply"]), row.get("want_status", row["status"])
        got_status, got = asyncio.run(answer(model, row["path"], json.dumps(row["body"]).encode()))
        if status != got_status:
            yield f"{row['id']}: wanted {status}, got {got_status} {str(got)[:200]}"
        elif status == 200:
            why = judge.differences({} if row.get("status_only") else want, got)
            # What was recorded as a refusal that isn't right has no tag to compare with.
            told = structural and row["status"] == 200
            if told and judge.structural(want) != judge.structural(got):
                why.append(f"structural tag: want {judge.structural(want)} got {judge.structural(got)}"[:600])
            if why:
                yield f"{row['id']}: " + "; ".join(why[:4])[:400]


async def answer(model: ServedModel, path: str, body: bytes) -> tuple[int, Any]:
    """Status and decoded body; of a refusal, its ``(param, message)``."""
    try:
        return 200, json.loads(msgspec.json.encode(await render(model, path, body)))
    except msgspec.DecodeError as error:
        return 400, (None, str(error))
    except (InvalidRequest, BadMedia) as error:
        return 422 if isinstance(error, BadMedia) else 400, (error.param, error.message)


async def render(model: ServedModel, path: str, body: bytes) -> Any:
    renderer = model.renderer
    if path == "/detokenize":
        return {"prompt": detokenize(renderer, msgspec.json.decode(body, type=DetokenizeRequest).tokens)}
    if path == "/tokenize":
        asked = msgspec.json.decode(body, type=TokenizeRequest)
        given = tokenize.read(asked)
        if given.conversation is not None:
            ids = await tokenize_conversation(renderer, given.conversation, given.template)
        else:
            special = given.template.add_special_tokens
            ids = await tokenize_text(renderer, given.text or "", add_special_tokens=special)
        names = token_strings(renderer, ids) if asked.return_token_strs else None
        return {"count": len(ids), "max_model_len": model.max_model_len, "tokens": ids, "token_strs": names}
    shape, read = READERS[path]
    given = read(msgspec.json.decode(body, type=shape), model=model)
    if isinstance(given, RenderInput):
        return await renderer.render(given)
    return [await renderer.render(item) for item in given]
