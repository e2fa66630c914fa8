"""Refusals to replies: a status, and the envelope of the API that the path belongs to.

Three envelopes:

- vLLM's, for render, derender, tokenize, generate, models and the rest:
  ``{"error": {"message", "type", "param", "code": <status>}}``;
- OpenAI's, for the public chat completions, completions, responses and conversations:
  ``{"error": {"message", "type", "param", "code": <word or null>}}``;
- Anthropic's, for messages and count_tokens: ``{"type": "error", "error": {"type", "message"}, "request_id"}``.
"""

import logging
import re
from http import HTTPStatus
from typing import Any, Literal

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from app import errors
from app.http.exchange import exchange_of

__all__ = (
    "EXCEPTION_HANDLERS",
    "Family",
    "Refusal",
    "envelope",
    "family",
    "fault_body",
    "public_status",
    "refusal",
    "send_error",
)

log = logging.getLogger("isthmus")

Family = Literal["vllm", "openai", "anthropic"]
OPENAI_PATHS = re.compile(r"/v1/(chat/completions|completions|responses|conversations)(/|$)")
ANTHROPIC_PATHS = re.compile(r"/v1/messages(/count_tokens)?/?$")
SCALE_OUT_PATHS = re.compile(r"/(render|derender)/?$")


MESSAGE_CHARS, PARAM_CHARS = 2_000, 200
"""How much of a message and of a field's path is told: both may repeat what a caller wrote."""
BYTE = re.compile(r"\(byte (\d+)\)")


class Refusal(msgspec.Struct, frozen=True):
    """What is answered: status, message, the field at fault, and the words that each envelope has for it."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    kind: str | None = None
    """vLLM's type where the status alone does not say it."""
    place: str | None = None
    """Where the body is no JSON, which only vLLM's envelope tells."""
    headers: dict[str, str] = {}


VLLM_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    409: "ConflictError",
    413: "RequestTooLargeError",
    415: "UnsupportedMediaTypeError",
    422: "UnprocessableEntityError",
    429: "TooManyRequestsError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
    504: "GatewayTimeoutError",
}
OPENAI_TYPES = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", "permission_denied"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", "engine_unavailable"),
    504: ("server_error", "engine_timeout"),
}
ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
}
STATUSES: tuple[tuple[type[errors.IsthmusError], int], ...] = (
    (errors.BadMedia, 422),
    (errors.NotFound, 404),
    (errors.Unauthorized, 401),
    (errors.Forbidden, 403),
    (errors.Conflict, 409),
    (errors.TooLarge, 413),
    (errors.Overloaded, 429),
    (errors.EngineTimeout, 504),
    (errors.EngineFailure, 503),
    (errors.StoreFailure, 503),
    (errors.InvalidRequest, 400),
)


def family(path: str) -> Family:
    """Whose envelope a path's errors have."""
    if SCALE_OUT_PATHS.search(path):
        return "vllm"
    if OPENAI_PATHS.match(path):
        return "openai"
    return "anthropic" if ANTHROPIC_PATHS.match(path) else "vllm"


def refusal(error: BaseException) -> Refusal:
    """What an exception is answered with; one that nobody foresaw is a bug, is logged and says nothing of itself."""
    if isinstance(error, errors.IsthmusError):
        status = next((status for kind, status in STATUSES if isinstance(error, kind)), 500)
        headers = {}
        if isinstance(error, errors.Overloaded):
            headers["Retry-After"] = str(error.retry_after)
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if status != 500:
            return Refusal(status, error.message, error.param, error.code, headers=headers)
    if isinstance(error, msgspec.ValidationError):
        message, param = _schema_fault(error)
        return Refusal(400, message, param, kind="Bad Request")
    if isinstance(error, msgspec.DecodeError):
        at = BYTE.search(str(error))
        place = f"body.{at[1]}" if at else "body"
        return Refusal(400, f"The body is no valid JSON: {error}.", kind="Bad Request", place=place)
    if isinstance(error, RecursionError):
        return Refusal(400, "The body is nested too deeply.", kind="Bad Request")
    if isinstance(error, UnicodeError):
        return Refusal(400, "The body holds characters that are no valid Unicode.", kind="Bad Request")
    if isinstance(error, HTTPException) and error.status_code < 500:
        return Refusal(
            error.status_code,
            _http_message(error),
            next((name for name, _ in _query_faults(error)), None),
            kind="Bad Request" if error.status_code == 400 else None,
            headers={key: value for key, value in (error.headers or {}).items() if key.lower() != "content-type"},
        )
    log.error("bug: %s", type(error).__name__, exc_info=error)
    return Refusal(500, "Internal server error. It has been logged.")


