"""A Responses request to the Response that its reply begins with: every key that clients ask for, values echoed."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct

from app.dialects.responses.tools import function_name
from app.protocol.responses import ResponsesRequest
from app.protocol.responses_reply import Response

__all__ = ("CalledTool", "open_response", "read_called_tools")


def open_response(
    request: ResponsesRequest,
    *,
    response_id: str,
    created_at: int,
    model: str,
    status: str = "in_progress",
    store: bool | None = None,
    conversation_id: str | None = None,
) -> Response:
    """The response before its first item.

    Args:
        created_at: Unix seconds.
        model: the name that was asked for, or the served one.
        status: in_progress, or queued for a background response.
        store: whether it is kept; None echoes the request.
        conversation_id: of the conversation that it belongs to, if any.
    """
    text = request.text
    reasoning = request.reasoning
    return Response(
        id=response_id,
        created_at=created_at,
        status=status,
        model=model,
        previous_response_id=request.previous_response_id,
        conversation=UNSET if conversation_id is None else {"id": conversation_id},
        instructions=request.instructions,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        tool_choice="auto" if request.tool_choice is None else request.tool_choice,
        tools=list(request.tools or ()),
        max_tool_calls=request.max_tool_calls,
        max_output_tokens=request.max_output_tokens,
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        top_logprobs=request.top_logprobs or 0,
        reasoning={
            "effort": reasoning.effort if reasoning is not None else None,
            "summary": reasoning.summary if reasoning is not None else None,
        },
        text={
            "format": (text.format if text is not None else None) or {"type": "text"},
            "verbosity": (text.verbosity if text is not None else None) or "medium",
        },
        truncation=request.truncation or "disabled",
        store=request.store is not False if store is None else store,
        background=bool(request.background),
        service_tier="default" if request.service_tier in (None, "auto") else request.service_tier,
        metadata=request.metadata or {},
        safety_identifier=request.safety_identifier,
        prompt_cache_key=request.prompt_cache_key,
        user=request.user,
    )


class CalledTool(Struct, frozen=True):
    """A tool as the caller knows it; the model may call it by another name."""

    name: str
    namespace: str | None = None
    custom: bool = False


def read_called_tools(tools: Sequence[Mapping[str, Any]] | None) -> dict[str, CalledTool]:
    """Tools by the name that the model calls, where the reply must say more than that name."""
    found: dict[str, CalledTool] = {}
    for tool in tools or ():
        inner = tool.get("tools") if tool.get("type") == "namespace" else None
        namespace = tool.get("name") if isinstance(inner, list) else None
        for one in inner if isinstance(inner, list) else [tool]:
            name, custom = one.get("name"), one.get("type") == "custom"
            if isinstance(name, str) and (custom or namespace):
                found[function_name(name, namespace)] = CalledTool(name, namespace, custom)
    return found
