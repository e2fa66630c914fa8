"""What of a request decides how its output is derendered."""

from typing import Literal

from msgspec import Struct

from app.derendering.call_ids import CallIds
from app.derendering.logprobs import LogprobOptions

__all__ = ("DerenderOptions",)


class DerenderOptions(Struct, frozen=True, kw_only=True):
    """One request's wishes, in no dialect's own words.

    ``tool_choice`` "named" keeps the finish reason "stop" where calls were made, as OpenAI does. ``min_tokens`` counts
    the tokens in which no stop string may end. ``logprobs`` None: none are reported.
    """

    call_ids: CallIds
    tool_choice: Literal["none", "auto", "required", "named"] = "none"
    include_reasoning: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_tokens: int = 0
    include_stop: bool = False
    logprobs: LogprobOptions | None = None
