"""A worker's failures to whether it may be asked again."""

import time
from collections.abc import Callable

__all__ = ("Breaker",)

LONGEST_REST = 30.0


class Breaker:
    """Closed: asked. Open: rests, seconds that double with each failed trial. Then one request tries it out.

    Args:
        failures: in a row, after which it opens.
        rest: seconds of the first rest.
        clock: monotonic seconds.
    """

    def __init__(self, failures: int, rest: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures = failures
        self._first_rest = rest
        self._clock = clock
        self._count = 0
        self._rest = rest
        self._until = 0.0
        self._trying = False

    @property
    def open(self) -> bool:
        """Whether it rests, or is being tried out right now."""
        return self._count >= self._failures and (self._trying or self._clock() < self._until)

    def begin(self) -> None:
        """A request is sent."""
        if self._count >= self._failures:
            self._trying = True

    def succeed(self) -> None:
        """A request has had its first token, or the worker has spoken sense."""
        self._count, self._rest, self._trying = 0, self._first_rest, False

    def fail(self) -> None:
        """A request has failed by the worker's fault."""
        self._count += 1
        if self._count >= self._failures:
            self._until = self._clock() + self._rest
            self._rest = min(self._rest * 2, LONGEST_REST)
        self._trying = False

    def give_up(self) -> None:
        """A request ended before anything could be said of the worker (the client left)."""
        self._trying = False
