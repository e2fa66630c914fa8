"""The streamed events of the Responses API; ``type`` is also the SSE event's name.

``sequence_number`` counts all events of a stream from 0; ``output_index`` counts items of all kinds.
"""

from msgspec import Struct

from app.protocol.responses_reply import OutputItem, OutputText, ReasoningText, Response, TextLogprob

__all__ = (
    "ContentPartAdded",
    "ContentPartDone",
    "CustomToolCallInputDelta",
    "CustomToolCallInputDone",
    "ErrorHappened",
    "FunctionCallArgumentsDelta",
    "FunctionCallArgumentsDone",
    "OutputItemAdded",
    "OutputItemDone",
    "OutputTextDelta",
    "OutputTextDone",
    "ReasoningTextDelta",
    "ReasoningTextDone",
    "ResponseEvent",
)


class ResponseEvent(Struct, kw_only=True):
    """created, queued, in_progress, completed, incomplete and failed: the whole response as it is."""

    type: str
    sequence_number: int
    response: Response


class _Item(Struct, kw_only=True):
    type: str
    sequence_number: int
    output_index: int
    item: OutputItem


class OutputItemAdded(_Item, kw_only=True):
    """An item begins."""

    type: str = "response.output_item.added"


class OutputItemDone(_Item, kw_only=True):
    """An item is whole."""

    type: str = "response.output_item.done"


class _OfItem(Struct, kw_only=True):
    type: str
    sequence_number: int
    item_id: str
    output_index: int


class _OfPart(_OfItem, kw_only=True):
    content_index: int = 0


class ContentPartAdded(_OfPart, kw_only=True):
    """A part of an item begins."""

    type: str = "response.content_part.added"
    part: OutputText | ReasoningText


class ContentPartDone(_OfPart, kw_only=True):
    """A part of an item is whole."""

    type: str = "response.content_part.done"
    part: OutputText | ReasoningText


class OutputTextDelta(_OfPart, kw_only=True):
    """More text of a message."""

    type: str = "response.output_text.delta"
    delta: str
    logprobs: list[TextLogprob] = []


class OutputTextDone(_OfPart, kw_only=True):
    """The whole text of a message."""

    type: str = "response.output_text.done"
    text: str
    logprobs: list[TextLogprob] = []


class ReasoningTextDelta(_OfPart, kw_only=True):
    """More reasoning."""

    type: str = "response.reasoning_text.delta"
    delta: str


class ReasoningTextDone(_OfPart, kw_only=True):
    """The whole reasoning."""

    type: str = "response.reasoning_text.done"
    text: str


class FunctionCallArgumentsDelta(_OfItem, kw_only=True):
    """More of a call's JSON text."""

    type: str = "response.function_call_arguments.delta"
    delta: str


class FunctionCallArgumentsDone(_OfItem, kw_only=True):
    """A call's whole JSON text."""

    type: str = "response.function_call_arguments.done"
    arguments: str
    name: str


class CustomToolCallInputDelta(_OfItem, kw_only=True):
    """More of a free-form tool's input."""

    type: str = "response.custom_tool_call_input.delta"
    delta: str


class CustomToolCallInputDone(_OfItem, kw_only=True):
    """The whole input of a free-form tool."""

    type: str = "response.custom_tool_call_input.done"
    input: str


class ErrorHappened(Struct, kw_only=True):
    """A failure after the first byte; ``response.failed`` follows."""

    type: str = "error"
    sequence_number: int
    code: str | None = None
    message: str
    param: str | None = None
