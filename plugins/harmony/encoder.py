"""Conversations to gpt-oss prompts, by the ``openai-harmony`` library.

The library writes the system and developer messages (they hold the tools as TypeScript) and every message's header;
what stands between header and end is the text itself, encoded by the server's tokenizer, which is quicker and lets
other threads run. Each frame and each head is asked for once and remembered. What is written follows vLLM 0.33: a
system message with the date and the effort, a developer message for each system or developer message, tools in the
first, calls and results in the commentary channel, reasoning dropped once a final answer has followed it.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from openai_harmony import (
    Author,
    DeveloperContent,
    ReasoningEffort,
    RenderOptions,
    Role,
    SystemContent,
    ToolDescription,
)
from openai_harmony import (
    Conversation as HarmonyConversation,
)
from openai_harmony import (
    Message as HarmonyMessage,
)

from app.errors import InvalidRequest
from app.rendering.conversation import Conversation, Message, Text, Tool
from app.rendering.encoder import EncoderContext, PromptOptions
from plugins.harmony.vocabulary import load_encoding

__all__ = ("HarmonyEncoder",)

EFFORTS = {
    "minimal": ReasoningEffort.LOW,
    "low": ReasoningEffort.LOW,
    "medium": ReasoningEffort.MEDIUM,
    "high": ReasoningEffort.HIGH,
    "xhigh": ReasoningEffort.HIGH,
    "max": ReasoningEffort.HIGH,
}
"""The format has three efforts; those beyond are the nearest of them."""
NAME = re.compile(r"[\w.:/-]{1,256}")


class Frame(Struct, frozen=True):
    """A message's header: who speaks, to whom, in which channel."""

    role: Role
    name: str | None = None
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None


Framed = tuple[Frame | str, list[str]]
"""A frame with the texts in it; for a developer message its instructions and no text."""
USER = Frame(Role.USER)
FINAL = Frame(Role.ASSISTANT, channel="final")
COMMENTARY = Frame(Role.ASSISTANT, channel="commentary")
ANALYSIS = Frame(Role.ASSISTANT, channel="analysis")


class HarmonyEncoder:
    """The encoder of one gpt-oss model; see :class:`app.rendering.encoder.PromptEncoder`."""

    honours_no_effort = False

    def __init__(self, context: EncoderContext) -> None:
        self.context = context
        self.encoding = load_encoding(context.tokenizer, context.source, context.cache_dir)
        self.message_id = self.special("<|message|>")
        self.end_id = self.special("<|end|>")
        self.header = tuple(
            self.encoding.render_conversation_for_completion(HarmonyConversation.from_messages([]), Role.ASSISTANT)
        )
        self.frame = lru_cache(1024)(self._frame)
        self.head = lru_cache(256)(self._head)

    def special(self, token: str) -> int:
        """The id of a control token."""
        [found] = self.encoding.encode(token, allowed_special="all")
        return found

    def literals(self) -> list[str]:
        """See :meth:`app.rendering.encoder.PromptEncoder.literals`."""
        return sorted(self.encoding.special_tokens_set)

    def encode(self, conversation: Conversation, options: PromptOptions) -> list[int]:
        """See :meth:`app.rendering.encoder.PromptEncoder.encode`."""
        ids = list(self.head(self.system(options), bool(conversation.tools)))
        messages = list(conversation.messages)
        tools = dump_tools(conversation.tools)
        if messages and messages[0].role in ("system", "developer"):
            ids += self.head((text_of(messages.pop(0), 0), tools), False)
        elif tools:
            ids += self.head(("", tools), False)
        dropped = len(conversation.messages) - len(messages)
        for frame, texts in kept(frames(messages, dropped)):
            if isinstance(frame, str):
                ids += self.head((frame, ""), False)
                continue
            before, after = self.frame(frame)
            ids += before
            for text in texts:
                ids += self.context.tokenizer.encode(text, controls=False).ids
            ids += after
        if options.continue_final_message:
            if not messages or messages[-1].role != "assistant" or messages[-1].tool_calls or ids[-1] != self.end_id:
                raise InvalidRequest("Only a last message of the assistant can be continued.", param="messages")
            ids.pop()
        elif options.add_generation_prompt:
            ids += self.header
        return ids

    def system(self, options: PromptOptions) -> tuple[str, str, str]:
        """What the system message varies in: identity, effort, date."""
        effort = options.reasoning_effort or "medium"
        if effort not in EFFORTS:
            known = ", ".join(EFFORTS)
            raise InvalidRequest(f"This model's reasoning efforts are {known}.", param="reasoning_effort")
        identity = options.kwargs.get("model_identity")
        date = self.context.now().strftime("%Y-%m-%d")
        return (identity if isinstance(identity, str) else "", EFFORTS[effort].value, date)

    def _head(self, content: tuple[str, ...], has_tools: bool) -> tuple[int, ...]:
        """Ids of a system message (identity, effort, date) or of a developer message (instructions, tools as JSON)."""
        if len(content) == 3:
            identity, effort, date = content
            system = SystemContent.new().with_reasoning_effort(ReasoningEffort(effort))
            system = system.with_conversation_start_date(date)
            if identity:
                system = system.with_model_identity(identity)
            message = HarmonyMessage.from_role_and_content(Role.SYSTEM, system)
        else:
            instructions, tools = content
            developer = DeveloperContent.new()
            if instructions:
                developer = developer.with_instructions(instructions)
            if tools:
                described = [ToolDescription.new(*one) for one in json.loads(tools)]
                developer = developer.with_function_tools(described)
            message = HarmonyMessage.from_role_and_content(Role.DEVELOPER, developer)
        try:
            return tuple(self.encoding.render(message, RenderOptions(conversation_has_function_tools=has_tools)))
        except Exception as error:  # the library raises what its Rust core panics with
            raise InvalidRequest(f"A tool's schema cannot be written: {error}", param="tools") from error

    def _frame(self, frame: Frame) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ids before and after a message's text."""
        author = Author(role=frame.role, name=frame.name)
        message = HarmonyMessage.from_author_and_content(author, "")
        if frame.channel is not None:
            message = message.with_channel(frame.channel)
        if frame.recipient is not None:
            message = message.with_recipient(frame.recipient)
        if frame.content_type is not None:
            message = message.with_content_type(frame.content_type)
        ids = tuple(self.encoding.render(message))
        at = ids.index(self.message_id) + 1
        return ids[:at], ids[at:]


