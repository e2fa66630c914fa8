"""Everything that can be refused, as one tree without any HTTP in it.

::

    IsthmusError
    ├── InvalidRequest         a field's value or combination is wrong
    │   ├── Unsupported        understood, but not served here
    │   └── InvalidState       derender state that is forged, foreign or stale
    ├── BadMedia               an image or video could not be fetched or was refused
    ├── NotFound               no such model, response, conversation, item
    │   └── ModelNotFound
    ├── Unauthorized           no or a wrong API key
    ├── Forbidden              the endpoint is switched off
    ├── Conflict               a lost race, or an idempotency key used for another request
    ├── TooLarge               a body over the size limit
    ├── Overloaded             the queue is full; try again later
    ├── EngineFailure          the engine or all of its workers failed
    │   └── EngineTimeout
    ├── StoreFailure           the database cannot be reached, or refused what it was told
    └── StartupError           a setting, plugin or model that stops start-up

``app.http.errors`` maps each to a status and to the envelope of the path's own API.
"""

__all__ = (
    "BadMedia",
    "Conflict",
    "EngineFailure",
    "EngineTimeout",
    "Forbidden",
    "InvalidRequest",
    "InvalidState",
    "IsthmusError",
    "ModelNotFound",
    "NotFound",
    "Overloaded",
    "StartupError",
    "StoreFailure",
    "TooLarge",
    "Unauthorized",
    "Unsupported",
)

NAME_SHOWN = 100
"""Characters of a caller's name for a model that a refusal repeats."""


class IsthmusError(Exception):
    """Base of all refusals.

    Args:
        message: one plain sentence for the caller.
        param: the request field at fault, dotted and indexed (``messages[0].content``), or None.
        code: a short machine-readable word where an API defines one (``previous_response_not_found``).
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


class InvalidRequest(IsthmusError):
    """A field's value, or a combination of fields, is wrong."""


class Unsupported(InvalidRequest):
    """The request is understood, but asks for something this server or engine does not do."""


class InvalidState(InvalidRequest):
    """Derender stream state that is forged, of another server key, or of another stream."""


class BadMedia(IsthmusError):
    """An image or video that could not be fetched, or whose address is refused."""


class NotFound(IsthmusError):
    """No such thing, or not the caller's."""


class ModelNotFound(NotFound):
    """No served model has this name."""

    def __init__(self, name: str, known: list[str]) -> None:
        shown = name if len(name) <= NAME_SHOWN else f"{name[:NAME_SHOWN]}…"
        super().__init__(
            f"The model `{shown}` is not served here. Served: {', '.join(known)}.",
            param="model",
            code="model_not_found",
        )


class Unauthorized(IsthmusError):
    """The API key is missing or wrong."""


class Forbidden(IsthmusError):
    """The endpoint is switched off on this server."""


class Conflict(IsthmusError):
    """A lost race, or an idempotency key that was used for another request."""


class TooLarge(IsthmusError):
    """The body is larger than the server takes."""


class Overloaded(IsthmusError):
    """The server has all the work it can take.

    Args:
        retry_after: whole seconds after which a new attempt makes sense.
    """

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EngineFailure(IsthmusError):
    """The engine, or every worker of a fleet, failed."""


class EngineTimeout(EngineFailure):
    """The engine did not answer in time."""


class StoreFailure(IsthmusError):
    """The database cannot be reached, or failed; nothing was written."""


class StartupError(IsthmusError):
    """A setting, plugin or model that stops start-up; the message is one line that names it."""
