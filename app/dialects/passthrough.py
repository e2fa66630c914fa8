"""What goes through to the engine unread: cache salt, priority, transfer parameters, extra arguments."""

from typing import Any

from msgspec import Struct

from app.errors import InvalidRequest
from app.protocol.request_fields import RenderFields
from app.rendering.limits import INT64, MAX_CACHE_SALT, MAX_REQUEST_ID

__all__ = ("Passthrough", "check_cache_salt", "read_passthrough")


class Passthrough(Struct, frozen=True, kw_only=True):
    """Checked values for ``RenderInput``; ``prompt_token_ids`` came inside ``kv_transfer_params``."""

    cache_salt: str | None
    priority: int
    kv_transfer_params: dict[str, Any] | None
    ec_transfer_params: dict[str, Any] | None
    extra_args: dict[str, Any] | None
    prompt_token_ids: Any = None


def check_cache_salt(salt: str | None) -> str | None:
    """The salt, if a prefix cache can use it as part of a key or a path."""
    if salt is None:
        return None
    if not salt:
        raise InvalidRequest("`cache_salt` must not be empty; leave it out instead.", param="cache_salt")
    if len(salt) > MAX_CACHE_SALT or any(character in salt for character in "@/\\\0"):
        raise InvalidRequest(
            f"`cache_salt` takes at most {MAX_CACHE_SALT} characters, none of them @, /, \\ or NUL.", param="cache_salt"
        )
    return salt


def read_passthrough(
    *,
    cache_salt: str | None = None,
    priority: int | None = None,
    kv_transfer_params: dict[str, Any] | None = None,
    ec_transfer_params: dict[str, Any] | None = None,
    vllm_xargs: dict[str, Any] | None = None,
) -> Passthrough:
    """Check the values; transfer parameters that a client put into ``vllm_xargs`` are taken from there."""
    if priority is not None and priority not in INT64:
        raise InvalidRequest("`priority` must fit into 64 bits.", param="priority")
    extra = dict(vllm_xargs) if vllm_xargs is not None else None
    moved: dict[str, dict[str, Any] | None] = {}
    for key, own in (("kv_transfer_params", kv_transfer_params), ("ec_transfer_params", ec_transfer_params)):
        value = extra.pop(key, None) if extra else None
        if value is not None and not isinstance(value, dict):
            raise InvalidRequest(f"`{key}` must be an object.", param=f"vllm_xargs.{key}")
        moved[key] = own if own is not None else value
    for key, value in (extra or {}).items():
        _check_extra(value, f"vllm_xargs.{key}")
    kv, prompt_token_ids = moved["kv_transfer_params"], None
    if kv is not None and "prompt_token_ids" in kv:
        kv = dict(kv)
        prompt_token_ids = kv.pop("prompt_token_ids")
    return Passthrough(
        cache_salt=check_cache_salt(cache_salt),
        priority=priority or 0,
        kv_transfer_params=kv,
        ec_transfer_params=moved["ec_transfer_params"],
        extra_args=extra,
        prompt_token_ids=prompt_token_ids,
    )


def read_fields(request: RenderFields) -> Passthrough:
    """:func:`read_passthrough` of a request that has the shared fields."""
    if request.request_id is not None and len(request.request_id) > MAX_REQUEST_ID:
        raise InvalidRequest(f"`request_id` takes at most {MAX_REQUEST_ID} characters.", param="request_id")
    return read_passthrough(
        cache_salt=request.cache_salt,
        priority=request.priority,
        kv_transfer_params=request.kv_transfer_params,
        ec_transfer_params=request.ec_transfer_params,
        vllm_xargs=request.vllm_xargs,
    )


def _check_extra(value: Any, param: str, *, inside: bool = False) -> None:
    """An engine takes strings, numbers and lists of them; integers must fit its 64-bit messages."""
    if isinstance(value, list) and not inside:
        for position, item in enumerate(value):
            _check_extra(item, f"{param}[{position}]", inside=True)
    elif not isinstance(value, str | int | float):
        raise InvalidRequest("Only strings, numbers and lists of them are taken here.", param=param)
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise InvalidRequest("Integers here must be between -2**63 and 2**64 - 1.", param=param)