def frames(messages: Sequence[Message], offset: int) -> list[Framed]:
    """Every message as frames with their texts; a developer message in the middle as its instructions alone."""
    out: list[Framed] = []
    names: dict[str, str] = {}
    for at, message in enumerate(messages, offset):
        text = text_of(message, at)
        match message.role:
            case "user":
                out.append((USER, texts_of(message, at)))
            case "assistant":
                if message.reasoning:
                    out.append((ANALYSIS, [message.reasoning]))
                if message.tool_calls:
                    if text:
                        out.append((COMMENTARY, [text]))
                    for number, call in enumerate(message.tool_calls):
                        name = checked(call.name.removeprefix("functions."), f"messages[{at}].tool_calls[{number}]")
                        names[call.id or ""] = name
                        out.append((call_frame(name), [call.arguments]))
                elif message.content is not None or not message.reasoning:
                    out.append((FINAL, texts_of(message, at)))
            case "tool":
                name = names.get(message.tool_call_id or "") or message.name or ""
                if not name:
                    raise InvalidRequest(
                        "A tool message answers a call that an earlier assistant message made.",
                        param=f"messages[{at}].tool_call_id",
                    )
                out.append((result_frame(checked(name, f"messages[{at}].name")), [text]))
            case "system" | "developer":
                if text:
                    out.append((text, []))
            case _:
                raise InvalidRequest(
                    "This model knows the roles user, assistant, system, developer and tool.",
                    param=f"messages[{at}].role",
                )
    return out


def kept(messages: Sequence[Framed]) -> list[Framed]:
    """The frames without the reasoning that a final answer has followed."""
    finals = [at for at, (frame, _) in enumerate(messages) if frame == FINAL]
    last = finals[-1] if finals else -1
    return [entry for at, entry in enumerate(messages) if at > last or entry[0] != ANALYSIS]


def call_frame(name: str) -> Frame:
    """An assistant's call."""
    return Frame(Role.ASSISTANT, channel="commentary", recipient=f"functions.{name}", content_type="json")


def result_frame(name: str) -> Frame:
    """A tool's result. The recipient goes behind the channel, as gpt-oss was trained; the library puts it before."""
    return Frame(Role.TOOL, name=f"functions.{name}", channel="commentary to=assistant")


def checked(name: str, param: str) -> str:
    """A function's name, if a header can hold it: control tokens and spaces would end it."""
    if not NAME.fullmatch(name):
        raise InvalidRequest("A function's name has letters, digits and any of _ . : / - only.", param=param)
    return name


def text_of(message: Message, at: int) -> str:
    """A message's text; its parts joined without anything between them."""
    return "".join(texts_of(message, at))


def texts_of(message: Message, at: int) -> list[str]:
    """A message's texts, which the library encodes each for itself."""
    if message.content is None or isinstance(message.content, str):
        return [message.content or ""]
    for number, part in enumerate(message.content):
        if not isinstance(part, Text):
            raise InvalidRequest("This model takes text only.", param=part.param or f"messages[{at}].content[{number}]")
    return [part.text for part in message.content if isinstance(part, Text)]


def dump_tools(tools: Sequence[Tool] | None) -> str:
    """Tools as JSON, which a cache can take for a key."""
    if not tools:
        return ""
    for number, tool in enumerate(tools):
        checked(tool.name, f"tools[{number}]")
    return json.dumps([[tool.name, tool.description or "", tool.parameters] for tool in tools])
