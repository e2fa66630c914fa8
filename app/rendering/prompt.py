"""A conversation to its prompt's ids, by template or encoder; short work on the event loop, long work in a thread."""

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

from msgspec import Struct

from app.errors import InvalidRequest
from app.rendering.budget import Budget, OutOfBudget, RenderTooLong
from app.rendering.conversation import Conversation, Media, Message
from app.rendering.deadline import within
from app.rendering.encoder import PromptEncoder, PromptOptions
from app.rendering.normalise import TemplateView, normalise_messages, normalise_tools
from app.rendering.provenance import Shield
from app.rendering.request import TemplateOptions
from app.rendering.template import ChatTemplate
from app.rendering.templates import ChatTemplates
from app.tokenizing.tokenizer import Encoded, Tokenizer

__all__ = ("LONG_WORK", "PromptWriter", "WrittenPrompt", "in_thread")

T = TypeVar("T")

SHORT_CHARS = 16_384
"""Characters that are tokenized on the event loop: some milliseconds at worst."""
LOOP_CHARS = 262_144
LOOP_MESSAGES = 256
"""A conversation of so much is templated on the event loop, which takes a millisecond or two, and so is a text of so
much looked up in the tokenizer's memory: in a thread the same work would take the interpreter from the loop anyway."""
LEAST_LONGEST = 4
"""Characters that any vocabulary's longest token has; it is looked for only for a longer text, in a thread."""
INPUTS = frozenset({"messages", "tools"})
"""Variables of every template that a request gives in fields of these names."""
RESERVED = frozenset({"chat_template", "tokenize", "messages", "tools", "return_dict"})
"""Keys of ``chat_template_kwargs`` that are arguments of rendering itself and no variables."""

LONG_WORK = ThreadPoolExecutor(max(2, os.cpu_count() or 1), thread_name_prefix="render")
STRANGE_TEMPLATES = ThreadPoolExecutor(1, thread_name_prefix="template")
"""Templates that requests bring, or that grew too long for the loop: they must not hold up anyone's tokenizing."""


class WrittenPrompt(Struct, frozen=True):
    """A prompt before media and truncation. ``kwargs`` are the effective template kwargs."""

    encoded: Encoded
    kwargs: dict[str, Any]


