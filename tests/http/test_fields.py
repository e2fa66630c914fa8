"""Wrong values of every kind in every field of every body: no 500, what openapi.json says, ``param`` right."""

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from litestar.testing import TestClient

from app.http.errors import family
from tests.engines.scripted import Script, ScriptedEngine
from tests.fuzz.fields import BODIES, NO_JSON, VALUES, Mutant, mutants, named
from tests.http.conftest import serving
from tests.http.test_errors import check

ROOT = Path(__file__).parents[2]
SEED, EACH = 20261129, 60
"""A run's mutants are the same each time; so many of each body are tried (all at once are 160,000)."""
HEADERS = {"Content-Type": "application/json"}
OTHERS = {
    "tool_choice": {"tools"},  # which tools there are decides whether the choice is right
    "tools": {"tool_choice"},
    "input": {"previous_response_id"},
    "messages": {"prompt"},  # tokenize takes one of the two
    "stream": {"generate_chunk", "generate_response", "generate_responses"},
}
"""Fields that another one's value may be refused for."""


@pytest.fixture(scope="module")
def busy(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient[Any]]:
    """A server with everything: formats, an engine that says a word, a store."""
    served = f'[{{"name": "m", "source": "{model_folder}", "tokenizer": "hf", "tool_format": "hermes",'
    store = tmp_path_factory.mktemp("store") / "store.db"
    settings = {
        "ISTHMUS_MODELS": f'{served} "reasoning_format": "qwen3"}}]',
        "ISTHMUS_DATABASE_URL": f"sqlite+aiosqlite:///{store}",
    }
    with serving(model_folder, settings) as client:
        service = client.app.dependencies["service"].dependency()
        model = service.models.get("m")
        model.engine = ScriptedEngine(Script(model.tokenizer.encode("hm</think>ok").ids))
        yield client


def takes(client: TestClient[Any], path: str) -> Any:
    """The struct that a route reads its body as."""
    for route in client.app.routes:
        if route.path_format == path:
            return route.route_handler_map["POST"][0].parsed_fn_signature.parameters["data"].annotation
    raise LookupError(path)


@cache
def described(path: str, status: int) -> jsonschema.Draft202012Validator:
    """What openapi.json says of an answer."""
    document = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))
    schema = document["paths"][path]["post"]["responses"][str(status)]["content"]["application/json"]["schema"]
    return jsonschema.Draft202012Validator({**schema, "components": document["components"]})


def address(client: TestClient[Any], path: str) -> str:
    if "{conversation_id}" not in path:
        return path
    created = client.post("/v1/conversations", json={})
    return path.replace("{conversation_id}", created.json()["id"])


def judge(path: str, mutant: Mutant, reply: Any) -> None:
    """What any answer must be."""
    said = (path, mutant.place, mutant.value[:60], reply.status_code, reply.text[:400])
    if reply.headers["content-type"].startswith("application/json"):
        for fault in described(path, reply.status_code).iter_errors(reply.json()):
            pytest.fail(f"{fault.json_path}: {fault.message[:200]}; not as openapi.json has it: {said}")
    if reply.status_code == 200:
        return
    assert reply.status_code in (400, 404, 422), said
    fault = check(reply, reply.status_code, family(path))
    assert len(reply.content) < 10_000, said
    if mutant.value in NO_JSON or family(path) == "anthropic":
        return
    field = named(fault["param"])
    bare = mutant.place[:2] == ("sampling_params", field)  # generate names them as vLLM does
    assert field == mutant.field or bare or field in OTHERS.get(mutant.field, ()), said


@pytest.mark.parametrize("path", BODIES)
def test_any_value_in_any_field(busy: TestClient[Any], path: str) -> None:
    url, struct = address(busy, path), takes(busy, path)
    for body in BODIES[path]:
        taken = busy.post(url, json=body)
        assert taken.status_code == 200, taken.text
        judge(path, Mutant("", (), ""), taken)
        chosen = random.Random(SEED)
        found = [*mutants(body, struct), *mutants(body, struct, NO_JSON)]
        for mutant in chosen.sample(found, min(EACH, len(found))):
            judge(path, mutant, busy.post(url, content=mutant.text.encode("utf-8", "surrogatepass"), headers=HEADERS))


def test_the_values_are_json_and_are_not() -> None:
    for value in VALUES:
        if value != "1e999":
            msgspec.json.decode(value)
    for value in NO_JSON:
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(value)


def test_a_conversation_at_fault_is_named_as_the_request_has_it(busy: TestClient[Any]) -> None:
    absent = busy.post("/v1/responses", json={"input": "Hi", "conversation": "conv_none"})
    assert (absent.status_code, absent.json()["error"]["param"]) == (404, "conversation")
    items = [{"type": "item_reference", "id": "msg_of_another"}]
    kept = busy.post("/v1/conversations", json={"items": items}).json()["id"]
    reply = busy.post("/v1/responses", json={"input": "Hi", "conversation": kept})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "conversation")
