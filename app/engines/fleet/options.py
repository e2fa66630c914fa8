"""The keys of an ``[[engines]]`` table whose kind is ``vllm`` or ``sglang``."""

from typing import Any

from msgspec import Struct

from app.engines.table import read_table
from app.errors import StartupError

__all__ = ("FleetOptions", "read_options")


class FleetOptions(Struct, frozen=True, kw_only=True):
    """Times in seconds, lengths in tokens."""

    urls: list[str] = []
    """Workers that do everything."""
    encode: list[str] = []
    """Workers that run the vision encoder of a request with tensors."""
    prefill: list[str] = []
    """Workers that compute the prompt and hand its keys and values on."""
    decode: list[str] = []
    """Workers that generate; the same as ``urls`` where roles are given."""
    api_key: str = ""
    """Sent to the workers as ``Authorization: Bearer``."""
    model: str = ""
    """The model's name on the workers; empty: none is sent."""
    max_logprobs: int = 20
    """Logprobs a position that the workers give; -1: the whole vocabulary."""
    connect_timeout_s: float = 5
    first_token_timeout_s: float = 300
    token_timeout_s: float = 60
    """Between one event and the next."""
    health_interval_s: float = 5
    """0: no health checks; the breaker alone says who is sick."""
    health_timeout_s: float = 2
    retries: int = 2
    """Further workers that are tried before the first token."""
    max_connections: int = 1024
    """To one worker."""
    breaker_failures: int = 3
    """Failures in a row after which a worker rests."""
    breaker_rest_s: float = 1
    """First rest; it doubles with each failed trial, to 30 seconds."""
    block_tokens: int = 64
    """Tokens of a block; prompts with equal leading blocks go to the same worker."""
    affinity_slack: int = 2
    """Requests that a worker may have more than the least loaded one before affinity costs."""
    affinity_load_blocks: float = 8
    """Blocks that one request above the slack weighs."""


def read_options(options: dict[str, Any]) -> FleetOptions:
    """The options of a table; raises :class:`app.errors.StartupError` with one line."""
    found = read_table(options, FleetOptions)
    if bool(found.urls) == bool(found.decode):
        raise StartupError("give either urls or, with roles, decode")
    for url in (*found.urls, *found.encode, *found.prefill, *found.decode):
        if not url.startswith(("http://", "https://")):
            raise StartupError(f"{url!r} is no http URL")
    return found
