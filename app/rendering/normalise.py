"""A conversation to the plain dictionaries that a chat template reads.

The rules are vLLM 0.33's; where it loses something (DeepSeek V3's calls with an absent content, a list printed by a
template that wants a string) the model's template decides. Every text from outside goes through
:class:`app.rendering.provenance.Shield` here, and nowhere else.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from app.errors import InvalidRequest
from app.rendering.content_format import ContentFormat
from app.rendering.conversation import Conversation, Media, Message, Part, Text, Tool, ToolCall
from app.rendering.provenance import Shield
from app.rendering.template_needs import TemplateNeeds

__all__ = ("Parts", "TemplateView", "normalise_messages", "normalise_tools", "tool_dict")

PLAIN_ROLES = frozenset({"assistant", "function", "system", "tool", "user"})


class Parts(list[dict[str, Any]]):
    """Content as parts; printed or glued to text it is the text of its parts, never a Python list."""

    def __str__(self) -> str:
        return "".join(part.get("text", "") for part in self)

    __repr__ = __str__

    def __add__(self, other: Any) -> Any:
        return str(self) + other if isinstance(other, str) else [*self, *other]

    def __radd__(self, other: Any) -> Any:
        return other + str(self)


class TemplateView:
    """One template's way with messages.

    Args:
        needs, content_format: the template's.
        shield: for texts from outside.
        placeholder: what stands for an item in a string; None for a model that takes text only.
        exact: do as vLLM 0.33 also where it harms: a template for parts gets each string as a list of one part, which
            it may print as a Python list.
        arguments_first: within a call, the arguments stand before the name (vLLM's order of Chat's calls; only
            templates that write a call as JSON show it).
    """

    def __init__(
        self,
        needs: TemplateNeeds,
        content_format: ContentFormat,
        shield: Shield,
        placeholder: Callable[[Media], str] | None = None,
        *,
        exact: bool = False,
        arguments_first: bool = False,
    ) -> None:
        self.needs = needs
        self.as_string = content_format == "string"
        self.plain_strings = self.as_string or (needs.tests_string and not exact)
        self.new_parts: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list if exact else Parts
        self.shield = shield
        self.placeholder = placeholder
        self.arguments_first = arguments_first

    def message(self, message: Message, role: str) -> dict[str, Any]:
        """One message; ``role`` is the one to write."""
        outside = role != "assistant"
        shield = self.shield.text if outside else unchanged
        if role not in PLAIN_ROLES:
            role = self.shield.text(role)
        out: dict[str, Any] = {"role": role, "content": self.content(message, shield)}
        if message.tool_calls and not outside:
            out["tool_calls"] = [self.call(call) for call in message.tool_calls]
            if self.needs.null_content and not out["content"]:
                out["content"] = None
        if message.reasoning is not None:
            out["reasoning"] = out["reasoning_content"] = shield(message.reasoning)
        if message.name is not None:
            out["name"] = shield(message.name)
        if message.tool_call_id is not None:
            out["tool_call_id"] = shield(message.tool_call_id)
        for key, value in message.extra.items():
            out.setdefault(key, self.shield.value(value))
        return out

    def call(self, call: ToolCall) -> dict[str, Any]:
        """One tool call."""
        arguments = self.arguments(call.arguments)
        if self.arguments_first:
            return {"id": call.id, "function": {"arguments": arguments, "name": call.name}, "type": "function"}
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}

    def content(self, message: Message, shield: Callable[[str], str]) -> Any:
        """Content as the template takes it: a string, or parts."""
        content = message.content
        if isinstance(content, str):
            if self.plain_strings or message.role == "tool":
                return shield(content)
            return self.new_parts([{"type": "text", "text": shield(content)}])
        if content is None:
            return "" if self.plain_strings else self.new_parts([])
        if message.role == "tool" and all(isinstance(part, Text) for part in content):
            return shield("\n".join(part.text for part in content if isinstance(part, Text)))
        return self.joined(content, shield) if self.as_string else self.parts(content, shield)

    def joined(self, content: Sequence[Part], shield: Callable[[str], str]) -> str:
        """Parts as one string: placeholders first, then the texts, a line each."""
        media = [self.place(part) for part in content if isinstance(part, Media)]
        return "\n".join([*media, *(shield(part.text) for part in content if isinstance(part, Text))])

    def place(self, media: Media) -> str:
        """What a string template shows for an item."""
        if self.placeholder is None:
            raise InvalidRequest("This model takes text only.", param=media.param or "messages")
        return self.placeholder(media)

    def parts(self, content: Sequence[Part], shield: Callable[[str], str]) -> list[dict[str, Any]]:
        """Parts as the template's own placeholders want them."""
        out = self.new_parts([])
        for part in content:
            if isinstance(part, Text):
                extra = self.shield.value(part.extra) if part.extra else {}
                out.append({"type": "text", **extra, "text": shield(part.text)})
            else:
                if self.placeholder is None:
                    raise InvalidRequest("This model takes text only.", param=part.param or "messages")
                out.append({"type": part.modality})
        return out

    def arguments(self, text: str) -> Any:
        """Tool arguments: the text where the template glues it, else the object it is, or ``{}`` where it is none."""
        if self.needs.text_arguments:
            return text or "{}"
        try:
            arguments = json.loads(text) if text else {}
        except (ValueError, RecursionError):
            return {}
        return arguments if isinstance(arguments, dict) else {}


