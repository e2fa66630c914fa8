"""What every dialect's writer is: derendered steps in, that API's own streamed events out.

A writer is a pure state machine and does no I/O. The whole reply is made from the events alone (``fold`` beside each
writer), so a streamed and a whole reply cannot differ (law 2).
"""

from typing import Any, Protocol

from msgspec import Struct

from app.derendering.derenderer import Step
from app.protocol.usage import GenerateUsage

__all__ = ("Event", "ReplyHead", "Usage", "Writer")


class Event(Struct, frozen=True):
    """One streamed event; ``name`` is the SSE event's, None where the API has only data."""

    name: str | None
    data: Any


class ReplyHead(Struct, frozen=True, kw_only=True):
    """What stands on every event of a reply. ``created`` is in Unix seconds, ``model`` the name that was asked for."""

    id: str
    created: int
    model: str


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one reply, all its outputs together; None where the engine does not tell."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    def wire(self) -> GenerateUsage:
        """As chat and completions report it."""
        return GenerateUsage(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            total_tokens=self.prompt_tokens + self.completion_tokens,
            prompt_tokens_details=None if self.cached_tokens is None else {"cached_tokens": self.cached_tokens},
            completion_tokens_details=None
            if self.reasoning_tokens is None
            else {"reasoning_tokens": self.reasoning_tokens},
        )


class Writer(Protocol):
    """One reply being written. ``dump`` and ``load`` carry it from chunk to chunk of a derendered stream."""

    def start(self) -> list[Event]:
        """What comes before any output."""

    def feed(self, step: Step, usage: Usage | None = None) -> list[Event]:
        """The events of one step; ``usage`` so far, for APIs that may report it in every event."""

    def finish(self, usage: Usage) -> list[Event]:
        """What comes after the last step."""

    def fail(self, message: str, *, code: str = "server_error") -> list[Event]:
        """The API's own words for a failure after the first byte; nothing may be fed afterwards."""

    def dump(self) -> Any:
        """The state, as msgpack can carry it."""

    def load(self, state: Any) -> None:
        """Go on from :meth:`dump`'s state."""
