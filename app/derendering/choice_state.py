"""What must be remembered of one output between two of its chunks."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.parsing.parser import Parser
from app.tokenizing.detokenizer import DetokenizerState
from app.tokenizing.stop_strings import StopState

__all__ = ("ChoiceState", "pack", "unpack")


class ChoiceState(Struct, array_like=True, kw_only=True):
    """The state of one choice; ``parser`` is the parser's own state, or its bytes where the state is packed.

    ``held_token`` may be the token that stopped the output: the next chunk tells. ``tokens``, ``reasoning_tokens`` and
    ``unused_tokens`` (those after a stop string) are counts. ``unfinished`` are the bytes of a character for logprobs,
    ``text_offset`` is where the next token's text stands, in characters.
    """

    detokenizer: DetokenizerState
    stop: StopState
    parser: Any
    held_token: int | None = None
    tokens: int = 0
    reasoning_tokens: int = 0
    unused_tokens: int = 0
    in_reasoning: bool = False
    in_content: bool = False
    calls: int = 0
    finished: bool = False
    unfinished: bytes = b""
    text_offset: int = 0


def pack(state: ChoiceState, parser: Parser) -> ChoiceState:
    """The same state with the parser's part as bytes; of a finished choice only the counts are kept."""
    if state.finished:
        return replace(state, detokenizer=DetokenizerState(), stop=StopState(), parser=b"", held_token=None)
    return replace(state, parser=parser.dump(state.parser))


def unpack(state: ChoiceState, parser: Parser) -> ChoiceState:
    """The state as it was before :func:`pack`, apart from the packed one."""
    loaded = None if state.finished else parser.load(state.parser)
    return replace(state, parser=loaded)
