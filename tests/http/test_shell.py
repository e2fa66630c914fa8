"""Request ids, health, metrics without prompts, the docs page, and the short ways beside Litestar's own."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from app.asgi import create_app

ROOT = Path(__file__).parents[2]
CHAT = {"model": "m", "messages": [{"role": "user", "content": "an unmistakable prompt"}]}


def test_health_and_readiness(client: TestClient[Any]) -> None:
    assert client.get("/health").content == client.post("/ping").content == b""
    assert client.get("/ready").json() == {"ready": True, "models": ["m"]}
    version = client.get("/version").json()
    assert version["version"] and {line["group"] for line in version["plugins"]} >= {"isthmus.engines"}


def test_models(client: TestClient[Any]) -> None:
    (card,) = client.get("/v1/models").json()["data"]
    assert card["id"] == "m" and card["object"] == "model" and card["max_model_len"] > 0
    assert client.get("/v1/models/m").json() == card
    assert client.get("/v1/models/org/absent").status_code == 404


def test_request_ids(client: TestClient[Any]) -> None:
    reply = client.post("/v1/chat/completions/render", json=CHAT, headers={"X-Request-Id": "mine"})
    assert reply.headers["x-request-id"] == "mine"
    assert reply.json()["request_id"] == "chatcmpl-mine"
    reply = client.post("/v1/chat/completions/render", json=CHAT | {"request_id": "body"})
    assert reply.json()["request_id"] == "chatcmpl-body"
    first, second = (client.post("/tokenize", json={"prompt": "x"}).headers["x-request-id"] for _ in range(2))
    assert re.fullmatch("[0-9a-f]{32}", first) and first != second
    long = client.post("/tokenize", json={"prompt": "x"}, headers={"X-Request-Id": "x" * 257}).headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{32}", long)
    failed = client.post("/v1/messages/count_tokens", json={}, headers={"X-Request-Id": "mine"})
    assert failed.headers["x-request-id"] == failed.json()["request_id"] == "mine"


def test_metrics_count_and_hold_no_prompt(client: TestClient[Any]) -> None:
    client.post("/v1/chat/completions/render", json=CHAT)
    client.post("/v1/chat/completions/render", json=CHAT | {"model": "a-name-of-no-model"})
    text = client.get("/metrics").text
    line = 'isthmus_requests_total{method="POST",model="m",route="/v1/chat/completions/render",status="200"}'
    assert line in text
    assert 'isthmus_request_seconds_bucket{le="+Inf",method="POST",model="m"' in text
    assert re.search(r'isthmus_prompt_tokens_total\{model="m",route="/v1/chat/completions/render"\} [1-9]', text)
    assert "isthmus_requests_in_work" in text
    assert "unmistakable" not in text and "a-name-of-no-model" not in text


def test_labels_are_templates(client: TestClient[Any]) -> None:
    for number in range(3):
        client.get(f"/v1/models/absent-{number}")
    assert "absent-" not in client.get("/metrics").text


def test_the_short_way_and_litestars_own_answer_alike(client: TestClient[Any]) -> None:
    """The same function behind both; only ids and times may differ."""
    bodies = [CHAT, {}, {"prompt": "Hi"}, {"tokens": [1, 2]}, CHAT | {"model": "absent"}, {"messages": 3}]
    ways = dict(client.app.ways)
    for path in ways:
        for body in bodies:
            short = client.post(path, json=body, headers={"X-Request-Id": "same"})
            client.app.ways = {}
            try:
                long = client.post(path, json=body, headers={"X-Request-Id": "same"})
            finally:
                client.app.ways = ways
            assert short.status_code == long.status_code, (path, body)
            assert short.headers["content-type"] == long.headers["content-type"]
            assert _steady(short.json()) == _steady(long.json()), (path, body)


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _steady(item) for key, item in value.items() if key not in ("created", "request_id", "id")}
    return [_steady(item) for item in value] if isinstance(value, list) else value


def test_the_docs_page_names_no_other_host(client: TestClient[Any]) -> None:
    page = client.get("/docs")
    assert page.status_code == 200 and "text/html" in page.headers["content-type"]
    assert not re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", page.text)
    for asset in re.findall(r'(?:src|href)="(/docs/[^"]+)"', page.text):
        assert client.get(asset).status_code == 200


@pytest.mark.parametrize("name", ["%00", "a" * 5_000, "%2e%2e", "%2e%2e%2f%2e%2e%2fdocs.py", "absent.css", "%ff"])
def test_there_are_no_other_assets(client: TestClient[Any], name: str) -> None:
    for method in ("GET", "HEAD", "POST"):
        assert client.request(method, f"/docs/assets/{name}").status_code in (404, 405), method


def test_every_route_is_described_and_its_example_works(client: TestClient[Any]) -> None:
    document = client.get("/docs/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), (method, path)
            content = operation.get("requestBody", {}).get("content", {})
            if "application/json" not in content:
                continue
            (example,) = content["application/json"]["schema"]["examples"]
            text = json.dumps(example).replace('"demo"', '"m"')
            reply = client.post(path, content=text, headers={"Content-Type": "application/json"})
            whole = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
            without_engine = path in ("/inference/v1/generate", *whole)
            # This server has no engine and no store.
            refused = without_engine or path == "/v1/responses/compact" or path.startswith("/v1/conversations")
            assert reply.status_code in ((400, 404) if refused else (200,)), (path, reply.text)


def test_openapi_json_is_up_to_date() -> None:
    written = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(create_app().openapi_schema.to_schema())) == written, "run make openapi"


def test_creating_the_app_has_no_side_effects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ISTHMUS_CONFIG", "no-such-file.toml")
    monkeypatch.chdir(tmp_path)
    create_app()
    assert list(tmp_path.iterdir()) == []
