"""A tenant's requests to a cache salt of its own."""

import hashlib

from msgspec.structs import replace

from app.rendering.request import RenderInput

__all__ = ("salted",)


def salted(given: RenderInput, tenant: str) -> RenderInput:
    """The request with a salt that no other tenant's requests have.

    So that nobody can find out by timing what another's prompts were, whatever salt it sends. On an open server
    (tenant ``""``) the request's own salt stays.
    """
    if not tenant:
        return given
    salt = hashlib.sha256(f"{tenant}\0{given.cache_salt or ''}".encode()).hexdigest()[:32]
    return replace(given, cache_salt=salt)
