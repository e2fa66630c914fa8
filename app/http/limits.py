"""How much a server takes on: requests at once, and bytes of a body."""

import time
from typing import Any

from app.errors import Overloaded, TooLarge

__all__ = ("Admission", "bounded_receive")


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
    """A ``receive`` that stops a body at ``limit`` bytes; a length announced beyond it is refused unread.

    Raises:
        TooLarge: at once by Content-Length, or while a chunked body is read.
    """
    for name, value in scope["headers"]:
        if name == b"content-length":
            if value.isdigit() and int(value) > limit:
                raise TooLarge(f"The body is larger than the {limit} bytes that this server takes.")
            return receive
    seen = 0

    async def counted() -> Any:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise TooLarge(f"The body is larger than the {limit} bytes that this server takes.")
        return message

    return counted
