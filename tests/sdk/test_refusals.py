"""What a request asks for and is not served is refused by its name, streamed or not, before anything runs."""

from typing import Any

import httpx
import pytest

from app.errors import InvalidRequest
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
    ({"logit_bias": {str(i): 1 for i in range(20_000)}}, "logit_bias"),
    ({"bad_words": ["word " * 2000]}, "bad_words"),
    ({"bad_words": [f"{i}" for i in range(129)]}, "bad_words"),
    ({"stop": ["x" * 1025]}, "stop"),
    ({"stop_token_ids": list(range(1025))}, "stop_token_ids"),
    ({"allowed_token_ids": [0] * 65_537}, "allowed_token_ids"),
]
MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"mcp_servers": [{"type": "url", "url": "http://x", "name": "x"}]}, "mcp_servers"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
    ({"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"),
    ({"tool_choice": {"type": "all"}}, "tool_choice.type"),
    ({"thinking": {"type": "enabled", "budget_tokens": 10}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "on"}}, "thinking.type"),
    ({"stop_sequences": ["a", "b", "c", "d", "e"]}, "stop_sequences"),
    ({"stop_sequences": ["x" * 1025]}, "stop_sequences"),
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


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
MESSAGES_TOOL = {"name": "f", "input_schema": SCHEMA}
CONSTRAINED: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/chat/completions", {"messages": HI, "response_format": FORMAT}, "response_format"),
    ("/v1/chat/completions", {"messages": HI, "response_format": FORMAT, "tools": [TOOL]}, "response_format"),
    ("/v1/chat/completions", {"messages": HI, "structured_outputs": {"json": SCHEMA}}, "structured_outputs.json"),
    ("/v1/chat/completions", {"messages": HI, "tools": [TOOL], "tool_choice": "required"}, "tools"),
    ("/v1/completions", {"prompt": "Hi", "response_format": FORMAT}, "response_format"),
    ("/v1/completions", {"prompt": "Hi", "structured_outputs": {"json": SCHEMA}}, "structured_outputs.json"),
    ("/v1/responses", {"input": "Hi", "text": {"format": FORMAT["json_schema"] | {"type": "json_schema"}}},
     "text.format"),
    ("/v1/responses", {"input": "Hi", "structured_outputs": {"json": SCHEMA}}, "structured_outputs.json"),
    ("/v1/responses", {"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
                       "tool_choice": "required", "text": {"format": {"type": "text"}}}, "tools"),
    ("/v1/messages", {"messages": HI, "max_tokens": 9,
                      "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, "output_config.format"),
    ("/v1/messages", {"messages": HI, "max_tokens": 9, "tools": [MESSAGES_TOOL], "tool_choice": {"type": "any"}},
     "tools"),
    ("/inference/v1/generate", {"token_ids": [9707], "sampling_params": {"structured_outputs": {"json": SCHEMA}}},
     "structured_outputs.json"),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "body", "param"), CONSTRAINED)
def test_a_constraint_that_the_engine_refuses_is_named_as_it_was_given(
    server: Live, path: str, body: dict[str, Any], param: str, stream: bool
) -> None:
    """By an engine that finds out only when it compiles it."""
    refusal = InvalidRequest("The constraint is too much.", param="structured_outputs.json")
    server.says("x", fail_after=0, error=refusal)
    headers = {"Authorization": f"Bearer {KEY}"}
    reply = httpx.post(server.url + path, json={"model": "m", "stream": stream} | body, headers=headers)
    assert reply.status_code == 400 and len(server.engine.requests) == 1, reply.text
    error = reply.json()["error"]
    assert param in error["message"] if path == "/v1/messages" else error["param"] == param, error


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
