"""Bytes of a server-sent event stream to the data of its events."""

from app.errors import EngineFailure

__all__ = ("SseReader",)


class SseReader:
    """Only what engines send: ``data:`` lines, blank lines between events, comments; any line ending.

    Args:
        limit: bytes that one event may have; more is an :class:`app.errors.EngineFailure`, not memory.
    """

    def __init__(self, limit: int = 64 * 1024 * 1024) -> None:
        self._limit = limit
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[bytes]:
        """The data of every event that ``received`` completes."""
        events: list[bytes] = []
        *lines, self._rest = (self._rest + received).split(b"\n")
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if not line:
                if self._data:
                    events.append(b"\n".join(self._data))
                    self._data = []
            elif line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
        if len(self._rest) + sum(map(len, self._data)) > self._limit:
            raise EngineFailure(f"The worker sent an event of more than {self._limit} bytes.")
        return events

    @property
    def unfinished(self) -> bool:
        """Whether the stream stands inside an event."""
        return bool(self._rest.strip() or self._data)
