"""One served model, and all of them by name."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from app.errors import ModelNotFound, StartupError
from app.models.source import cache_directory
from app.multimodal.fetch import Fetcher
from app.parsing.format import ReasoningFormat, ToolFormat
from app.settings import ModelSettings
from app.tokenizing.fast import SpeedUp
from app.tokenizing.hf import HFTokenizer

__all__ = ("Models", "ServedModel")


class ServedModel(Struct, kw_only=True):
    """A tokenizer, templates, formats, processor and engine under one name.

    Frozen but for ``engine``, which starts after the models are loaded.
    """

    name: str
    aliases: list[str]
    settings: ModelSettings
    source: Path
    """The directory of its files."""
    config: dict[str, Any]
    """config.json."""
    tokenizer: HFTokenizer
    templates: dict[str, str] = field(default_factory=dict)
    """Chat template sources by name; empty for a base model."""
    renderer: Any = None
    tool_format: ToolFormat | None = None
    reasoning_format: ReasoningFormat | None = None
    processor: Any = None
    engine: Any = None
    max_model_len: int
    """Prompt and output together, in tokens."""
    generation_defaults: dict[str, Any]
    """The sampling parameters of generation_config.json."""
    eos_token_ids: tuple[int, ...]
    """Primary first."""
    created: int
    """Unix time, in seconds, at which it was loaded."""

    @property
    def model_type(self) -> str:
        """The config's, "" where it has none."""
        return str(self.config.get("model_type") or "")

    @property
    def vocab_size(self) -> int:
        """The tokenizer's, or the model's own where that is larger."""
        return self.tokenizer.vocab_size


class Models:
    """All served models, in the order of the settings.

    Args:
        models: them.
        fetcher: what their media are fetched with; closed with them.

    Raises:
        StartupError: two have a name or an alias in common.
    """

    def __init__(self, models: Iterable[ServedModel], *, fetcher: Fetcher | None = None) -> None:
        self._models = list(models)
        self._fetcher = fetcher
        self._speed_up: SpeedUp | None = None
        self._by_name: dict[str, ServedModel] = {}
        for model in self._models:
            for name in dict.fromkeys((model.name, *model.aliases)):
                if name in self._by_name:
                    raise StartupError(f"models: the name {name!r} is given twice")
                self._by_name[name] = model

    def get(self, name: str | None) -> ServedModel:
        """The model of that name or alias; the first one where no name is given.

        Raises:
            ModelNotFound: none is.
        """
        model = self._by_name.get(name) if name else next(iter(self._models), None)
        if model is None:
            raise ModelNotFound(name or "", list(self._by_name))
        return model

    def speed_up(self, idle_s: Callable[[], float]) -> None:
        """Once the server is ready: load faster tokenizers behind those of models with ``tokenizer = "auto"``.

        Args:
            idle_s: for how many seconds the server has had nothing to do.
        """
        waiting = [(model.name, model.tokenizer) for model in self._models if model.settings.tokenizer == "auto"]
        self._speed_up = SpeedUp(waiting, cache_directory(), idle_s)
        self._speed_up.start()

    async def close(self) -> None:
        """Free the connections that media are fetched over, and load no more tokenizers."""
        if self._speed_up is not None:
            self._speed_up.stop()
        if self._fetcher is not None:
            await self._fetcher.close()

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)
