"""Refusals of a request that lies in a field of another one."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import InvalidRequest

__all__ = ("inside",)


@contextmanager
def inside(field: str) -> Iterator[None]:
    """Let refusals name the field by its whole path: ``chat_request.messages[0].content``."""
    try:
        yield
    except InvalidRequest as error:
        error.param = f"{field}.{error.param}" if error.param else field
        raise
