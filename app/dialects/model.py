"""What the dialects need to know of a served model in order to read a request for it."""

from collections.abc import Mapping
from typing import Any, Protocol

__all__ = ("DialectModel",)


class DialectModel(Protocol):
    """The part of ``app.models.ServedModel`` that reading a request looks at."""

    @property
    def name(self) -> str:
        """The served name."""

    @property
    def max_model_len(self) -> int:
        """Prompt and output together, in tokens."""

    @property
    def vocab_size(self) -> int:
        """Token ids are below it."""

    @property
    def tool_format(self) -> object | None:
        """How the model writes calls; None: it cannot be asked for any."""

    @property
    def generation_defaults(self) -> Mapping[str, Any]:
        """The model's ``generation_config.json``."""
