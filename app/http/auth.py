"""API keys to tenants, in constant time."""

import hashlib
import hmac
from collections.abc import Iterable

from app.errors import Unauthorized
from app.settings import ApiKey

__all__ = ("KeyRing",)

Headers = Iterable[tuple[bytes, bytes]]


class KeyRing:
    """The configured keys. Without any the server is open, and everyone is the one tenant ``""``.

    A key is sent as ``Authorization: Bearer KEY`` or as ``x-api-key: KEY`` (the Anthropic SDK's way). Every
    configured key is compared, digest against digest, so that the time taken tells nothing about them.
    """

    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self._keys = [(_digest(key.key.encode()), key.tenant or _own_tenant(key.key)) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def tenant(self, headers: Headers) -> str:
        """Whose request this is.

        Raises:
            Unauthorized: no key, or none of ours.
        """
        if not self._keys:
            return ""
        given = _given(headers)
        if given is None:
            raise Unauthorized("An API key is needed: send Authorization: Bearer KEY.")
        digest = _digest(given)
        found: str | None = None
        for known, tenant in self._keys:
            if hmac.compare_digest(known, digest):
                found = tenant
        if found is None:
            raise Unauthorized("This API key is not known here.")
        return found


def _given(headers: Headers) -> bytes | None:
    other: bytes | None = None
    for name, value in headers:
        if name == b"authorization":
            scheme, _, key = value.strip().partition(b" ")
            if scheme.lower() == b"bearer" and key.strip():
                return key.strip()
        elif name == b"x-api-key":
            other = value.strip() or None
    return other


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _own_tenant(key: str) -> str:
    """A name for a key that is its own tenant; the key can't be found from it, and it stays when keys move around."""
    return "key-" + hashlib.sha256(b"isthmus tenant\0" + key.encode()).hexdigest()[:24]
