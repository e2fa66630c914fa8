"""Derendered steps to chat completion chunks, and the chunks to a chat completion."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from app.derendering.derenderer import Step
from app.derendering.logprobs import Position, Scored
from app.dialects.writer import Event, ReplyHead, Usage
from app.parsing.deltas import CallArguments, CallStart, Content, Delta, Reasoning
from app.protocol.chat_reply import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    ChatLogprob,
    ChatLogprobs,
    ChatReplyMessage,
    ChatTopLogprob,
    ErrorBody,
    ErrorEvent,
    FunctionCall,
    FunctionDelta,
    ToolCall,
    ToolCallDelta,
)
from app.protocol.usage import GenerateUsage

__all__ = ("ChatOptions", "ChatWriter", "chat_logprobs", "fold")


class ChatOptions(Struct, frozen=True, kw_only=True):
    """What of a chat request changes how its reply is written.

    ``include_usage`` and ``continuous_usage`` are the stream options; ``token_ids``: the output's ids are told, and
    ``prompt_token_ids`` and ``prompt_text`` with the first chunk; ``echo``: text that every choice begins with;
    ``forced``: the tool choice was required or named, whose content is "" rather than null.
    """

    include_usage: bool = False
    continuous_usage: bool = False
    token_ids: bool = False
    prompt_token_ids: list[int] | None = None
    prompt_text: str | None = None
    echo: str = ""
    forced: bool = False


class ChatWriter:
    """OpenAI's chunks: the role once per choice, absent fields left out, ``finish_reason`` always there."""

    def __init__(self, head: ReplyHead, options: ChatOptions = ChatOptions()) -> None:
        self._head = head
        self._options = options
        self._told: list[int] = []
        self._first = True

    def start(self) -> list[Event]:
        """Nothing: the role comes with a choice's first step."""
        return []

    def feed(self, step: Step, usage: Usage | None = None) -> list[Event]:
        """At most two chunks: the role, and what the step adds."""
        events = []
        if step.index not in self._told:
            self._told.append(step.index)
            role = ChatChunkChoice(index=step.index, delta=ChatDelta(role="assistant", content=self._options.echo))
            events.append(Event(None, self._chunk([role], usage)))
        ids = step.token_ids if self._options.token_ids else []
        if step.deltas or step.finish_reason is not None or step.logprobs or ids:
            events.append(Event(None, self._chunk([self._choice(step)], usage)))
        return events

    def finish(self, usage: Usage) -> list[Event]:
        """The usage chunk, where it was asked for."""
        if not self._options.include_usage:
            return []
        chunk = self._chunk([], None)
        chunk.usage = usage.wire()
        return [Event(None, chunk)]

    def fail(self, message: str, *, code: str = "server_error") -> list[Event]:
        """OpenAI's error object in the place of a chunk."""
        return [Event(None, ErrorEvent(ErrorBody(message=message, type=code)))]

    def dump(self) -> list[int]:
        """The choices whose role was told."""
        return list(self._told)

    def load(self, state: Any) -> None:
        """Go on from :meth:`dump`'s state."""
        self._told = list(state)
        self._first = not self._told

    def _chunk(self, choices: list[ChatChunkChoice], usage: Usage | None) -> ChatChunk:
        head, options = self._head, self._options
        chunk = ChatChunk(id=head.id, created=head.created, model=head.model, choices=choices)
        if self._first:
            if options.prompt_token_ids is not None:
                chunk.prompt_token_ids = options.prompt_token_ids
            if options.prompt_text is not None:
                chunk.prompt_text = options.prompt_text
        self._first = False
        if options.include_usage:
            chunk.usage = usage.wire() if usage is not None and options.continuous_usage else None
        return chunk

    def _choice(self, step: Step) -> ChatChunkChoice:
        choice = ChatChunkChoice(
            index=step.index,
            delta=chat_delta(step.deltas),
            logprobs=chat_logprobs(step.logprobs),
            finish_reason=step.finish_reason,
        )
        if step.stop_reason is not None:
            choice.stop_reason = step.stop_reason
        if self._options.token_ids:
            choice.token_ids = step.token_ids
        return choice


