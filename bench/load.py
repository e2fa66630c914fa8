"""A load generator: keep-alive connections over raw sockets, one thread, enough for 30,000 requests a second."""

import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

__all__ = ("Result", "drive", "get", "post")


@dataclass
class Result:
    """What one run came to; latencies in seconds, sorted."""

    seconds: float
    latencies: list[float] = field(default_factory=list)
    failed: int = 0
    first_failure: bytes = b""

    @property
    def rate(self) -> float:
        """Good replies a second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """The latency that this share of the replies did not exceed, in seconds."""
        return self.latencies[min(len(self.latencies) - 1, int(share * len(self.latencies)))] if self.latencies else 0.0


def post(url: str, body: bytes) -> bytes:
    """A POST as bytes for the wire."""
    parts = urlsplit(url)
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def get(url: str, path: bytes) -> bytes:
    """A GET of a path at this server as bytes for the wire."""
    return b"GET " + path + b" HTTP/1.1\r\nHost: " + urlsplit(url).netloc.encode() + b"\r\n\r\n"


class Connection:
    """One connection that sends the next request when the reply to the last one is whole."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.pending = memoryview(b"")
        self.reply = bytearray()
        self.whole = 0
        self.began = 0.0

    def send(self, request: bytes) -> bool:
        """Begin a request; True where all of it is out."""
        self.began = time.perf_counter()
        self.pending = memoryview(request)
        self.reply.clear()
        self.whole = 0
        return self.flush()

    def flush(self) -> bool:
        """Send what is left; True where that was all."""
        try:
            self.pending = self.pending[self.socket.send(self.pending) :]
        except BlockingIOError:
            return False
        return not self.pending

    def receive(self) -> bool:
        """Take what came; True where the reply is whole."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.reply += data
        if not self.whole:
            end = self.reply.find(b"\r\n\r\n")
            if end < 0:
                return False
            head = bytes(self.reply[:end]).lower()
            at = head.find(b"content-length:")
            if at < 0:
                raise ConnectionError("a reply without a length")
            self.whole = end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])
        return len(self.reply) >= self.whole


def drive(
    url: str,
    requests: list[bytes],
    *,
    connections: int,
    seconds: float,
    warm_up: float = 1.0,
    wire: Callable[[str, bytes], bytes] = post,
) -> Result:
    """Keep so many connections busy for a while; replies of the warm-up are not counted."""
    parts = urlsplit(url)
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    selector = selectors.DefaultSelector()
    wires = [wire(url, request) for request in requests]
    sent = 0
    for _ in range(connections):
        connection = Connection(address)
        out = connection.send(wires[sent % len(wires)])
        sent += 1
        selector.register(connection.socket, _interest(out), connection)
    began = time.perf_counter() + warm_up
    ends = began + seconds
    result = Result(seconds)
    while (now := time.perf_counter()) < ends:
        for key, events in selector.select(timeout=ends - now):
            connection = key.data
            if events & selectors.EVENT_WRITE and connection.flush():
                selector.modify(connection.socket, selectors.EVENT_READ, connection)
            if not events & selectors.EVENT_READ or not connection.receive():
                continue
            done = time.perf_counter()
            if done >= began:
                if connection.reply.startswith(b"HTTP/1.1 200"):
                    result.latencies.append(done - connection.began)
                else:
                    result.failed += 1
                    result.first_failure = result.first_failure or bytes(connection.reply[:600])
            if not connection.send(wires[sent % len(wires)]):
                selector.modify(connection.socket, _interest(False), connection)
            sent += 1
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    selector.close()
    result.latencies.sort()
    return result


def _interest(out: bool) -> int:
    return selectors.EVENT_READ if out else selectors.EVENT_READ | selectors.EVENT_WRITE
