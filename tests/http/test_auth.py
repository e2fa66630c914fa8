"""Keys guard every route but health and docs, in every spelling of the header, and give the tenant."""

from typing import Any

import pytest
from litestar.testing import TestClient

from app.errors import Unauthorized
from app.http.auth import KeyRing
from app.http.errors import family
from app.settings import ApiKey

OPEN = ("/health", "/ping", "/ready", "/docs")


@pytest.fixture(scope="module")
def locked(model_folder: Any) -> Any:
    from tests.http.conftest import serving

    with serving(model_folder, {"ISTHMUS_API_KEYS": "good-key,other-key"}) as client:
        yield client


def every_route(client: TestClient[Any]) -> list[tuple[str, str]]:
    found = []
    for route in client.app.routes:
        path = route.path.replace("{name:path}", "m").replace("{name:str}", "swagger-ui.css")
        for part in ("{path:str}", "{path:path}"):
            path = path.replace(part, "x")
        found += [(method, path) for method in route.methods if method not in ("OPTIONS", "HEAD")]
    return found


def test_every_route_but_health_and_docs_needs_a_key(locked: TestClient[Any]) -> None:
    guarded = 0
    for method, path in every_route(locked):
        without = locked.request(method, path, json={} if method == "POST" else None)
        wrong = locked.request(method, path, headers={"Authorization": "Bearer wrong"})
        if path.startswith(OPEN):
            assert without.status_code != 401 and wrong.status_code != 401, path
            continue
        guarded += 1
        for reply in (without, wrong):
            assert reply.status_code == 401, path
            assert reply.headers["www-authenticate"] == "Bearer"
            error = reply.json()["error"]
            kind = {"vllm": "AuthenticationError", "openai": "authentication_error"}
            assert error["type"] == kind.get(family(path), "authentication_error")
            if family(path) == "openai":
                assert error["code"] == "invalid_api_key"
    assert guarded >= 15


def test_the_short_ways_are_guarded_too(locked: TestClient[Any]) -> None:
    for path in locked.app.ways:
        assert locked.post(path, json={}).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer good-key"},
        {"Authorization": "bearer   other-key "},
        {"x-api-key": "good-key"},
        {"Authorization": "Basic abc", "X-API-Key": "good-key"},
    ],
)
def test_a_good_key_in_every_spelling(locked: TestClient[Any], headers: dict[str, str]) -> None:
    assert locked.get("/v1/models", headers=headers).status_code == 200
    assert locked.post("/tokenize", json={"prompt": "Hi"}, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "good-key"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer good-key2"},
        {"Authorization": "Bearer GOOD-KEY"},
        {"Authorization": "Basic good-key"},
        {"x-api-key": ""},
    ],
)
def test_what_is_no_good_key(locked: TestClient[Any], headers: dict[str, str]) -> None:
    assert locked.get("/v1/models", headers=headers).status_code == 401


def test_tenants() -> None:
    ring = KeyRing([ApiKey("a", "team"), ApiKey("b", "team"), ApiKey("c"), ApiKey("d")])

    def tenant(key: str) -> str:
        return ring.tenant([(b"authorization", f"Bearer {key}".encode())])

    assert tenant("a") == tenant("b") == "team"
    assert len({tenant(key) for key in "acd"}) == 3
    assert tenant("c") == KeyRing([ApiKey("c")]).tenant([(b"x-api-key", b"c")])
    with pytest.raises(Unauthorized):
        ring.tenant([])
    assert KeyRing([]).tenant([]) == ""


@pytest.mark.parametrize(
    "path", ["/v1/models", "/metrics", "/tokenize", "/v1/chat/completions", "/v1/responses/resp_1"]
)
def test_no_spelling_of_a_path_and_no_method_gets_around_the_keys(locked: TestClient[Any], path: str) -> None:
    spellings = [path, f"{path}/", f"/{path}", path.replace("/", "//"), f"{path}%2f", f"{path}?docs", f"{path};docs"]
    spellings += [f"/docs/..{path}", f"/health/..{path}", f"/docs/%2e%2e{path}", path.replace("/v1", "/%76%31")]
    for spelling in spellings:
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
            reply = locked.request(method, spelling)
            assert reply.status_code in (401, 404, 405), (method, spelling)
            if method != "HEAD":
                error = reply.json()["error"]
                assert error["message"], (method, spelling)
        assert locked.options(spelling).content == b"" or locked.options(spelling).status_code == 404
