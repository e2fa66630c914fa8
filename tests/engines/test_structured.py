"""Structured outputs of the local engine: what each kind admits, and that none holds anything up."""

import asyncio
import contextlib
import json
import os
import signal
from typing import Any

import pytest

from app.errors import InvalidRequest
from tests.engines.served import request
from tests.engines.tiny import collect, tiny_engine

GREEDY = {"temperature": 0, "max_tokens": 12, "ignore_eos": True}
STRUCTURED: list[tuple[dict[str, Any], Any]] = [
    ({"choice": ["red", 'gr"een']}, lambda text: text in ("red", 'gr"een')),
    ({"regex": "[a-c]{3}-[0-9]{2}"}, lambda text: text[3] == "-" and text[4:].isdigit()),
    ({"grammar": 'root ::= "x" ("yes" | "no")'}, lambda text: text in ("xyes", "xno")),
    ({"json": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"],
               "additionalProperties": False}, "disable_any_whitespace": True},
     lambda text: isinstance(json.loads(text)["a"], bool)),
    ({"structural_tag": json.dumps({"type": "structural_tag", "format": {
        "type": "tag", "begin": "<f>", "content": {"type": "regex", "pattern": "[0-9]{2}"}, "end": "</f>"}})},
     lambda text: text.startswith("<f>") and text.endswith("</f>")),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "holds"), STRUCTURED)
async def test_structured_outputs(wanted: dict[str, Any], holds: Any) -> None:
    async with tiny_engine() as engine:
        sampling = {"max_tokens": 60, "temperature": 1, "seed": 4, "structured_outputs": wanted, "n": 2}
        outputs = await collect(engine, request(sampling=sampling))
    for out in outputs.values():
        assert out.finish_reason == "stop" and out.token_ids[-1] == 256
        assert holds(bytes(out.token_ids[:-1]).decode())


HOSTILE: list[dict[str, Any]] = [
    {"json": {"type": "object", "properties": {f"property {i}": {"type": "string"} for i in range(5000)}}},
    {"grammar": "root ::= " + " ".join(f'"w{i}"?' for i in range(4000))},
    {"choice": ["ab" * 60_000]},
    {"json": {"enum": [f"value {i}" for i in range(100_000)]}},
]
"""Seconds to minutes of compiling each; the last is too long to be tried."""


async def test_a_constraint_that_takes_long_to_compile_is_refused_and_holds_nothing_up() -> None:
    async with tiny_engine(grammar_timeout_s=0.3) as engine:
        bodies = [request(sampling={"structured_outputs": wanted}) for wanted in HOSTILE]
        slow = [asyncio.create_task(collect(engine, body)) for body in bodies]
        plain = request(sampling={"max_tokens": 20, "structured_outputs": {"choice": ["yes", "no"]}})
        assert bytes((await collect(engine, plain))[0].token_ids[:-1]) in (b"yes", b"no")
        assert await collect(engine, request(sampling=GREEDY))
        for wanted, error in zip(HOSTILE, await asyncio.gather(*slow, return_exceptions=True), strict=True):
            assert isinstance(error, InvalidRequest), error
            assert error.param == f"structured_outputs.{next(iter(wanted))}"
        again = request(sampling={"structured_outputs": HOSTILE[1]})
        with pytest.raises(InvalidRequest, match="seconds to compile"):
            await collect(engine, again)


async def test_the_process_that_tries_constraints_out_is_replaced_and_ends_with_the_engine() -> None:
    wanted = [request(sampling={"max_tokens": 9, "structured_outputs": {"choice": [word]}}) for word in "ab"]
    async with tiny_engine() as engine:
        assert (await collect(engine, wanted[0]))[0].token_ids == [*b"a", 256]
        trial = engine._grammars._trial
        first = trial._pid
        os.kill(first, signal.SIGKILL)
        while trial._pid == first:  # what is sent as it dies may be lost
            with contextlib.suppress(InvalidRequest):
                await collect(engine, wanted[1])
        assert (await collect(engine, wanted[1]))[0].token_ids == [*b"b", 256]
        second = trial._pid
    for pid in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_constraint_waits_for_the_end_of_reasoning() -> None:
    async with tiny_engine() as engine:
        sampling = {"max_tokens": 60, "temperature": 1, "seed": 4, "structured_outputs": {"choice": ["red"]},
                    "logit_bias": {"258": 4}}  # fmt: skip
        out = (await collect(engine, request(sampling=sampling, reasoning_ended=False)))[0]
        closed = (await collect(engine, request(sampling=sampling, reasoning_ended=True)))[0]
    assert out.token_ids[out.token_ids.index(258) + 1 :] == [*b"red", 256]
    assert closed.token_ids == [*b"red", 256]


async def test_a_thinking_budget_closes_the_reasoning() -> None:
    sampling = GREEDY | {"thinking_token_budget": 3, "logit_bias": {"258": -50}}
    async with tiny_engine() as engine:
        bounded = (await collect(engine, request(sampling=sampling, reasoning_ended=False)))[0].token_ids
        free = (await collect(engine, request(sampling=sampling)))[0].token_ids
    assert bounded.index(258) == 3 and bounded.count(258) == 1 and 258 not in free


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ({"regex": "("}, "structured_outputs.regex"),
        ({"json": "{"}, "structured_outputs.json"),
        ({"grammar": "root ::= nothing"}, "structured_outputs.grammar"),
        ({"structural_tag": "{}"}, "structured_outputs.structural_tag"),
        ({"regex": "a", "choice": ["b"]}, "structured_outputs"),
        ({}, "structured_outputs"),
        ({"json_object": True, "whitespace_pattern": " "}, "structured_outputs"),
    ],
)
async def test_a_constraint_that_cannot_be_compiled(wanted: dict[str, Any], param: str) -> None:
    async with tiny_engine() as engine:
        with pytest.raises(InvalidRequest) as error:
            await collect(engine, request(sampling={"structured_outputs": wanted}))
    assert error.value.param == param
