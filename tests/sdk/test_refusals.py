"""What a request asks for and is not served is refused by its name, streamed or not, before anything runs."""

from typing import Any

import httpx
import pytest

from tests.sdk.live import END, KEY, Live

HI = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
CHAT: list[tuple[dict[str, Any], str]] = [
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"functions": [{"name": "f"}], "function_call": "auto"}, "functions"),
    ({"function_call": "auto"}, "function_call"),
    ({"modalities": ["text", "audio"], "audio": {"voice": "x", "format": "wav"}}, "audio"),
    ({"modalities": ["audio"]}, "modalities"),
    ({"web_search_options": {}}, "web_search_options"),
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
    ({"tools": []}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [TOOL], "tool_choice": {"type": "custom", "custom": {"name": "f"}}}, "tool_choice.type"),
    ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools"),
    (
        {
            "tools": [TOOL],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "g"}}]},
            },
        },
        "tool_choice.allowed_tools.tools[0].function.name",
    ),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"response_format": {"type": "grammar"}}, "response_format"),
    ({"n": 2, "temperature": 0}, "n"),
    ({"n": 0}, "n"),
    ({"use_beam_search": True}, "use_beam_search"),
    ({"return_weight_versions": True}, "return_weight_versions"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
    ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
]
MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"mcp_servers": [{"type": "url", "url": "http://x", "name": "x"}]}, "mcp_servers"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
    ({"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"),
    ({"tool_choice": {"type": "all"}}, "tool_choice.type"),
    ({"thinking": {"type": "enabled", "budget_tokens": 10}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "on"}}, "thinking.type"),
    ({"stop_sequences": ["a", "b", "c", "d", "e"]}, "stop_sequences"),
    ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
    ({"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]}, "messages[0].content[0].type"),
    ({"messages": []}, "messages"),
    ({"max_tokens": 0}, "max_tokens"),
]


def post(server: Live, path: str, body: dict[str, Any]) -> httpx.Response:
    server.says(f"x{END}")
    headers = {"Authorization": f"Bearer {KEY}"}
    return httpx.post(server.url + path, json={"model": "m"} | body, headers=headers, trust_env=False)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "param"), CHAT, ids=[param for _, param in CHAT])
def test_chat(server: Live, fields: dict[str, Any], param: str, stream: bool) -> None:
    reply = post(server, "/v1/chat/completions", {"messages": HI, "stream": stream} | fields)
    assert reply.status_code == 400 and server.engine.requests == []
    fault = reply.json()["error"]
    assert fault["type"] == "invalid_request_error" and fault["param"].startswith(param)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "param"), MESSAGES, ids=[param for _, param in MESSAGES])
def test_messages(server: Live, fields: dict[str, Any], param: str, stream: bool) -> None:
    reply = post(server, "/v1/messages", {"messages": HI, "max_tokens": 2000, "stream": stream} | fields)
    assert reply.status_code == 400 and server.engine.requests == []
    fault = reply.json()
    assert fault["type"] == "error" and fault["error"]["type"] == "invalid_request_error"
    assert param in fault["error"]["message"]


def test_what_changes_nothing_is_taken(server: Live) -> None:
    chat = {
        "messages": HI,
        "store": True,
        "metadata": {"a": "b"},
        "user": "u",
        "service_tier": "auto",
        "prediction": None,
    }
    chat |= {
        "modalities": ["text"],
        "safety_identifier": "x",
        "prompt_cache_key": "y",
        "verbosity": "low",
        "unknown": 1,
    }
    assert post(server, "/v1/chat/completions", chat).status_code == 200
    message = {"messages": HI, "max_tokens": 9, "metadata": {"user_id": "u"}, "service_tier": "auto", "unknown": 1}
    assert post(server, "/v1/messages", message | {"mcp_servers": []}).status_code == 200
    text = {"prompt": "Hi", "user": "u", "best_of": 1, "suffix": None}
    assert post(server, "/v1/completions", text).status_code == 200
    response = {"input": "Hi", "metadata": {"a": "b"}, "user": "u", "safety_identifier": "x", "prompt_cache_key": "y"}
    assert post(server, "/v1/responses", response).status_code == 200
