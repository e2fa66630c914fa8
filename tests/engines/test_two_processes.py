"""Our server as front and as worker, in two processes: the front says what the worker says, streamed and whole."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engines.processes import isthmus
from tests.engines.weights import tiny_directory

PROMPT = [151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("pair")
    model = tiny_directory(folder_in(folder, "model"))
    engine = '[[engines]]\nname = "e"\nkind = "local"\nthreads = 1\n'
    served = f'[[models]]\nname = "m"\nsource = {json.dumps(str(model))}\nengine = "e"\ntool_format = "none"\n'
    head = 'database_url = ""\n'
    with isthmus(head + 'api_keys = ["worker-key"]\n' + served + engine, folder, "worker") as worker:
        pool = f'[[engines]]\nname = "e"\nkind = "vllm"\nurls = ["{worker}"]\napi_key = "worker-key"\n'
        with isthmus(head + served + pool, folder, "front") as front:
            yield worker, front


def folder_in(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def post(url: str, path: str, body: Any) -> httpx.Response:
    headers = {"Authorization": "Bearer worker-key"}
    return httpx.post(url + path, json=body, headers=headers, timeout=60, trust_env=False)


def generate(url: str, sampling: dict[str, Any], **fields: Any) -> Any:
    return post(url, "/inference/v1/generate", {"token_ids": PROMPT, "sampling_params": sampling, **fields})


def alike(left: Any, right: Any) -> bool:
    """Equal but for what float noise moves: what shares a step with a token shifts its logprob, and so its rank."""
    if isinstance(left, float) and isinstance(right, float):
        return abs(left - right) < 1e-3
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(k == "rank" or alike(v, right[k]) for k, v in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(alike, left, right))
    return bool(left == right)


SAMPLINGS: list[dict[str, Any]] = [
    {"temperature": 0, "max_tokens": 12},
    {"temperature": 0, "max_tokens": 1},
    {"temperature": 1, "seed": 7, "max_tokens": 12, "n": 2, "logprobs": 2},
    {"temperature": 0, "max_tokens": 5, "prompt_logprobs": 1},
    {"temperature": 1, "seed": 1, "max_tokens": 20, "structured_outputs": {"regex": "[ab]{3}"}},
]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_front_says_what_the_worker_says(pair: tuple[str, str], sampling: dict[str, Any]) -> None:
    replies = []
    for url in pair:
        reply = generate(url, sampling)
        assert reply.status_code == 200, reply.text
        replies.append(reply.json())
    for name in ("choices", "prompt_logprobs"):
        assert alike(replies[0][name], replies[1][name]), (replies[0][name], replies[1][name])
    events = [
        json.loads(line[6:])
        for line in generate(pair[1], sampling, stream=True).text.split("\n\n")
        if line.startswith("data: {")
    ]
    for choice in replies[0]["choices"]:
        ids = [t for e in events for c in e["choices"] if c["index"] == choice["index"] for t in c["token_ids"]]
        assert ids == choice["token_ids"]


def test_refusals_of_the_worker_reach_the_client(pair: tuple[str, str]) -> None:
    reply = generate(pair[1], {"watermarking": True, "max_tokens": 2})
    assert reply.status_code == 400 and reply.json()["error"]["param"] == "watermarking"


def test_text_and_chat_through_the_front(pair: tuple[str, str]) -> None:
    sampling = {"temperature": 0, "max_tokens": 8}
    texts = [generate(url, sampling, output_mode="text").json()["choices"][0]["text"] for url in pair]
    assert texts[0] == texts[1] and texts[0]