def unchanged(text: str) -> str:
    """The model's own words."""
    return text


def normalise_messages(
    messages: Sequence[Message],
    view: TemplateView,
    *,
    takes_late_system: Callable[[], bool],
    hoist_system: bool = False,
) -> list[dict[str, Any]]:
    """The messages for one template.

    Args:
        view: the template's way with messages.
        takes_late_system: whether the template writes a system message where it stands; asked only if one stands late.
        hoist_system: late system messages that it does not take join the head (else the template itself refuses them).

    A developer message is a system message for a template that does not know the role. At the head it is joined to the
    system message with a blank line; later it stays where it stands, so that the prompt's beginning, which engines
    cache, does not change from turn to turn; it moves to the head only where the template takes no late one.
    """
    out: list[dict[str, Any]] = []
    head: list[dict[str, Any]] = []
    merge = False
    for message in messages:
        role = message.role
        developer = role == "developer" and not view.needs.developer
        if developer:
            role = "system"
        written = view.message(message, role)
        if role != "system":
            out.append(written)
        elif not out:
            head.append(written)
            merge = merge or developer
        elif (developer or hoist_system) and not takes_late_system():
            head.append(written)
            merge = True
        else:
            out.append(written)
    if merge and len(head) > 1:
        head = [merged(head)]
    return head + out


def merged(messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several system messages as one, with a blank line between."""
    contents = [message["content"] for message in messages if message["content"]]
    if all(isinstance(content, str) for content in contents):
        return {**messages[0], "content": "\n\n".join(contents)}
    parts = Parts()
    for content in contents:
        if parts:
            parts.append({"type": "text", "text": "\n\n"})
        parts.extend([{"type": "text", "text": content}] if isinstance(content, str) else content)
    return {**messages[0], "content": parts}


def tool_dict(tool: Tool) -> dict[str, Any]:
    """A tool as templates and ``parse_context`` show it."""
    function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    if tool.strict is not None:
        function["strict"] = tool.strict
    if tool.defer_loading is not None:
        function["defer_loading"] = tool.defer_loading
    return {"type": "function", "function": function}


def normalise_tools(conversation: Conversation, shield: Shield) -> list[dict[str, Any]] | None:
    """The tools for a template; None where there are none."""
    if not conversation.tools:
        return None
    return [shield.value(tool_dict(tool)) for tool in conversation.tools]
