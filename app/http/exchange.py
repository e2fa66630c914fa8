"""One request on its way through the shell: its id, whose it is, and what the metrics say of it."""

import secrets
from typing import Any

__all__ = ("Exchange", "exchange_of")


class Exchange:
    """Made by the shell for each request, found by handlers under the scope.

    ``client_id`` is the request's own ``X-Request-Id`` or None; ``request_id`` is that or a fresh one. ``model`` is
    the served model's name (never what the client typed, which is unbounded); tokens are counted by the handler.
    """

    __slots__ = ("client_id", "model", "request_id", "tenant", "tokens_in", "tokens_out")

    def __init__(self, client_id: str | None) -> None:
        self.client_id = client_id
        self.request_id = client_id or secrets.token_hex(16)
        self.tenant = ""
        self.model = ""
        self.tokens_in = 0
        self.tokens_out = 0


def exchange_of(scope: Any) -> Exchange:
    """The exchange of a request's scope."""
    exchange = scope.get("isthmus")
    if exchange is None:
        exchange = scope["isthmus"] = Exchange(None)
    assert isinstance(exchange, Exchange)
    return exchange
