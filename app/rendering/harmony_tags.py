"""Harmony's channels around a constraint: which messages gpt-oss may write, as a structural tag.

Before the last message may stand reasoning, and before a call also a comment to the user. An engine's own end tokens
end the last one, so that its end is ``<|end|>`` or nothing.
"""

from collections.abc import Sequence

from app.parsing.format import HarmonyMessages
from app.rendering.call_tags import checked_schema
from app.rendering.conversation import Tool
from app.rendering.tag_pieces import Node, any_text, constant, either, json_schema, maybe, sequence, tag

__all__ = ("harmony_calls", "harmony_final")

_CHANNELS = ("commentary", "analysis", "final")
"""Channels on which a call may stand; the model is taught the first, and strays to the others."""


def harmony_calls(messages: HarmonyMessages, tools: Sequence[Tool], *, needed: bool) -> Node:
    """A call of one of the tools, or a final message where none is ``needed``."""
    last = [
        tag(begin, json_schema(checked_schema(tool)), _ends(messages))
        for tool in tools
        for begin in _call_heads(messages, tool.name)
    ]
    if not needed:
        heads = [*_typed(messages), ""]
        last += [tag(_final(messages, head), any_text(), _ends(messages)) for head in heads]
    comment = _before(messages, "commentary")
    return sequence(_before(messages, messages.reasoning[0]), comment, {"type": "or", "elements": last})


def harmony_final(messages: HarmonyMessages, content: Node) -> Node:
    """A final message with this content; one of JSON says so in its header."""
    if content["type"] == "json_schema":
        last = either([tag(_final(messages, head), content, _ends(messages)) for head in _typed(messages)])
    else:
        last = tag(_final(messages, ""), content, _ends(messages))
    return sequence(_before(messages, messages.reasoning[0]), last)


def _call_heads(messages: HarmonyMessages, name: str) -> list[str]:
    """Headers of a call: the recipient in the role's place or after the channel, JSON announced in two ways."""
    recipient = f" to={messages.recipient}{name}"
    channels = [f"{messages.channel}{channel}" for channel in _CHANNELS]
    typed = _typed(messages)
    first = [f"{recipient}{channel}{json}{messages.message}" for json in typed for channel in channels]
    return first + [f"{channel}{recipient}{json}{messages.message}" for json in typed for channel in channels]


def _typed(messages: HarmonyMessages) -> tuple[str, str]:
    return " json", f" {messages.constrain}json"


def _final(messages: HarmonyMessages, typed: str) -> str:
    return f"{messages.channel}final{typed}{messages.message}"


def _ends(messages: HarmonyMessages) -> tuple[str, str]:
    return messages.ends[0], ""


def _before(messages: HarmonyMessages, channel: str) -> Node:
    """A message on the channel that may come before the last one, and how the next begins."""
    message = tag(f"{messages.channel}{channel}{messages.message}", any_text(), messages.ends[0])
    return maybe(sequence(message, constant(f"{messages.start}assistant")))
