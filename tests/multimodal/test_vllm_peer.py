"""A real vLLM engine takes our rendered request for an image and answers what its own chat endpoint does.

Needs ``PEERS=<dir>`` (an installation by shared/peers/setup.sh), or ``VLLM_VL_URL`` and ``VLLM_VL_MODEL``, a running
engine that serves that directory.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.engines.processes import free_port, isthmus, server
from tests.engines.test_vllm_peer import PEERS, RUN
from tests.multimodal.pictures import chat, data_url, encoded, image_part, picture_url
from tests.multimodal.weights import tiny_vision_directory

RUNNING = os.environ.get("VLLM_VL_URL", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (RUNNING or (PEERS and RUN.is_file())), reason="PEERS is not set"),
]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The engine's URL and its model's directory."""
    if RUNNING:
        yield RUNNING, Path(os.environ["VLLM_VL_MODEL"])
        return
    folder = tmp_path_factory.mktemp("vllm")
    (folder / "vl").mkdir()
    model = tiny_vision_directory(folder / "vl", head=32)
    port = free_port()
    command = [str(RUN), PEERS, "engine", str(model), str(port)]
    with server(command, port, folder / "vllm.log", ready="/health", wait_s=900) as url:
        yield url, model


@pytest.fixture(scope="module")
def front(worker: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    url, model = worker
    config = f"""
database_url = ""
[[models]]
name = "vl"
source = {json.dumps(str(model))}
tokenizer = "hf"
max_model_len = 2048
engine = "pool"
[[engines]]
name = "pool"
kind = "vllm"
urls = ["{url}"]
"""
    with isthmus(config, tmp_path_factory.mktemp("front"), "front") as found:
        yield found


def post(url: str, path: str, body: Any) -> Any:
    reply = httpx.post(url + path, json=body, timeout=120, trust_env=False)
    assert reply.status_code == 200, reply.text
    return reply.json()


# Sizes that need no resizing, or pictures that resize exactly: vLLM resizes by torchvision, whose rounding differs.
REQUESTS = [
    chat(image_part(picture_url(84, 56)), "What is it?"),
    chat("Which? ", image_part(picture_url(112, 84, 1)), " or ", image_part(picture_url(56, 140, 2)), "?"),
    chat(image_part(data_url(encoded(Image.new("RGB", (100, 61), "teal")))), "What colour?"),
    chat("No picture."),
]


@pytest.mark.parametrize("body", REQUESTS, ids=["one", "two", "resized", "none"])
def test_the_engine_answers_as_its_own_chat_does(worker: tuple[str, Path], front: str, body: dict[str, Any]) -> None:
    body = {**body, "temperature": 0, "max_tokens": 12, "ignore_eos": True, "return_token_ids": True}
    own = post(worker[0], "/v1/chat/completions", body)
    rendered = post(front, "/v1/chat/completions/render", body)
    assert rendered["token_ids"] == own["prompt_token_ids"]
    direct = post(worker[0], "/inference/v1/generate", {**rendered, "model": None})
    assert direct["choices"][0]["token_ids"] == own["choices"][0]["token_ids"]
    through = post(front, "/v1/chat/completions", body)
    assert through["choices"][0]["token_ids"] == own["choices"][0]["token_ids"]
