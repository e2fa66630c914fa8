"""Every kind of error, on every family of paths, has the envelope of the path's own API, and none is a 500."""

import gzip
import json
from codecs import BOM_UTF8 as BOM
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from litestar.testing import TestClient

from app import errors
from app.http.errors import envelope, family, public_status, refusal

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
PATHS = {
    "/v1/chat/completions/render": "vllm",
    "/v1/completions/render": "vllm",
    "/v1/responses/render": "vllm",
    "/v1/messages/render": "vllm",
    "/v1/chat/completions/derender": "vllm",
    "/v1/messages/derender": "vllm",
    "/inference/v1/generate": "vllm",
    "/tokenize": "vllm",
    "/detokenize": "vllm",
    "/v1/chat/completions": "openai",
    "/v1/completions": "openai",
    "/v1/responses": "openai",
    "/v1/messages": "anthropic",
    "/v1/messages/count_tokens": "anthropic",
}
DEEP = b'{"messages":' + b"[" * 3000 + b"]" * 3000 + b"}"
BROKEN = {
    "broken": b'{"messages": [}',
    "truncated": b'{"model": "m", "messages": [{"role": "us',
    "deep": DEEP,
    "deep_in_a_free_field": b'{"chat_template_kwargs": {"a": ' + DEEP + b"}}",
    "latin1": '{"model": "é"}'.encode("latin-1"),
    "lone_surrogate": b'{"model": "\\ud800"}',
    "empty": b"",
    "blank": b"  \n",
    "list": b"[]",
    "word": b'"hello"',
    "nul": b"\0\0\0",
}


def check(reply: Any, status: int, of: str) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"].startswith("application/json")
    body = reply.json()
    if of == "anthropic":
        assert body["type"] == "error" and set(body) == {"type", "error", "request_id"}
        assert set(body["error"]) == {"type", "message"}
    else:
        assert set(body) == {"error"}
        assert set(body["error"]) == {"message", "type", "param", "code"}
        assert body["error"]["code"] == status if of == "vllm" else not isinstance(body["error"]["code"], int)
    assert isinstance(body["error"]["message"], str) and body["error"]["message"]
    fault: dict[str, Any] = body["error"]
    return fault


@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_json_object_is_a_400(client: TestClient[Any], path: str) -> None:
    for name, body in BROKEN.items():
        reply = client.post(path, content=body, headers={"Content-Type": "application/json"})
        fault = check(reply, 400, PATHS[path])
        assert "Traceback" not in fault["message"], name


@pytest.mark.parametrize("path", PATHS)
def test_another_content_type_is_a_415(client: TestClient[Any], path: str) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        check(client.post(path, content=b"{}", headers={"Content-Type": kind}), 415, PATHS[path])


