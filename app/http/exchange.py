"""One request on its way through the shell: its id, whose it is, and what the metrics say of it."""

import random
from typing import Any

__all__ = ("Exchange", "exchange_of")

JSON = b"application/json"
LONGEST_ID = 256
"""Characters of a client's request id; a longer one is passed over, as ids go into replies, logs and engines."""


class Exchange:
    """Made by the shell for each request, found by handlers under the scope.

    ``client_id`` is the request's own ``X-Request-Id`` or None; ``request_id`` is that or a fresh one. ``model`` is
    the served model's name (never what the client typed, which is unbounded); tokens are counted by the handler.
    ``accept`` is what the client wants to have, ``media_type`` what the reply is. ``large`` says that the body is long
    work (:mod:`app.http.large`), and ``decoded`` is what it was decoded to where that was done ahead.
    """

    __slots__ = (
        "accept",
        "client_id",
        "decoded",
        "large",
        "media_type",
        "model",
        "request_id",
        "tenant",
        "tokens_in",
        "tokens_out",
    )

    def __init__(self, client_id: str | None = None, accept: bytes = b"") -> None:
        self.client_id = client_id
        self.request_id = client_id or f"{random.getrandbits(128):032x}"
        self.accept = accept
        self.media_type = JSON
        self.large = False
        self.decoded: Any = None
        self.tenant = ""
        self.model = ""
        self.tokens_in = 0
        self.tokens_out = 0

    @classmethod
    def of_headers(cls, headers: list[tuple[bytes, bytes]]) -> "Exchange":
        """A fresh exchange for a request with these headers."""
        client_id: str | None = None
        accept = b""
        for name, value in headers:
            if name == b"x-request-id" and len(value) <= LONGEST_ID:
                client_id = value.decode("latin-1") or None
            elif name == b"accept":
                accept = value
        return cls(client_id, accept)


def exchange_of(scope: Any) -> Exchange:
    """The exchange of a request's scope; an error before the shell has none yet."""
    exchange = scope.get("isthmus")
    if exchange is None:
        exchange = scope["isthmus"] = Exchange.of_headers(scope["headers"])
    assert isinstance(exchange, Exchange)
    return exchange