def chat_delta(deltas: Sequence[Delta]) -> ChatDelta:
    """All of a step's deltas as one: a call's first fragment alone has its id, type and name."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCallDelta] = []
    for delta in deltas:
        match delta:
            case Content(text):
                content.append(text)
            case Reasoning(text):
                reasoning.append(text)
            case CallStart(index, name, call_id):
                function = FunctionDelta(name=name, arguments="")
                calls.append(ToolCallDelta(index=index, id=call_id or UNSET, type="function", function=function))
            case CallArguments(index, text):
                if not calls or calls[-1].index != index:
                    calls.append(ToolCallDelta(index=index, function=FunctionDelta(arguments="")))
                calls[-1].function.arguments = f"{calls[-1].function.arguments}{text}"
            case _:
                pass
    return ChatDelta(
        content="".join(content) if content else UNSET,
        reasoning="".join(reasoning) if reasoning else UNSET,
        tool_calls=calls or UNSET,
    )


def chat_logprobs(positions: Sequence[Position] | None) -> ChatLogprobs | None:
    """Logprobs in chat's shape."""
    if positions is None:
        return None
    return ChatLogprobs(
        [
            ChatLogprob(p.sampled.token, p.sampled.logprob, p.sampled.bytes, [_top(other) for other in p.top])
            for p in positions
        ]
    )


def _top(scored: Scored) -> ChatTopLogprob:
    return ChatTopLogprob(scored.token, scored.logprob, scored.bytes)


class _Open(Struct):
    """A choice that is being put together."""

    content: list[str] = []
    reasoning: list[str] = []
    calls: dict[int, ToolCall] = {}
    logprobs: list[ChatLogprob] | None = None
    token_ids: list[int] = []
    finish_reason: str | None = None
    stop_reason: int | str | None = None


def fold(head: ReplyHead, chunks: Iterable[ChatChunk], options: ChatOptions = ChatOptions()) -> ChatCompletion:
    """The whole reply that the chunks make up, usage included where a chunk has it."""
    choices: dict[int, _Open] = {}
    usage: GenerateUsage | None = None
    prompt_ids: list[int] | UnsetType | None = UNSET
    prompt_text: str | UnsetType | None = UNSET
    for chunk in chunks:
        usage = chunk.usage or usage
        prompt_ids = chunk.prompt_token_ids or prompt_ids
        prompt_text = chunk.prompt_text or prompt_text
        for piece in chunk.choices:
            _add(choices.setdefault(piece.index, _Open()), piece)
    return ChatCompletion(
        id=head.id,
        created=head.created,
        model=head.model,
        choices=[_close(index, choices[index], options) for index in sorted(choices)],
        usage=usage,
        prompt_token_ids=prompt_ids,
        prompt_text=prompt_text,
    )


def _add(choice: _Open, piece: ChatChunkChoice) -> None:
    delta = piece.delta
    if delta.content:
        choice.content.append(delta.content)
    if delta.reasoning:
        choice.reasoning.append(delta.reasoning)
    for call in delta.tool_calls or ():
        whole = choice.calls.get(call.index)
        if whole is None:
            whole = choice.calls[call.index] = ToolCall(id="", function=FunctionCall("", ""))
        whole.id = call.id or whole.id
        whole.function.name = call.function.name or whole.function.name
        whole.function.arguments += call.function.arguments or ""
    if piece.logprobs is not None and piece.logprobs.content is not None:
        choice.logprobs = [] if choice.logprobs is None else choice.logprobs
        choice.logprobs += piece.logprobs.content
    if piece.token_ids:
        choice.token_ids += piece.token_ids
    choice.finish_reason = piece.finish_reason or choice.finish_reason
    if piece.stop_reason is not UNSET and piece.stop_reason is not None:
        choice.stop_reason = piece.stop_reason


def _close(index: int, choice: _Open, options: ChatOptions) -> ChatChoice:
    content, reasoning = "".join(choice.content), "".join(choice.reasoning)
    empty = "" if options.forced or not (choice.calls or reasoning) else None
    message = ChatReplyMessage(content=content or empty)
    if choice.calls:
        message.tool_calls = [choice.calls[number] for number in sorted(choice.calls)]
    if reasoning:
        message.reasoning = reasoning
    reply = ChatChoice(
        index=index,
        message=message,
        logprobs=None if choice.logprobs is None else ChatLogprobs(choice.logprobs),
        finish_reason=choice.finish_reason,
    )
    if choice.stop_reason is not None:
        reply.stop_reason = choice.stop_reason
    if options.token_ids:
        reply.token_ids = choice.token_ids
    return reply
