"""Settings to served models."""

import asyncio
import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from app.errors import IsthmusError, StartupError
from app.models import configuration
from app.models.formats import Plugins, choose_format, format_literals
from app.models.rendering import find_encoder, make_renderer
from app.models.served import Models, ServedModel
from app.models.source import cache_directory, resolve_source
from app.models.templates import read_templates
from app.models.tokenizers import SharedTokenizers
from app.multimodal.fetch import Fetcher
from app.settings import ModelSettings, Settings
from app.tokenizing.fast import Disagrees, speed_up
from app.tokenizing.files import read_json
from app.tokenizing.memory import return_free_memory

__all__ = ("load_model", "load_models")

_log = logging.getLogger("isthmus.models")
LOADERS = 4
"""Models that load at a time."""
PROCESSORS = "isthmus.processors"
UNKNOWN_LENGTH = 32_768
"""max_model_len where neither the setting nor the model's files give one."""


async def load_models(settings: Settings, plugins: Plugins) -> Models:
    """Load every model of the settings, several at a time.

    Raises:
        StartupError: one does not load, or two share a name; one line that names the file and the reason.
    """
    _check_names(settings.models)
    with ThreadPoolExecutor(LOADERS, "load") as pool:
        loop = asyncio.get_running_loop()
        fetcher, tokenizers = Fetcher(settings.media), SharedTokenizers()
        loading = [
            loop.run_in_executor(pool, load_model, model, settings, plugins, fetcher, tokenizers)
            for model in settings.models
        ]
        models = Models(await asyncio.gather(*loading), fetcher=fetcher)
    return_free_memory()
    return models


def _check_names(models: list[ModelSettings]) -> None:
    seen: set[str] = set()
    for model in models:
        for name in (model.name, *model.aliases):
            if name in seen:
                raise StartupError(f"models: the name {name!r} is given twice", param="models")
            seen.add(name)


def load_model(
    model: ModelSettings,
    settings: Settings,
    plugins: Plugins,
    fetcher: Fetcher | None = None,
    tokenizers: SharedTokenizers | None = None,
) -> ServedModel:
    """Load one model. Takes as long as its vocabulary is large, about half a second; call it in a thread.

    Raises:
        StartupError: one line that names the model, the file and the reason.
    """
    try:
        return _load(model, settings, plugins, fetcher or Fetcher(settings.media), tokenizers or SharedTokenizers())
    except StartupError as error:
        raise StartupError(f"model {model.name}: {error.message}", param=error.param) from error
    except IsthmusError as error:
        raise StartupError(f"model {model.name}: {error.message.splitlines()[0]}", param=error.param) from error


def _load(
    model: ModelSettings, settings: Settings, plugins: Plugins, fetcher: Fetcher, tokenizers: SharedTokenizers
) -> ServedModel:
    local = any(engine.name == model.engine and engine.kind == "local" for engine in settings.engines)
    source = resolve_source(model.source, weights=local)
    config = _object(source / "config.json")
    generation_config = _object(source / "generation_config.json")
    tokenizer = tokenizers.load(source, model.tokenizer, min_vocab_size=configuration.model_vocab_size(config))
    templates = read_templates(source, tokenizer.files.config, model.chat_template)
    added = {token.content for token in tokenizer.added_tokens.values()}
    tool_format = choose_format("tool", model.tool_format, plugins, templates, added)
    reasoning_format = choose_format("reasoning", model.reasoning_format, plugins, templates, added)
    served = ServedModel(
        name=model.name,
        aliases=list(model.aliases),
        settings=model,
        source=source,
        config=config,
        tokenizer=tokenizer,
        templates=templates,
        tool_format=tool_format,
        reasoning_format=reasoning_format,
        max_model_len=_length(model, config, tokenizer.files.config),
        generation_defaults=configuration.generation_defaults(generation_config),
        eos_token_ids=configuration.eos_token_ids(tokenizer.eos_token_id, generation_config, config),
        created=int(time.time()),
    )
    media = None
    if (name := _processor_name(served, plugins)) is not None:
        from app.models.media import make_media, make_processor  # numpy and pillow, which a text server does without

        served.processor = make_processor(served, name, plugins)
        media = make_media(served, settings, served.processor, fetcher)
    encoder = find_encoder(served, settings, plugins)
    tokenizer.protect(
        [*templates.values(), *format_literals((tool_format, reasoning_format)), *_media_markers(served)],
        more=encoder.literals() if encoder is not None else (),
    )
    served.renderer = make_renderer(served, settings, encoder=encoder, media=media)
    if model.tokenizer == "fast":
        try:
            speed_up(tokenizer, cache_directory())
        except Disagrees as why:
            raise StartupError(
                f'tokenizer = "fast" is not for {tokenizer.files.path}: {why}', param="tokenizer"
            ) from why
    return served


def _processor_name(model: ServedModel, plugins: Plugins) -> str | None:
    """The processor that the settings name, or the one registered for the model's type; None for a text model."""
    name = model.settings.processor
    if name in ("", "none"):
        return None
    if name != "auto":
        return name
    return model.model_type if model.model_type in plugins.names(PROCESSORS) else None


def _object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if value is not None and not isinstance(value, dict):
        raise StartupError(f"{path}: expected an object, found {type(value).__name__}")
    return value or {}


def _length(model: ModelSettings, config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> int:
    own = configuration.max_model_len(config, tokenizer_config)
    if model.max_model_len is None:
        if own is None:
            _log.warning("model %s: no file says its length; taking %d tokens", model.name, UNKNOWN_LENGTH)
        return own or UNKNOWN_LENGTH
    if model.max_model_len < 1:
        raise StartupError(f"max_model_len is {model.max_model_len}; it counts tokens", param="max_model_len")
    if own is not None and model.max_model_len > own:
        _log.warning("model %s: max_model_len %d is over its own %d", model.name, model.max_model_len, own)
    return model.max_model_len


def _media_markers(served: ServedModel) -> list[str]:
    """The media placeholders: those that the config names by id (image_token_id and the like), and the processor's."""
    added = served.tokenizer.added_tokens
    ids = [value for key, value in served.config.items() if key.endswith(("_token_id", "_token_index"))]
    named = [added[value].content for value in ids if isinstance(value, int) and value in added]
    markers = served.processor.markers.values() if served.processor is not None else ()
    return [*named, *(marker.text for marker in markers)]
