"""Request ids: the caller's header, else the body's field, else random."""

import secrets

__all__ = ("base_id",)


def base_id(header: str | None, body: str | None) -> str:
    """The base of a render's request id: ``X-Request-Id`` first, then the body's, else 16 hex digits."""
    return header or body or secrets.token_hex(8)
