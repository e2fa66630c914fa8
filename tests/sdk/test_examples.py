"""Every example body of the docs page works as it stands, on a server with an engine and a store."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.asgi import create_app
from tests.models import BUILT, model_directory
from tests.sdk.live import KEY, Live, live, served


@pytest.fixture(scope="module")
def stateful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    if not BUILT:
        pytest.skip("no tokenizer data packages (make test installs them)")
    database: Path = tmp_path_factory.mktemp("examples") / "isthmus.db"
    model = served(model_directory("qwen3"), name="demo", tool_format="hermes", reasoning_format="qwen3")
    with live([model], ISTHMUS_DATABASE_URL=f"sqlite+aiosqlite:///{database}") as server:
        yield server


def examples() -> list[tuple[str, str]]:
    """Path and body of every JSON route."""
    found = []
    for path, methods in create_app().openapi_schema.to_schema()["paths"].items():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {})
            if "application/json" in content:
                (example,) = content["application/json"]["schema"]["examples"]
                found.append((path, json.dumps(example)))
    return found


@pytest.mark.parametrize(("path", "body"), [pytest.param(*one, id=one[0]) for one in examples()])
def test_the_example_works(stateful: Live, path: str, body: str) -> None:
    stateful.says("Of France?</think>Paris.<|im_end|>", name="demo")
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    with httpx.Client(base_url=stateful.url, headers=headers, timeout=60) as client:
        if "{conversation_id}" in path:
            path = path.replace("{conversation_id}", client.post("/v1/conversations", json={}).json()["id"])
        reply = client.post(path, content=body)
    assert reply.status_code == 200, (path, reply.text)
