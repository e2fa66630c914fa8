"""A real vLLM as the worker: our greedy chats equal its own, streamed and whole.

Needs ``PEERS=<dir>`` (an installation by shared/peers/setup.sh), or ``VLLM_URL`` and ``VLLM_MODEL``, a running
engine that serves that directory as ``smollm2``.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engines.processes import free_port, isthmus, server
from tests.engines.weights import demo_directory

PEERS = os.environ.get("PEERS", "")
SHARED = Path(os.environ.get("ISTHMUS_SHARED", Path(__file__).parents[3] / "shared"))
RUN = SHARED / "peers" / "run.sh"
RUNNING = os.environ.get("VLLM_URL", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (RUNNING or (PEERS and RUN.is_file())), reason="PEERS is not set"),
]


@contextmanager
def engine(folder: Path) -> Iterator[tuple[str, Path]]:
    """A vLLM engine's URL, and the directory of its model."""
    if RUNNING:
        yield RUNNING, Path(os.environ["VLLM_MODEL"])
        return
    model = folder / "smollm2"
    model.mkdir()
    demo_directory(model)
    port = free_port()
    command = [str(RUN), PEERS, "engine", str(model), str(port)]
    with server(command, port, folder / "vllm.log", ready="/health", wait_s=900) as worker:
        yield worker, model


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("vllm")
    with engine(folder) as (worker, model):
        config = f"""
database_url = ""
[[models]]
name = "smollm2"
source = {json.dumps(str(model))}
engine = "pool"
max_model_len = 2048
[[engines]]
name = "pool"
kind = "vllm"
urls = ["{worker}"]
"""
        with isthmus(config, folder, "front") as front:
            yield worker, front


QUESTIONS: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "What is the capital of France?"}]},
    {"messages": [{"role": "user", "content": "Name three colours."}], "repetition_penalty": 1.2},
    {"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Why is the sky blue?"}],
     "stop": ["."]},
    {"messages": [{"role": "user", "content": "Say hello in Spanish."}], "logprobs": True, "top_logprobs": 2},
    {"messages": [{"role": "user", "content": "Count to five."}], "max_tokens": 1},
]  # fmt: skip


def ask(url: str, body: dict[str, Any]) -> dict[str, Any]:
    body = {"model": "smollm2", "temperature": 0, "max_tokens": 24, **body}
    reply = httpx.post(url + "/v1/chat/completions", json=body, timeout=120, trust_env=False)
    assert reply.status_code == 200, reply.text
    choice: dict[str, Any] = reply.json()["choices"][0]
    return choice


def ask_streamed(url: str, body: dict[str, Any]) -> tuple[str, str | None]:
    body = {"model": "smollm2", "temperature": 0, "max_tokens": 24, **body, "stream": True}
    reply = httpx.post(url + "/v1/chat/completions", json=body, timeout=120, trust_env=False)
    chunks = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
    choices = [c for chunk in chunks for c in chunk["choices"]]
    reasons = [c["finish_reason"] for c in choices if c["finish_reason"]]
    return "".join(c["delta"].get("content") or "" for c in choices), reasons[-1]


@pytest.mark.parametrize("body", QUESTIONS)
def test_chats_equal_vllms_own(pair: tuple[str, str], body: dict[str, Any]) -> None:
    theirs, ours = (ask(url, body) for url in pair)
    assert ours["message"]["content"] == theirs["message"]["content"]
    assert ours["finish_reason"] == theirs["finish_reason"]
    left, right = (((choice.get("logprobs") or {}).get("content") or []) for choice in (theirs, ours))
    # Where a character is of several tokens, the two differ in which of them shows it.
    assert "".join(entry["token"] for entry in left) == "".join(entry["token"] for entry in right)
    for one, other in zip(left, right, strict=True):
        assert abs(one["logprob"] - other["logprob"]) < 0.01
    streamed = ask_streamed(pair[1], body)
    assert streamed == (theirs["message"]["content"], theirs["finish_reason"]) == ask_streamed(pair[0], body)


def test_generate_through_us_is_generate_itself(pair: tuple[str, str]) -> None:
    body = {
        "token_ids": [1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198],
        "sampling_params": {"temperature": 0, "max_tokens": 12, "logprobs": 1, "stop_token_ids": [30]},
    }
    theirs, ours = (
        httpx.post(url + "/inference/v1/generate", json=body, timeout=120, trust_env=False).json() for url in pair
    )
    left, right = theirs["choices"][0], ours["choices"][0]
    for key in ("token_ids", "finish_reason", "stop_reason"):
        assert left[key] == right[key]
    assert theirs["usage"]["total_tokens"] == ours["usage"]["total_tokens"]