class PromptWriter:
    """Writes and encodes the conversations of one served model.

    Args:
        tokenizer: the model's.
        templates: its chat templates; None for a model that has none.
        encoder: a prompt encoder that stands for the templates.
        shield: puts stand-ins into outside text.
        default_kwargs: the server's ``chat_template_kwargs``, under a request's own.
        max_model_len: in tokens; a text that can't fit is refused before it is encoded.
        template_timeout_s: time for one render in a thread, in seconds.
        placeholder: what stands for a media item in a string; None for a model that takes text only.
        exact: vLLM's prompt even where that is known to be wrong.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        templates: ChatTemplates | None,
        encoder: PromptEncoder | None,
        shield: Shield,
        default_kwargs: Mapping[str, Any],
        max_model_len: int,
        template_timeout_s: float,
        placeholder: Callable[[Media], str] | None,
        exact: bool,
    ) -> None:
        self.tokenizer = tokenizer
        self.templates = templates
        self.encoder = encoder
        self.shield = shield
        self.default_kwargs = dict(default_kwargs)
        self.max_model_len = max_model_len
        self.template_timeout_s = template_timeout_s
        self.placeholder = placeholder
        self.exact = exact

    async def write(
        self, conversation: Conversation, options: TemplateOptions, dialect: str, *, long: bool = False
    ) -> WrittenPrompt:
        """The prompt's ids; see :meth:`app.rendering.renderer.Renderer.render` for what is refused.

        ``long`` says that the event loop must not do it, however few and short the messages are.
        """
        if not conversation.messages:
            raise InvalidRequest("A conversation needs at least one message.", param="messages")
        if options.continue_final_message and options.add_generation_prompt:
            raise InvalidRequest(
                "`continue_final_message` and `add_generation_prompt` exclude each other.",
                param="continue_final_message",
            )
        if self.encoder is not None:
            return await self.write_by_encoder(self.encoder, conversation, options, dialect, long=long)
        if self.templates is None:
            raise InvalidRequest("This model has no chat template; set `chat_template` for it.", param="messages")
        asked = options.chat_template
        if options.kwargs:
            self.check_kwargs(options.kwargs)
            asked = options.kwargs.get("chat_template") if asked is None else asked
        template = self.templates.choose(asked, has_tools=bool(conversation.tools))
        kwargs = self.effective_kwargs(conversation, options, dialect, lambda: template.honours_no_effort)
        if not long and is_short(conversation.messages, LOOP_CHARS):
            values = self.values(template, conversation, options, kwargs, dialect)
            text = without_tag(await self.templated(template, values), values)
            return WrittenPrompt(await self.encode(text, options), kwargs)

        def work() -> Encoded:
            values = self.values(template, conversation, options, kwargs, dialect)
            return self.encoded(without_tag(self.templated_in_thread(template, values), values), options)

        return WrittenPrompt(await in_thread(LONG_WORK if template.inline else STRANGE_TEMPLATES, work), kwargs)

    async def write_by_encoder(
        self, encoder: PromptEncoder, conversation: Conversation, options: TemplateOptions, dialect: str, *, long: bool
    ) -> WrittenPrompt:
        """The prompt of a model without a template."""
        if options.chat_template is not None or "chat_template" in options.kwargs:
            raise InvalidRequest("This model's prompts are written by no chat template.", param="chat_template")
        kwargs = self.effective_kwargs(conversation, options, dialect, lambda: encoder.honours_no_effort)
        how = PromptOptions(
            add_generation_prompt=options.add_generation_prompt,
            continue_final_message=options.continue_final_message,
            reasoning_effort=kwargs.get("reasoning_effort"),
            kwargs=kwargs,
        )

        def work() -> Encoded:
            ids = encoder.encode(conversation, how)
            return Encoded(ids, offsets_of(self.tokenizer, ids) if options.return_token_offsets else None)

        if not long and is_short(conversation.messages, SHORT_CHARS):
            return WrittenPrompt(work(), kwargs)
        return WrittenPrompt(await in_thread(LONG_WORK, work), kwargs)

    def check_kwargs(self, kwargs: Mapping[str, Any]) -> None:
        """Refuse a request's kwargs that stand for what has a field of its own, or is the tokenizer's.

        A special token that a request brings would be shielded text in the prompt, and no token; with
        ``special_tokens_in_text = "control"`` it is taken, as vLLM takes it.
        """
        special = self.templates.special_tokens if self.templates is not None else {}
        for name, value in kwargs.items():
            param = f"chat_template_kwargs.{name}"
            if name in INPUTS:
                raise InvalidRequest(
                    f"`{name}` is no variable of the template: it has a field of its own.", param=param
                )
            if name == "chat_template" and not isinstance(value, str | None):
                raise InvalidRequest("`chat_template` is a text.", param=param)
            if self.shield.controls is not None and name in special and value != special[name]:
                raise InvalidRequest(f"`{name}` is the tokenizer's, and no request changes it.", param=param)

    def effective_kwargs(
        self, conversation: Conversation, options: TemplateOptions, dialect: str, honours_none: Callable[[], bool]
    ) -> dict[str, Any]:
        """The server's kwargs, the request's over them, the named fields over both (null and "auto" are not given)."""
        kwargs = {**self.default_kwargs, **options.kwargs} if options.kwargs else dict(self.default_kwargs)
        effort = options.reasoning_effort
        if effort == "none" and dialect == "messages" and not honours_none():
            effort = "low"  # "thinking: disabled" of a model that cannot be kept from thinking
        thinking_given = "enable_thinking" in kwargs
        kwargs["add_generation_prompt"] = options.add_generation_prompt
        kwargs["continue_final_message"] = options.continue_final_message
        if conversation.documents is not None:
            kwargs["documents"] = conversation.documents
        if effort is not None and effort != "auto":
            kwargs["reasoning_effort"] = effort
            if not thinking_given:
                kwargs["enable_thinking"] = effort != "none"
        return kwargs

    def values(
        self,
        template: ChatTemplate,
        conversation: Conversation,
        options: TemplateOptions,
        kwargs: Mapping[str, Any],
        dialect: str,
    ) -> dict[str, Any]:
        """What the template sees: its own free variables, and nothing else."""
        shield = self.shield
        messages = normalise_messages(
            conversation.messages,
            TemplateView(
                template.needs,
                template.content_format,
                shield,
                self.placeholder,
                exact=self.exact,
                arguments_first=dialect == "chat",
            ),
            takes_late_system=lambda: template.takes_late_system,
            hoist_system=dialect == "messages",
        )
        special = self.templates.special_tokens if self.templates is not None else {}
        values: dict[str, Any] = {"documents": None}
        for name in template.variables:
            if name in kwargs and name not in RESERVED:
                values[name] = shield.value(kwargs[name])
            elif name in special:
                values[name] = special[name]
        values["tools"] = normalise_tools(conversation, shield)
        values["messages"] = messages
        if options.continue_final_message:
            values["messages"], values[TAG] = tagged(messages)
        return values

    async def templated(self, template: ChatTemplate, values: dict[str, Any]) -> str:
        """The text: on the loop where the template is quick, else in a thread."""
        if template.inline:
            try:
                return template.render(values, Budget(seconds=0, inline=True))
            except RenderTooLong:
                pass
        return await in_thread(STRANGE_TEMPLATES, lambda: self.templated_in_thread(template, values))

    def templated_in_thread(self, template: ChatTemplate, values: dict[str, Any]) -> str:
        """The text, within the time that a template may take."""
        seconds = self.template_timeout_s
        if template.inline:
            return template.render(values, Budget(seconds=seconds))
        try:
            return within(seconds, lambda: template.render(values, Budget(seconds=seconds)))
        except OutOfBudget as error:
            raise InvalidRequest(f"The chat template {error}.", param="chat_template") from error

    async def encode(self, text: str, options: TemplateOptions) -> Encoded:
        """The text's ids: on the loop where little of it has to be tokenized, else in a thread."""
        if len(text) <= SHORT_CHARS and self.surely_fits(text):
            return self.encoded(text, options)
        if len(text) <= LOOP_CHARS and self.surely_fits(text) and not options.return_token_offsets:
            found = self.tokenizer.encode_remembered(
                text, add_special_tokens=options.add_special_tokens, most=SHORT_CHARS
            )
            if found is not None:
                return found
        return await in_thread(LONG_WORK, lambda: self.encoded(text, options))

    def encoded(self, text: str, options: TemplateOptions) -> Encoded:
        """The text's ids, if it can fit."""
        if options.truncate_prompt_tokens is None and not options.drop_oldest_items:
            self.check_characters(text)
        return self.tokenizer.encode(
            text, add_special_tokens=options.add_special_tokens, offsets=options.return_token_offsets
        )

    def surely_fits(self, text: str) -> bool:
        """Whether a text is known to fit, without a look at the whole vocabulary."""
        return len(text) <= self.max_model_len * LEAST_LONGEST

    def check_characters(self, text: str) -> None:
        """Refuse a text that cannot fit whatever its tokens are, before it is encoded."""
        if self.surely_fits(text):
            return
        most = self.max_model_len * self.longest_token
        if len(text) > most:
            raise InvalidRequest(
                f"The prompt has {len(text)} characters; {self.max_model_len} tokens, the whole context, hold {most}.",
                param="input_text",
            )

    @cached_property
    def longest_token(self) -> int:
        """Characters of the longest token, at most."""
        sizes = (len(self.tokenizer.token_bytes(token)) for token in range(self.tokenizer.vocab_size))
        return max(1, max(sizes, default=1))


