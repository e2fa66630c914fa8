"""A reply of a public API that has been prepared: its events to come, and how they fold to the whole."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from msgspec import Struct

from app.dialects.writer import Event, Usage
from app.errors import Unsupported
from app.models import ServedModel

__all__ = ("Events", "Reply", "require_engine")

Events = AsyncGenerator[tuple[Event, Usage], None]


class Reply(Struct, frozen=True, kw_only=True):
    """What a run will say.

    ``events`` come in order, each with the tokens so far; closing them stops the generation. ``fold`` makes the whole
    reply of all of them (law 2: there is no second path). ``prompt_tokens`` counts the prompt, or all prompts.
    """

    stream: bool
    prompt_tokens: int
    events: Events
    fold: Callable[[Sequence[Event]], Any]


def require_engine(model: ServedModel) -> None:
    """Refuse to run a model that is only rendered and derendered here."""
    if model.engine is None:
        raise Unsupported(
            f"The model '{model.name}' has no engine: it is rendered and derendered here, not run.", param="model"
        )
