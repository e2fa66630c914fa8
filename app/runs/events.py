"""What a Responses run yields, whoever produces it: events with their JSON, and on the last one how it ended."""

import msgspec
from msgspec import Raw, Struct

from app.errors import IsthmusError
from app.store.exact import ExactIds
from app.store.items import edit
from app.store.turn import Status, with_output

__all__ = ("TERMINAL", "Ended", "RunEvent", "failure", "terminal")

TERMINAL = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
"""Types of a stream's last event. OpenAI names none for a cancelled response; a stream must not end without one."""


class Ended(Struct, frozen=True, kw_only=True):
    """How a run ended: what the store keeps of it.

    ``body`` is the Response object as JSON (its ``output`` may be left out), ``output`` its items, ``exact`` the token
    ids where they are to be kept. ``error`` is the refusal behind a failure, where there is one: a reply that has not
    begun yet can still be an error of its own.
    """

    status: Status
    body: bytes
    output: list[Raw]
    exact: ExactIds | None = None
    error: IsthmusError | None = None


class RunEvent(Struct, frozen=True):
    """One event: its ``sequence_number``, its type, its JSON. ``ended`` is set on the last one, and only there.

    ``tokens`` counts the output so far, where the run's producer knows it.
    """

    sequence: int
    type: str
    data: bytes
    ended: Ended | None = None
    tokens: int = 0


def failure(body: bytes, sequence: int, *, code: str, message: str, error: Exception | None = None) -> list[RunEvent]:
    """The events of a run that fails: ``error``, then ``response.failed`` with the Response as far as it is known.

    Args:
        body: the Response as JSON.
        sequence: the first event's number.
        code: one of the API's words, ``server_error`` and the like.
        message: for the caller.
        error: what was raised.
    """
    told = {"type": "error", "code": code, "message": message, "param": None, "sequence_number": sequence}
    failed = edit(body, {"status": "failed", "error": {"code": code, "message": message}}, drop=("output",))
    refusal = error if isinstance(error, IsthmusError) else None
    ended = Ended(status="failed", body=failed, output=[], error=refusal)
    return [RunEvent(sequence, "error", msgspec.json.encode(told)), terminal(ended, sequence + 1)]


def terminal(ended: Ended, sequence: int, *, whole: bytes | None = None) -> RunEvent:
    """The last event of a run that ended so; ``whole`` is the Response with its output, where it is at hand."""
    if whole is None:
        whole = with_output(edit(ended.body, drop=("output",)), msgspec.json.encode(ended.output))
    kind = f"response.{ended.status}"
    event = {"type": kind, "sequence_number": sequence, "response": Raw(whole)}
    return RunEvent(sequence, kind, msgspec.json.encode(event), ended)
