"""How much a server takes on: requests at once, bytes of a body, and the time that a body may take to come."""

import asyncio
import time
from typing import Any

from litestar.exceptions import HTTPException

from app.errors import Overloaded, TooLarge

__all__ = ("Admission", "SlowBody", "bounded_receive")

GRACE_S = 30.0
"""Seconds that any body may take; after them it must have come at :data:`LEAST_RATE` or faster."""
LEAST_RATE = 10_000
"""Bytes a second. A request holds its place while its body comes, so bodies that never end would take all places."""


class SlowBody(HTTPException):
    """The body did not come in time."""

    status_code = 408
    detail = "The body came too slowly, or not all of it came."


class Admission:
    """Counts the requests in work or waiting and refuses the one that would be too many.

    Args:
        limit: requests at once in this process.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self.last_left = time.monotonic()

    def enter(self) -> None:
        """Take a place; :meth:`leave` gives it back.

        Raises:
            Overloaded: all places are taken.
        """
        if self.running >= self.limit:
            raise Overloaded("The server has all the work it can take; try again shortly.", retry_after=1)
        self.running += 1

    def leave(self) -> None:
        """Give the place back."""
        self.running -= 1
        self.last_left = time.monotonic()

    def idle_s(self) -> float:
        """For how many seconds no request has been in work."""
        return 0.0 if self.running else time.monotonic() - self.last_left


def bounded_receive(scope: Any, receive: Any, limit: int) -> Any:
    """A ``receive`` that stops a body at ``limit`` bytes, and one that comes too slowly; a length announced beyond the
    limit is refused unread.

    Raises:
        TooLarge: at once by Content-Length, or while a chunked body is read.
        SlowBody: while it is read.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            raise TooLarge(f"The body is larger than the {limit} bytes that this server takes.")
    seen, whole = 0, False
    began = asyncio.get_running_loop().time()

    async def counted() -> Any:
        nonlocal seen, whole
        if whole:
            return await receive()
        try:
            async with asyncio.timeout_at(began + GRACE_S + seen / LEAST_RATE):
                message = await receive()
        except TimeoutError as error:
            raise SlowBody() from error
        seen += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if seen > limit:
            raise TooLarge(f"The body is larger than the {limit} bytes that this server takes.")
        return message

    return counted
