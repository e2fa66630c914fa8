"""What a turn is while it is stored: its states, what it begins with, and what is read back."""

from typing import Literal

from msgspec import Raw, Struct

from app.errors import InvalidRequest, NotFound
from app.store.items import edit

__all__ = (
    "CONTINUABLE",
    "ENDED",
    "RUNNING",
    "Begun",
    "NewTurn",
    "Status",
    "StoredResponse",
    "check_continuable",
    "ended_body",
    "not_found",
    "previous_not_found",
    "usable_id",
    "with_output",
    "without_output",
)

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

RUNNING: tuple[Status, ...] = ("queued", "in_progress")
ENDED: tuple[Status, ...] = ("completed", "incomplete", "failed", "cancelled")
CONTINUABLE: tuple[Status, ...] = ("completed", "incomplete")


class NewTurn(Struct, frozen=True, kw_only=True):
    """All that is known of a turn before it is generated.

    ``input`` are this turn's own items, with ids; ``body`` is the reply as it stands now, a JSON object (its
    ``output`` is dropped); ``owner`` names the process that runs it; ``request_hash`` tells whether a repeated
    ``idempotency_key`` comes with the same request.
    """

    id: str
    model: str
    input: list[Raw]
    body: bytes
    owner: str
    previous_id: str | None = None
    conversation_id: str | None = None
    status: Literal["queued", "in_progress"] = "in_progress"
    background: bool = False
    idempotency_key: str | None = None
    request_hash: bytes = b""


class StoredResponse(Struct, frozen=True):
    """A stored response; ``body`` is the whole reply, output included, as JSON."""

    id: str
    status: Status
    background: bool
    body: bytes


class Begun(Struct, frozen=True):
    """``repeated`` is the answer of an earlier request with the same idempotency key; None: a turn has begun."""

    repeated: StoredResponse | None = None


def usable_id(value: str) -> bool:
    """Whether this can be an id at all; anything else is not found without asking the database."""
    return 0 < len(value) <= 200 and value.isascii() and value.isprintable()


def not_found(response_id: str) -> NotFound:
    """The one refusal of a response that is absent, foreign, expired or deleted."""
    return NotFound(f"Response with id '{response_id}' not found.", param="response_id")


def previous_not_found(response_id: str) -> InvalidRequest:
    """The one refusal of a previous response that is absent, foreign, expired, deleted, or has lost a turn."""
    return InvalidRequest(
        f"Previous response with id '{response_id}' not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def check_continuable(response_id: str, status: str) -> None:
    """Refuse to continue a response that has no usable end.

    Raises:
        InvalidRequest: the response still runs, failed, or was cancelled.
    """
    if status not in CONTINUABLE:
        raise InvalidRequest(
            f"The previous response '{response_id}' is {status}; only a completed or incomplete one can be continued.",
            param="previous_response_id",
        )


def without_output(body: bytes) -> bytes:
    """A reply as it is stored: its output stands in the turn, once."""
    return edit(body, drop=("output",))


def with_output(body: bytes, output: bytes) -> bytes:
    """A stored reply made whole."""
    if body == b"{}":
        return b'{"output":' + output + b"}"
    return body[:-1] + b',"output":' + output + b"}"


def ended_body(body: bytes, status: Status, *, code: str = "", message: str = "") -> bytes:
    """A stored reply that ends without a result of its own: cancelled, or failed with an error."""
    changes: dict[str, object] = {"status": status}
    if code:
        changes["error"] = {"code": code, "message": message}
    if status in ("cancelled", "failed"):
        changes["completed_at"] = None
    return edit(body, changes)
