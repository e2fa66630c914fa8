"""Settings to a service that can answer: plugins, models, engines, and a probe through each model."""

import asyncio
import logging
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import structs

from app.derendering.stream_state import StateSeal
from app.engines.engine import Engine, EngineConfig, SharedEngine
from app.errors import IsthmusError, StartupError
from app.http.garbage import look_seldom, look_when_idle
from app.http.service import Service
from app.http.shell import Gate
from app.http.workers import end_with_parent
from app.models import ServedModel, load_models
from app.registry import Registry
from app.rendering.conversation import Conversation, Message
from app.rendering.request import RenderInput
from app.settings import Settings, load_settings

__all__ = ("start",)

log = logging.getLogger("isthmus")
SWITCH_INTERVAL_S = 0.0005
"""How long a thread that holds the GIL keeps it from the event loop (Python's own default is 5 ms)."""


async def start(service: Service, gate: Gate, stack: AsyncExitStack) -> None:
    """Fill the service; what must be closed again goes onto the stack.

    Raises:
        StartupError: one line that names the setting, plugin, model or engine.
    """
    end_with_parent()
    settings = load_settings(os.environ, Path.cwd())
    if not settings.state_key:
        settings = structs.replace(settings, state_key=secrets.token_hex(32))
    service.settings = settings
    service.seal = StateSeal(settings.state_key)
    service.registry = registry = Registry(settings.plugin_overrides)
    if settings.database_url:
        # A server without a store never imports SQLAlchemy: half a second and 20 MB.
        from app.runs.state import open_state

        service.store = await open_state(settings)
        if service.store is not None:
            stack.push_async_callback(service.store.close)
    service.models = await load_models(settings, registry)
    stack.push_async_callback(service.models.close)
    opened: dict[str, list[Engine]] = {}
    for model in service.models:
        await _start_engine(model, settings, registry, stack, opened)
        await _probe(model)
    gate.open(settings)
    stack.callback(gate.telemetry.closed)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    look_seldom()
    looking = asyncio.create_task(look_when_idle(lambda: gate.admission.running))
    stack.callback(looking.cancel)
    service.ready = True
    service.models.speed_up(gate.admission.idle_s)
    for line in announcement(service):
        log.info(line)


def announcement(service: Service) -> list[str]:
    """What start-up says: models with their formats and engines, the store, and whether anyone may call."""
    lines = [f"serving {describe(model, service.registry)}" for model in service.models]
    lines.append(f"store: {f'at revision {service.store.revision}' if service.store else 'none'}")
    keys = len(service.settings.api_keys)
    lines.append(f"{keys} api_keys" if keys else "open: no api_keys, so anyone who reaches this port may call")
    if not service.settings.scale_out:
        lines.append("scale_out = false: render, derender, tokenize and generate answer 403")
    broken = [line for line in service.registry.listing() if line.state == "broken"]
    lines += [f"broken plugin {line.group} {line.name} of {line.distribution}: {line.error}" for line in broken]
    return lines


def describe(model: ServedModel, registry: Registry) -> str:
    """A served model in one line, for start-up and ``litestar models``."""
    parts = [f"{model.name}: {model.source}", f"{model.max_model_len} tokens"]
    for kind, chosen in (("tool", model.tool_format), ("reasoning", model.reasoning_format)):
        if chosen is None:
            continue
        distribution, version = registry.owner("isthmus.formats", f"{kind}.{chosen.name}")
        parts.append(f"{kind} format {chosen.name}{f' ({distribution} {version})' if distribution else ''}")
    if model.processor is not None:
        parts.append(f"processor {type(model.processor).__name__}")
    if model.settings.engine:
        parts.append(f"engine {model.settings.engine}")
    if model.aliases:
        parts.append(f"also called {', '.join(model.aliases)}")
    return ", ".join(parts)


async def _start_engine(
    model: ServedModel, settings: Settings, registry: Registry, stack: AsyncExitStack, opened: dict[str, list[Engine]]
) -> None:
    """Give the model the engine of its table: one of those ``opened`` for other models, if it serves this one too."""
    chosen = next((engine for engine in settings.engines if engine.name == model.settings.engine), None)
    if chosen is None:
        return
    build: Callable[[EngineConfig], Engine] = registry.get("isthmus.engines", chosen.kind)
    config = EngineConfig(
        name=chosen.name,
        kind=chosen.kind,
        model=model.name,
        source=str(model.source),
        max_model_len=model.max_model_len,
        vocab_size=model.vocab_size,
        eos_token_ids=model.eos_token_ids,
        tokenizer=model.tokenizer,
        options=chosen.options,
    )
    others = opened.setdefault(chosen.name, [])
    for other in others:
        if isinstance(other, SharedEngine) and other.serves(config):
            model.engine = other
            return
    try:
        engine = build(config)
        stack.push_async_callback(engine.stop)
        await engine.start()
    except IsthmusError as error:
        raise StartupError(f"engine {chosen.name} of model {model.name}: {error.message}") from error
    others.append(engine)
    model.engine = engine


async def _probe(model: ServedModel) -> None:
    """Render a plain prompt, so that the first request finds everything compiled and a broken template shows now."""
    probe = RenderInput(
        dialect="chat" if model.templates else "completions",
        request_id="probe",
        conversation=Conversation([Message("user", "Hi")]) if model.templates else None,
        text=None if model.templates else "Hi",
    )
    try:
        await model.renderer.render(probe)
    except IsthmusError as error:
        raise StartupError(f"model {model.name}: cannot render a plain message: {error.message}") from error