def envelope(fault: Refusal, of: Family, request_id: str = "") -> dict[str, Any]:
    """The body of an error reply."""
    message, param = _cut(fault.message, MESSAGE_CHARS), fault.param and _cut(fault.param, PARAM_CHARS)
    if of == "anthropic":
        kind = ANTHROPIC_TYPES.get(fault.status, "invalid_request_error")
        message = f"{param}: {message}" if param and param not in message else message
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id or None}
    if of == "openai":
        kind, code = OPENAI_TYPES.get(fault.status, ("invalid_request_error", None))
        return {"error": {"message": message, "type": kind, "param": param, "code": fault.code or code}}
    kind = fault.kind or VLLM_TYPES.get(fault.status, _phrase(fault.status))
    return {"error": {"message": message, "type": kind, "param": param or fault.place, "code": fault.status}}


def public_status(fault: Refusal, of: Family) -> int:
    """The status as the path's API has it: only vLLM tells media that cannot be had (422) from other bad input."""
    return 400 if fault.status == 422 and of != "vllm" else fault.status


def _answer(scope: Any, error: BaseException) -> tuple[int, bytes, dict[str, str]]:
    of = family(scope["path"])
    fault = refusal(error)
    body = msgspec.json.encode(envelope(fault, of, exchange_of(scope).request_id))
    return public_status(fault, of), body, fault.headers


def fault_body(error: BaseException, of: Family = "vllm") -> dict[str, Any]:
    """The envelope of an error that comes after a stream has begun, as the body of an event."""
    return envelope(refusal(error), of)


async def send_error(scope: Any, send: Any, error: BaseException) -> None:
    """Answer a request with an error, outside of Litestar's exception handlers."""
    status, body, headers = _answer(scope, error)
    fields = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    fields += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def _reply(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    status, body, headers = _answer(request.scope, error)
    return Response(body, status_code=status, media_type="application/json", headers=headers)


_REFUSED = (HTTPException, errors.IsthmusError, msgspec.MsgspecError, RecursionError, UnicodeError, Exception)
EXCEPTION_HANDLERS: Any = dict.fromkeys(_REFUSED, _reply)


def _schema_fault(error: msgspec.ValidationError) -> tuple[str, str | None]:
    """``Expected `int`, got `str` - at `$.messages[0].role``` as a message and ``messages[0].role``."""
    reason, _, path = str(error).partition(" - at `$")
    if reason == "Number out of range":
        reason = "The number is larger than any float, about 1.8e308"
    param = path.rstrip("`").lstrip(".").replace("[...]", "") or None  # of a key that msgspec does not tell
    if missing := re.match(r"Object missing required field `(.+?)`", reason):
        param = f"{param}.{missing[1]}" if param else missing[1]
        return f"{param}: this field is required.", param
    if unknown := re.match(r"Object contains unknown field `(.+?)`", reason):
        param = f"{param}.{unknown[1]}" if param else unknown[1]
        return f"{param}: there is no such field.", param
    reason = reason.replace("`", "")
    return (f"{param}: {reason[:1].lower()}{reason[1:]}." if param else f"{reason}."), param


def _http_message(error: HTTPException) -> str:
    if error.status_code == 404:
        return "There is nothing at this path."
    if error.status_code == 405:
        return "This path does not take this method."
    if error.status_code == 413:
        return "The body is larger than this server takes."
    faults = [f"{name}: {reason[:1].lower()}{reason[1:]}." for name, reason in _query_faults(error)]
    return " ".join(faults) or error.detail or _phrase(error.status_code)


def _query_faults(error: HTTPException) -> list[tuple[str, str]]:
    """Query parameters that Litestar could not read, and why."""
    details = error.extra if isinstance(error.extra, list) else []
    found = [(entry.get("key"), entry.get("message")) for entry in details if isinstance(entry, dict)]
    return [(str(name), str(reason).replace("`", "").rstrip(".")) for name, reason in found if name]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
