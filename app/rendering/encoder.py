"""The contract for prompts that no Jinja template writes: a conversation straight to token ids.

An encoder plugin registers, in the entry point group ``isthmus.encoders`` and under a config's ``model_type``, a
callable ``(EncoderContext) -> PromptEncoder``. It replaces the chat template of every model of that type
(``encoder = "none"`` in the settings keeps the template).
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from app.rendering.conversation import Conversation
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("EncoderContext", "PromptEncoder", "PromptOptions")


class EncoderContext(Struct, frozen=True, kw_only=True):
    """What an encoder is made from.

    ``source`` is the model's directory, ``config`` its config.json, ``cache_dir`` a folder for files that the encoder
    builds from the model's own. ``control_in_text``: control tokens typed by a user are to be read as such
    (``special_tokens_in_text = "control"``). ``now`` gives the date to write.
    """

    source: Path
    config: Mapping[str, Any]
    tokenizer: Tokenizer
    cache_dir: Path
    control_in_text: bool = False
    now: Callable[[], datetime] = datetime.now


class PromptOptions(Struct, frozen=True, kw_only=True):
    """How to write one conversation. ``kwargs`` are the effective template kwargs (server's under the request's)."""

    add_generation_prompt: bool = True
    continue_final_message: bool = False
    reasoning_effort: str | None = None
    kwargs: Mapping[str, Any] = {}


class PromptEncoder(Protocol):
    """Thread-safe; called in a worker thread where the conversation is long."""

    honours_no_effort: bool
    """Whether ``reasoning_effort="none"`` is something that it can write."""

    def literals(self) -> list[str]:
        """Control tokens that it writes."""

    def encode(self, conversation: Conversation, options: PromptOptions) -> list[int]:
        """The prompt's ids.

        Raises:
            InvalidRequest: the conversation has a role, a part or an option that the model's format does not know;
                ``param`` names the field.
        """