TAG = "\0continue"
"""Where :meth:`PromptWriter.values` keeps the continuation's tag; no variable can have this name."""


def tagged(messages: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """The messages with a tag behind the last one's last text.

    The tag ends with a space, so that a template that trims is known by its absence; it holds a noncharacter and a
    random word, so that no caller can write it.
    """
    tag = f"\U0010fffe{secrets.token_hex(8)} "
    last = dict(messages[-1])
    content = last["content"]
    if isinstance(content, str) and (content or not last.get("reasoning")):
        last["content"] = content + tag
    elif isinstance(content, list) and any("text" in part for part in content):
        at = max(index for index, part in enumerate(content) if "text" in part)
        last["content"] = type(content)(
            [*content[:at], {**content[at], "text": content[at]["text"] + tag}, *content[at + 1 :]]
        )
    elif last.get("reasoning"):
        last["reasoning"] = last["reasoning_content"] = last["reasoning"] + tag
    else:
        raise InvalidRequest("The last message has no text to continue.", param="continue_final_message")
    return [*messages[:-1], last], tag


def without_tag(text: str, values: Mapping[str, Any]) -> str:
    """The text up to the continuation's tag, if it has one; white space that the template trimmed goes too."""
    tag = values.get(TAG)
    if tag is None:
        return text
    at = text.rfind(tag.rstrip())
    if at < 0:
        raise InvalidRequest(
            "The chat template does not write the last message, so it cannot be continued.",
            param="continue_final_message",
        )
    return text[:at] if text.startswith(tag, at) else text[:at].rstrip()


def is_short(messages: Sequence[Message], most: int) -> bool:
    """Whether a conversation is quick to write: few messages, and at most ``most`` characters."""
    if len(messages) > LOOP_MESSAGES:
        return False
    size = 0
    for message in messages:
        content = message.content
        if isinstance(content, str):
            size += len(content)
        elif content is not None:
            size += sum(len(getattr(part, "text", "")) for part in content)
        if message.reasoning is not None:
            size += len(message.reasoning)
        for call in message.tool_calls:
            size += len(call.arguments)
    return size <= most


async def in_thread(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """``work()`` in one of the pool's threads."""
    return await asyncio.get_running_loop().run_in_executor(pool, work)


def offsets_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Character offsets of ids that no text was encoded to, from the tokens' own bytes."""
    offsets = []
    characters = 0
    for token in ids:
        raw = tokenizer.token_bytes(token)
        start = characters
        # A character counts with the token that holds its first byte.
        characters += sum(1 for byte in raw if byte & 0xC0 != 0x80)
        offsets.append((min(start, characters), characters))
    return offsets