@pytest.mark.parametrize("path", PATHS)
def test_a_compressed_body_is_refused_as_one(client: TestClient[Any], path: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    fault = check(client.post(path, content=gzip.compress(b"{}"), headers=headers), 415, PATHS[path])
    assert "ompressed" in fault["message"]


def test_a_byte_order_mark_is_passed_over(client: TestClient[Any]) -> None:
    headers = {"Content-Type": "application/json"}
    plain, marked = (
        client.post("/tokenize", content=head + b'{"prompt": "Hi"}', headers=headers) for head in (b"", BOM)
    )
    assert marked.status_code == 200 and marked.json() == plain.json()


def test_a_number_beyond_floats_is_said_to_be_one(client: TestClient[Any]) -> None:
    body = b'{"prompt": "Hi", "temperature": 1e999}'
    reply = client.post("/v1/completions/render", content=body, headers={"Content-Type": "application/json"})
    assert "number" in check(reply, 400, "vllm")["message"]


def test_json_with_parameters_is_json(client: TestClient[Any]) -> None:
    for kind in ("application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"):
        body = json.dumps({"prompt": "Hi"})
        assert client.post("/tokenize", content=body, headers={"Content-Type": kind}).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_another_method_is_a_405_that_says_which(client: TestClient[Any], path: str) -> None:
    reply = client.request("PUT", path)
    check(reply, 405, PATHS[path])
    assert "POST" in reply.headers["allow"]


@pytest.mark.parametrize(
    ("path", "of"), [("/nothing", "vllm"), ("/v1/chat/completions/nothing", "openai"), ("/v1/messages/x/y", "vllm")]
)
def test_an_unknown_path_is_a_404(client: TestClient[Any], path: str, of: str) -> None:
    check(client.get(path), 404, of)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions/render", {"model": "m"}, "messages"),
        ("/v1/chat/completions/render", {"model": "m", "messages": [{"role": 3}]}, "messages[0].role"),
        ("/v1/chat/completions/render", CHAT | {"temperature": "hot"}, "temperature"),
        ("/v1/chat/completions", CHAT | {"n": "two"}, "n"),
        ("/v1/chat/completions/render", CHAT | {"logprobs": True, "top_logprobs": 2**70}, "top_logprobs"),
        ("/v1/chat/completions/render", CHAT | {"logprobs": True, "top_logprobs": -2}, "top_logprobs"),
        ("/v1/chat/completions/render", CHAT | {"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ("/v1/chat/completions/render", CHAT | {"request_id": "x" * 257}, "request_id"),
        ("/v1/chat/completions/render", CHAT | {"logit_bias": {"1": "x"}}, "logit_bias"),
        ("/v1/responses", {"input": "Hi", "metadata": {"a": 1}}, "metadata"),
        (
            "/v1/chat/completions/derender",
            {"generate_response": {"choices": []}, "chat_request": CHAT | {"cache_salt": ""}},
            "chat_request.cache_salt",
        ),
        ("/detokenize", {"tokens": [1, "x"]}, "tokens[1]"),
        ("/inference/v1/generate", {"token_ids": [1]}, "sampling_params"),
    ],
)
def test_param_names_the_field(client: TestClient[Any], path: str, body: Any, param: str) -> None:
    fault = check(client.post(path, json=body), 400, PATHS[path])
    assert fault["param"] == param
    assert param.rpartition(".")[2] in fault["message"]


def test_what_a_caller_wrote_is_repeated_in_part_only(client: TestClient[Any]) -> None:
    for body in (
        CHAT | {"model": "x" * 100_000},
        CHAT | {"vllm_xargs": {"y" * 100_000: {}}},
        {"model": "m", "messages": [{"role": "z" * 100_000}]},
    ):
        reply = client.post("/v1/chat/completions/render", json=body)
        assert reply.status_code in (200, 400, 404) and (reply.status_code == 200 or len(reply.content) < 5_000)


def test_only_vllms_envelope_says_where_the_body_is_no_json(client: TestClient[Any]) -> None:
    for path, of in PATHS.items():
        fault = check(client.post(path, content=b'{"a": nope}', headers={"Content-Type": "application/json"}), 400, of)
        if of != "anthropic":
            assert fault["param"] == ("body.7" if of == "vllm" else None)


@pytest.mark.parametrize("path", ["/v1/chat/completions/render", "/v1/chat/completions"])
def test_an_unknown_model_is_a_404_that_names_the_served_ones(client: TestClient[Any], path: str) -> None:
    fault = check(client.post(path, json=CHAT | {"model": "gpt-x"}), 404, PATHS[path])
    assert fault["param"] == "model" and "m" in fault["message"]


def test_an_announced_body_that_is_too_large_is_a_413(serve: Any) -> None:
    client = serve(ISTHMUS_MAX_BODY_BYTES="200")
    for path, of in PATHS.items():
        check(client.post(path, json=CHAT | {"user": "x" * 300}), 413, of)


def test_a_chunked_body_that_grows_too_large_is_a_413(serve: Any) -> None:
    client = serve(ISTHMUS_MAX_BODY_BYTES="200")

    def pieces() -> Any:
        for _ in range(10):
            yield b"x" * 100

    headers = {"Content-Type": "application/json"}
    for path in ("/v1/chat/completions/render", "/inference/v1/generate"):
        check(client.post(path, content=pieces(), headers=headers), 413, "vllm")


def test_overload_is_a_429_with_retry_after(serve: Any) -> None:
    client = serve(ISTHMUS_MAX_QUEUE="1")
    assert client.post("/tokenize", json={"prompt": "Hi"}).status_code == 200
    gate = client.app.ways["/tokenize"].shell.gate
    gate.admission.enter()  # somebody else's request
    for path, of in PATHS.items():
        reply = client.post(path, json=CHAT)
        fault = check(reply, 429, of)
        assert int(reply.headers["retry-after"]) >= 1
        assert of != "openai" or fault["code"] == "rate_limit_exceeded"
    assert client.get("/health").status_code == 200
    gate.admission.leave()
    assert client.post("/tokenize", json={"prompt": "Hi"}).status_code == 200


def test_scale_out_false_closes_those_endpoints_and_no_others(serve: Any) -> None:
    client = serve(ISTHMUS_SCALE_OUT="false")
    for path, of in PATHS.items():
        reply = client.post(path, json=CHAT)
        if of != "vllm":
            assert reply.status_code != 403
        else:
            assert check(reply, 403, of)["type"] == "PermissionDeniedError"
    assert client.get("/v1/models").status_code == 200


def test_a_bug_says_nothing_of_itself(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = serve()

    async def bug(*_: Any) -> bytes:
        raise KeyError("a secret")

    client.app.ways["/tokenize"].shell.app.run = bug  # type: ignore[attr-defined]
    fault = check(client.post("/tokenize", json={"prompt": "Hi"}), 500, "vllm")
    assert "secret" not in fault["message"]
    assert any("KeyError" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("error", "vllm", "openai", "anthropic"),
    [
        (errors.InvalidRequest("x", param="p"), 400, 400, 400),
        (errors.Unsupported("x"), 400, 400, 400),
        (errors.BadMedia("x"), 422, 400, 400),
        (errors.NotFound("x"), 404, 404, 404),
        (errors.Unauthorized("x"), 401, 401, 401),
        (errors.Forbidden("x"), 403, 403, 403),
        (errors.Conflict("x"), 409, 409, 409),
        (errors.TooLarge("x"), 413, 413, 413),
        (errors.Overloaded("x", retry_after=3), 429, 429, 429),
        (errors.EngineFailure("x"), 503, 503, 503),
        (errors.EngineTimeout("x"), 504, 504, 504),
        (RuntimeError("x"), 500, 500, 500),
    ],
)
def test_every_refusal_has_its_status(error: Exception, vllm: int, openai: int, anthropic: int) -> None:
    fault = refusal(error)
    assert [public_status(fault, of) for of in ("vllm", "openai", "anthropic")] == [vllm, openai, anthropic]
    assert envelope(fault, "vllm")["error"]["code"] == vllm
    assert envelope(fault, "anthropic", "r")["request_id"] == "r"


def test_the_families() -> None:
    assert family("/v1/responses/resp_1/input_items") == family("/v1/conversations/c") == "openai"
    assert family("/v1/messages") == "anthropic"
    assert family("/v1/responses/render") == family("/v1/models") == "vllm"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)
FIELDS = st.sampled_from(
    ["model", "messages", "tools", "prompt", "input", "stop", "n", "tokens", "max_tokens", "stream"]
)


@settings(max_examples=60, deadline=None)
@given(path=st.sampled_from(sorted(PATHS)), body=JSON | st.dictionaries(FIELDS, JSON, max_size=4))
def test_no_body_is_a_500(client: TestClient[Any], path: str, body: Any) -> None:
    reply = client.post(path, content=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    assert reply.status_code < 500 or reply.status_code == 503, (path, body, reply.text)
