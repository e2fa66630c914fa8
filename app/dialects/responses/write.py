"""Derendered steps to the Responses API's events; the whole reply is the last event's response.

::

    created → in_progress
    reasoning  item.added → part.added → reasoning_text.delta* → .done → part.done → item.done
    text       item.added → part.added → output_text.delta* → .done → part.done → item.done
    call       item.added → function_call_arguments.delta* → .done → item.done
    completed | incomplete | failed

One sequence of numbers over all events, one id per item, items announced once and done in order.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from app.derendering.derenderer import Step
from app.derendering.logprobs import Position
from app.dialects.responses.free_form import free_form_input
from app.dialects.responses.opening import CalledTool
from app.dialects.writer import Event, Usage
from app.parsing.deltas import CallArguments, CallEnd, CallStart, Content, Reasoning
from app.protocol import responses_events as events
from app.protocol.ids import ITEM_PREFIXES, item_id
from app.protocol.responses_reply import (
    CustomToolCallItem,
    FunctionCallItem,
    IncompleteDetails,
    InputTokensDetails,
    MessageItem,
    OutputItem,
    OutputText,
    OutputTokensDetails,
    ReasoningItem,
    ReasoningText,
    Response,
    ResponseError,
    ResponseUsage,
    TextLogprob,
    TextTopLogprob,
)

__all__ = ("ResponsesWriter", "WriterState", "fold")


class OpenItem(Struct, array_like=True):
    """The item that is being written: its text or arguments so far, ``told`` characters of a free-form input."""

    kind: str
    id: str
    text: list[str] = []
    logprobs: list[TextLogprob] = []
    name: str = ""
    call_id: str = ""
    told: int = 0


class WriterState(Struct, array_like=True):
    """``items`` are those that are done. ``outcome`` is the finish reason, once it is known."""

    sequence: int = 0
    items: list[OutputItem] = []
    open: OpenItem | None = None
    outcome: str | None = None


class ResponsesWriter:
    """Writes one response.

    Args:
        opening: the response before its first item (:func:`app.dialects.responses.opening.open_response`).
        tools: those that the caller knows by another name or as free-form.
        logprobs: whether they were asked for with ``include``.
    """

    def __init__(
        self, opening: Response, *, tools: Mapping[str, CalledTool] | None = None, logprobs: bool = False
    ) -> None:
        self._opening = opening
        self._tools = tools or {}
        self._logprobs = logprobs
        self._state = WriterState()

    def start(self) -> list[Event]:
        """created and in_progress."""
        opening = self._opening
        return [
            self._lifecycle("response.created", opening),
            self._lifecycle("response.in_progress", replace(opening, status="in_progress")),
        ]

    def feed(self, step: Step, usage: Usage | None = None) -> list[Event]:
        """The events of the first choice's step; there is but one in this API."""
        if step.index != 0:
            return []
        found: list[Event] = []
        scores = self._scores(step)
        for delta in step.deltas:
            match delta:
                case Content(text):
                    self._switch(found, "message")
                    found.append(self._text_delta(text, scores))
                    scores = []
                case Reasoning(text):
                    self._switch(found, "reasoning")
                    found.append(self._text_delta(text, []))
                case CallStart(_, name, call_id):
                    self._close(found)
                    custom = name in self._tools and self._tools[name].custom
                    self._begin(found, "custom_tool_call" if custom else "function_call", name, call_id or "")
                case CallArguments(_, text):
                    found += self._arguments(text)
                case CallEnd(_, complete):
                    cut = not complete and step.finish_reason not in (None, "stop", "tool_calls")
                    self._close(found, "incomplete" if cut else "completed")
        if scores and self._state.open is not None and self._state.open.kind == "message":
            found.append(self._text_delta("", scores))
        if step.finish_reason is not None:
            self._close(found, "completed" if step.finish_reason in ("stop", "tool_calls") else "incomplete")
            self._state.outcome = step.finish_reason
        return found

    def finish(self, usage: Usage, *, completed_at: int | None = None) -> list[Event]:
        """The terminal event with the whole response.

        Args:
            completed_at: Unix seconds; without it the time of creation.
        """
        found: list[Event] = []
        outcome = self._state.outcome
        if outcome == "abort":
            return self.fail("The generation was aborted.", usage=usage)
        cut = outcome in (None, "length")
        self._close(found, "incomplete" if cut else "completed")
        response = replace(self._opening, output=list(self._state.items), usage=wire_usage(usage))
        if cut:
            response.status, response.incomplete_details = "incomplete", IncompleteDetails("max_output_tokens")
        else:
            response.status = "completed"
            response.completed_at = self._opening.created_at if completed_at is None else completed_at
        return [*found, self._lifecycle(f"response.{response.status}", response)]

    def fail(self, message: str, *, code: str = "server_error", usage: Usage | None = None) -> list[Event]:
        """error, then response.failed with the items so far, the open one left incomplete."""
        found: list[Event] = []
        self._close(found, "incomplete")
        error = events.ErrorHappened(sequence_number=self._next(), code=code, message=message)
        response = replace(
            self._opening,
            status="failed",
            error=ResponseError(code, message),
            output=list(self._state.items),
            usage=None if usage is None else wire_usage(usage),
        )
        return [*found, Event("error", error), self._lifecycle("response.failed", response)]

    def dump(self) -> WriterState:
        """The events' counter, the items so far and the open one: what the terminal event repeats."""
        return self._state

    def load(self, state: Any) -> None:
        """Go on from :meth:`dump`'s state."""
        self._state = msgspec.convert(state, WriterState)

    def _next(self) -> int:
        number = self._state.sequence
        self._state.sequence += 1
        return number

    def _lifecycle(self, type: str, response: Response) -> Event:
        return Event(type, events.ResponseEvent(type=type, sequence_number=self._next(), response=response))

    def _event(self, kind: type[Any], item: OpenItem, **fields: Any) -> Event:
        data = kind(sequence_number=self._next(), item_id=item.id, output_index=len(self._state.items), **fields)
        return Event(data.type, data)

    def _switch(self, found: list[Event], kind: str) -> None:
        """The open item is of this kind, or ends and one of this kind begins."""
        if self._state.open is None or self._state.open.kind != kind:
            self._close(found)
            self._begin(found, kind)

    def _begin(self, found: list[Event], kind: str, name: str = "", call_id: str = "") -> None:
        index = len(self._state.items)
        item = OpenItem(kind, item_id(ITEM_PREFIXES[kind], self._opening.id, index), name=name, call_id=call_id)
        self._state.open = item
        added = events.OutputItemAdded(
            sequence_number=self._next(), output_index=index, item=self._item(item, "in_progress", begun=True)
        )
        found.append(Event(added.type, added))
        if kind == "message":
            found.append(self._event(events.ContentPartAdded, item, part=OutputText(text="")))
        elif kind == "reasoning":
            found.append(self._event(events.ContentPartAdded, item, part=ReasoningText(text="")))

    def _text_delta(self, text: str, scores: list[TextLogprob]) -> Event:
        item = self._state.open
        assert item is not None
        item.text.append(text)
        if item.kind == "reasoning":
            return self._event(events.ReasoningTextDelta, item, delta=text)
        item.logprobs += scores
        return self._event(events.OutputTextDelta, item, delta=text, logprobs=scores)

    def _arguments(self, text: str) -> list[Event]:
        item = self._state.open
        if item is None or not text:
            return []
        item.text.append(text)
        if item.kind == "custom_tool_call":
            return self._input_delta(item, final=False)
        return [self._event(events.FunctionCallArgumentsDelta, item, delta=text)]

    def _input_delta(self, item: OpenItem, *, final: bool) -> list[Event]:
        """What has become certain of a free-form input since the last delta."""
        more = free_form_input("".join(item.text), final=final)[item.told :]
        item.told += len(more)
        return [self._event(events.CustomToolCallInputDelta, item, delta=more)] if more else []

    def _close(self, found: list[Event], status: str = "completed") -> None:
        item = self._state.open
        if item is None:
            return
        text = "".join(item.text)
        match item.kind:
            case "message":
                found.append(self._event(events.OutputTextDone, item, text=text, logprobs=item.logprobs))
                part = OutputText(text=text, logprobs=item.logprobs)
                found.append(self._event(events.ContentPartDone, item, part=part))
            case "reasoning":
                found.append(self._event(events.ReasoningTextDone, item, text=text))
                found.append(self._event(events.ContentPartDone, item, part=ReasoningText(text=text)))
            case "custom_tool_call":
                found += self._input_delta(item, final=True)
                given = free_form_input(text, final=True)
                found.append(self._event(events.CustomToolCallInputDone, item, input=given))
            case _:
                name = self._called(item).name
                found.append(self._event(events.FunctionCallArgumentsDone, item, arguments=text, name=name))
        whole = self._item(item, status)
        done = events.OutputItemDone(sequence_number=self._next(), output_index=len(self._state.items), item=whole)
        self._state.items.append(whole)
        self._state.open = None
        found.append(Event(done.type, done))

    def _called(self, item: OpenItem) -> CalledTool:
        return self._tools.get(item.name) or CalledTool(item.name)

    def _item(self, item: OpenItem, status: str, *, begun: bool = False) -> OutputItem:
        text = "".join(item.text)
        match item.kind:
            case "message":
                parts = [] if begun else [OutputText(text=text, logprobs=item.logprobs)]
                return MessageItem(id=item.id, status=status, content=parts)
            case "reasoning":
                return ReasoningItem(id=item.id, status=status, content=[] if begun else [ReasoningText(text=text)])
        tool = self._called(item)
        space = UNSET if tool.namespace is None else tool.namespace
        if item.kind == "custom_tool_call":
            return CustomToolCallItem(
                id=item.id,
                call_id=item.call_id,
                name=tool.name,
                namespace=space,
                input=free_form_input(text, final=True),
                status=status,
            )
        return FunctionCallItem(
            id=item.id, call_id=item.call_id, name=tool.name, namespace=space, arguments=text, status=status
        )

    def _scores(self, step: Step) -> list[TextLogprob]:
        if not self._logprobs or not step.logprobs:
            return []
        return [_score(p) for p, text in zip(step.logprobs, step.in_content, strict=True) if text]


def wire_usage(usage: Usage) -> ResponseUsage:
    """As the Responses API reports it."""
    return ResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=InputTokensDetails(cached_tokens=usage.cached_tokens or 0),
        output_tokens=usage.completion_tokens,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens or 0),
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )


def _score(position: Position) -> TextLogprob:
    own = position.sampled
    others = [TextTopLogprob(other.token, other.logprob, other.bytes) for other in position.top]
    return TextLogprob(own.token, own.logprob, own.bytes, others)


def fold(written: Sequence[Event]) -> Response:
    """The whole reply: the response of the terminal event."""
    last = written[-1].data
    assert isinstance(last, events.ResponseEvent)
    return last.response
