"""How much a server takes on: requests at once, bytes of a body, and the time that a body may take to come."""

import asyncio
import time
from typing import Any

from litestar.exceptions import HTTPException

from app.errors import Overloaded, TooLarge

__all__ = ("Admission", "SlowBody", "Watch", "bounded_receive")

GRACE_S = 30.0
"""Seconds that any body may take; after them it must have come at :data:`LEAST_RATE` or faster."""
LEAST_RATE = 10_000
"""Bytes a second. A request holds its place while its body comes, so bodies that never end would take all places."""

LOOK_EVERY_S = 1.0


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


class Reading:
    """One body on its way: when it must have come so far, in the loop's seconds, and whether it did not."""

    __slots__ = ("began", "late", "seen")

    def __init__(self, began: float) -> None:
        self.began = began
        self.seen = 0
        self.late = False

    def due(self) -> float:
        """When what comes next is late."""
        return self.began + GRACE_S + self.seen / LEAST_RATE


class Watch:
    """Wakes the tasks that wait too long for a body: one timer for all, since nearly every body is there at once."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Task[Any], Reading] = {}
        self._looking = False

    async def next(self, receive: Any, reading: Reading) -> Any:
        """The next ASGI message.

        Raises:
            SlowBody: it did not come in time.
        """
        task = asyncio.current_task()
        assert task is not None
        self._waiting[task] = reading
        if not self._looking:
            self._looking = True
            task.get_loop().call_later(LOOK_EVERY_S, self._look, task.get_loop())
        try:
            return await receive()
        except asyncio.CancelledError as error:
            if not reading.late or task.uncancel():
                raise
            raise SlowBody() from error
        finally:
            del self._waiting[task]

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looking = bool(self._waiting)
        if self._looking:
            loop.call_later(LOOK_EVERY_S, self._look, loop)
        now = loop.time()
        for task, reading in self._waiting.items():
            if not reading.late and reading.due() <= now:
                reading.late = True
                task.cancel()


def bounded_receive(scope: Any, receive: Any, limit: int, watch: Watch) -> Any:
    """A ``receive`` that stops a body at ``limit`` bytes, and one that comes too slowly; a length announced beyond the
    limit is refused unread.

    Raises:
        TooLarge: at once by Content-Length, or while a chunked body is read.
        SlowBody: while it is read.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            raise TooLarge(f"The body is larger than the {limit} bytes that this server takes.")
    reading = Reading(asyncio.get_running_loop().time())
    whole = False

    async def counted() -> Any:
        nonlocal whole
        if whole:
            return await receive()
        message = await watch.next(receive, reading)
        reading.seen += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if reading.seen > limit:
            raise TooLarge(f"The body is larger than the {limit} bytes that this server takes.")
        return message

    return counted
