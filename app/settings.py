"""File and environment to frozen settings; every field is documented where it stands.

The TOML file is named by ``ISTHMUS_CONFIG`` (default ``isthmus.toml`` where it exists). Every key has an environment
name, which wins over the file: ``ISTHMUS_`` and the key in capitals, nested keys joined by two underscores, list items
by their number (``ISTHMUS_MEDIA__MAX_BYTES``, ``ISTHMUS_MODELS__0__ENGINE``); lists and tables are JSON.
``ISTHMUS_MODEL`` (a directory, a hub id or "demo") serves one model instead of the file's.

Values are only typed and checked here: no file is opened but the configuration, nothing is imported.
"""

import difflib
import tomllib
import types
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from app.errors import StartupError

__all__ = ("ApiKey", "EngineSettings", "MediaSettings", "ModelSettings", "Settings", "load_settings")


class ApiKey(Struct, frozen=True, forbid_unknown_fields=True):
    """A key and whose it is; a key alone is its own tenant."""

    key: str
    """What a client sends."""
    tenant: str = ""
    """Whose stored responses it sees; several keys may share one. Empty: the key's own."""


class MediaSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What media a request may bring."""

    allowed_domains: list[str] = []
    """Hosts that media may be fetched from; empty: any public one."""
    denied_domains: list[str] = []
    """Hosts that media may never be fetched from."""
    allowed_networks: list[str] = []
    """Networks (CIDR) that media may be fetched from though they are not public, such as your own media server's."""
    allowed_path: str = ""
    """Folder under which file URLs may point; empty: none."""
    max_bytes: int = 268_435_456
    """Encoded size of one item, in bytes."""
    max_pixels: int = 178_956_970
    """Width times height of one image, read from its header before decoding."""
    max_items: int = 999
    """Media items in one request."""
    timeout_s: float = 10
    """For fetching one item, in seconds, redirects included."""
    alpha_background: tuple[int, int, int] = (255, 255, 255)
    """What transparent pixels are laid on, red, green and blue, 0 to 255."""
    cache_bytes: int = 268_435_456
    """Size of the cache of processed items, in bytes; 0: none."""


class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One served model."""

    name: str
    """What requests call it."""
    aliases: list[str] = []
    """Other names for it."""
    source: str
    """A directory, a hub id, or "demo"."""
    tokenizer: Literal["auto", "hf", "fast"] = "auto"
    """auto: Hugging Face's, from a quiet moment on fastokens where it agrees; fast: that from the start."""
    tool_format: str = "auto"
    """A registered format's name, "auto" (recognised from template and vocabulary) or "none"."""
    reasoning_format: str = "auto"
    """A registered format's name, "auto" or "none"."""
    max_model_len: int | None = None
    """Prompt and output together, in tokens; unset: what the model's config says."""
    chat_template: str = ""
    """Path of a template that replaces the model's."""
    chat_template_kwargs: dict[str, Any] = {}
    """Defaults under a request's own."""
    special_tokens_in_text: Literal["text", "control"] = "text"
    """text: control tokens typed by a user are ordinary text; control: they are control tokens, as in vLLM."""
    engine: str = ""
    """Name of an engine; empty: no generation."""
    processor: str = "auto"
    """A registered multimodal processor, "auto" (by the config's model_type) or "none"."""
    encoder: str = "auto"
    """A registered prompt encoder, "auto" (by the config's model_type) or "none" (the chat template)."""


class EngineSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One engine; keys of its table that are not named here are the engine's own ``options``."""

    name: str
    """What a model's ``engine`` calls it."""
    kind: str
    """local, vllm, sglang, or the name of an installed engine plugin."""
    options: dict[str, Any] = {}
    """The table's other keys, as the kind of engine documents them (urls, api_key, dtype, device ...)."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of it."""

    models: list[ModelSettings] = []
    """Empty: the demo model, served as ``demo`` by a local engine."""
    engines: list[EngineSettings] = []
    """What can generate; a model names the one it uses."""
    api_keys: list[ApiKey] = []
    """Empty: the server is open, and start-up says so."""
    state_key: str = ""
    """Signs derender stream state; the same on all replicas. Unset: drawn at start, shared by the workers."""
    scale_out: bool = True
    """False: render, derender, tokenize and generate answer 403."""
    trust_request_chat_template: bool = False
    """Whether a request may bring its own chat template."""
    trust_request_mm_kwargs: bool = False
    """Whether a request may bring mm_processor_kwargs and media_io_kwargs."""
    media: MediaSettings = MediaSettings()
    """What media a request may bring."""
    database_url: str = "sqlite+aiosqlite:///isthmus.db"
    """Empty: no store."""
    database_auto_upgrade: bool = False
    """Whether start-up brings an older database to head, or refuses it."""
    token_exact: bool = True
    """Whether a stored turn's next prompt extends its exact token ids."""
    retention_days: float = 30
    """How long a thread is kept after its last turn; 0: for ever."""
    sweep_every_s: float = 60
    """Seconds between two sweeps of the store; one process among all replicas does them."""
    now: str = ""
    """Pins the date that templates see, YYYY-MM-DD; unset: today."""
    template_timeout_s: float = 30
    """Time budget of one template render, in seconds."""
    max_body_bytes: int = 268_435_456
    """Size of a request body."""
    max_queue: int = 1024
    """Requests in work or waiting before the next is answered 429."""
    keep_alive_s: float = 15
    """Silence on an event stream after which a comment is sent, so that proxies keep it open; 0: none."""
    plugin_overrides: dict[str, str] = {}
    """``{"isthmus.formats:hermes": "distribution-name"}``: which distribution wins a duplicate name."""


PREFIX = "ISTHMUS_"
NOT_SETTINGS = frozenset({"ISTHMUS_CONFIG", "ISTHMUS_MODEL"})
DEMO: dict[str, Any] = {
    "models": [{"name": "demo", "source": "demo", "engine": "local"}],
    "engines": [{"name": "local", "kind": "local"}],
}


def load_settings(environ: Mapping[str, str], cwd: Path) -> Settings:
    """Read the configuration file and the environment.

    Raises:
        StartupError: one line that names the file or variable, the key and the reason.
    """
    origin, data = _read_file(environ, cwd)
    if source := environ.get("ISTHMUS_MODEL", "").strip():
        data["models"] = [_single_model(source)]
        if source == "demo":
            data["engines"] = [*data.get("engines", []), *DEMO["engines"]]
    names = _overlay(data, environ)
    if not data.get("models"):
        data["models"] = DEMO["models"]
        if not any(engine.get("name") == "local" for engine in data.get("engines") or [] if isinstance(engine, dict)):
            data["engines"] = [*(data.get("engines") or []), *DEMO["engines"]]
    if isinstance(day := data.get("now"), date):
        data["now"] = day.isoformat()
    if isinstance(keys := data.get("api_keys"), list):
        data["api_keys"] = [{"key": key} if isinstance(key, str) else key for key in keys]

    def refuse(path: str, reason: str) -> StartupError:
        inside = (name for known, name in names.items() if path == known or path.startswith((f"{known}.", f"{known}[")))
        place = next(inside, origin)
        return StartupError(f"{place}: {path}: {reason}" if path else f"{place}: {reason}", param=path or None)

    for path, key, known in _unknown_keys(data, Settings, ""):
        nearest = difflib.get_close_matches(key, known, 1)
        raise refuse(path, f"there is no such setting{f'; did you mean {nearest[0]}?' if nearest else ''}")
    try:
        settings = msgspec.convert(data, Settings, strict=False)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        raise refuse(path.rstrip("`").lstrip("."), reason[:1].lower() + reason[1:].replace("`", "")) from None
    for path, reason in _contradictions(settings):
        raise refuse(path, reason)
    return settings


def _read_file(environ: Mapping[str, str], cwd: Path) -> tuple[str, dict[str, Any]]:
    named = environ.get("ISTHMUS_CONFIG", "").strip()
    path = cwd / (named or "isthmus.toml")
    if not named and not path.is_file():
        return "settings", {}
    origin = named or "isthmus.toml"
    try:
        return origin, tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StartupError(f"{origin}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartupError(f"{origin}: is no valid TOML: {error}") from None


def _single_model(source: str) -> dict[str, Any]:
    if source == "demo":
        return dict(DEMO["models"][0])
    name = Path(source).name if source.startswith((".", "/", "~")) else source
    return {"name": name or source, "source": source}


def _overlay(data: dict[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Write the environment's settings into ``data``; which variable gave which path, longest paths first."""
    names: dict[str, str] = {}
    top = msgspec.structs.fields(Settings)
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        keys = variable[len(PREFIX) :].lower().split("__")
        if keys[0] not in {field.name for field in top}:
            near = difflib.get_close_matches(keys[0], [field.name for field in top], 1, cutoff=0.8)
            if near:  # a misspelt ISTHMUS_API_KEY must not leave the server open; anything else may be someone's own
                raise StartupError(f"{variable}: there is no such setting; did you mean {PREFIX}{near[0].upper()}?")
            continue
        node: Any = data
        hint: Any = Settings
        path = ""
        for position, key in enumerate(keys):
            last = position == len(keys) - 1
            hint = _inside(hint, key)
            if isinstance(node, list):
                if not key.isdigit() or int(key) > len(node):
                    raise StartupError(
                        f"{variable}: {path} has {len(node)} items, so {key} is none of them nor the next"
                    )
                if int(key) == len(node):
                    node.append(None)
                slot: Any = int(key)
                path += f"[{key}]"
            elif isinstance(node, dict):
                slot = key
                path += f".{key}" if path else key
            else:
                raise StartupError(f"{variable}: {path} has no parts")
            if last:
                node[slot] = _parse(environ[variable], hint)
            else:
                child = node.get(slot) if isinstance(node, dict) else node[slot]
                if child is None:
                    child = [] if get_origin(hint) is list else {}
                    node[slot] = child
                node = child
        names[path] = variable
    return dict(sorted(names.items(), key=lambda item: -len(item[0])))


def _inside(hint: Any, key: str) -> Any:
    """The type of the value under ``key`` in a value of type ``hint``; Any where it isn't known."""
    if isinstance(hint, type) and issubclass(hint, Struct):
        return get_type_hints(hint).get(key, Any)
    return get_args(hint)[0] if get_origin(hint) is list else Any


def _parse(text: str, hint: Any) -> Any:
    """An environment value as the plain value that the setting's type is read from."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if str in kinds or get_origin(hint) is Literal:
        return text
    if get_origin(hint) is list and not text.lstrip().startswith("["):
        return [item.strip() for item in text.split(",") if item.strip()]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _unknown_keys(value: Any, hint: Any, path: str) -> Iterator[tuple[str, str, list[str]]]:
    """Paths, names and alternatives of keys that no setting has; moves an engine's own keys into ``options``."""
    if get_origin(hint) is list and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_keys(item, get_args(hint)[0], f"{path}[{index}]")
    elif isinstance(hint, type) and issubclass(hint, Struct) and isinstance(value, dict):
        known = get_type_hints(hint)
        if hint is EngineSettings:
            own = {key: value.pop(key) for key in list(value) if key not in known}
            if own:
                value["options"] = {**value.get("options", {}), **own}
        for key, item in value.items():
            inner = f"{path}.{key}" if path else key
            if key not in known:
                yield inner, key, list(known)
            else:
                yield from _unknown_keys(item, known[key], inner)


def _contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    """Paths and reasons of values that have the right type and still cannot be."""
    engines: set[str] = set()
    for index, engine in enumerate(settings.engines):
        if engine.name in engines:
            yield f"engines[{index}].name", f"two engines are called {engine.name!r}"
        engines.add(engine.name)
    owners: dict[str, int] = {}
    for index, model in enumerate(settings.models):
        for key, name in (("name", model.name), *(("aliases", alias) for alias in model.aliases)):
            if not name:
                yield f"models[{index}].{key}", "a model's name cannot be empty"
            if owners.setdefault(name, index) != index:
                yield f"models[{index}].{key}", f"models[{owners[name]}] is called {name!r} too"
        if not model.source:
            yield f"models[{index}].source", "a directory, a hub id or demo is needed"
        if model.engine and model.engine not in engines:
            listed = ", ".join(sorted(engines)) or "none"
            yield f"models[{index}].engine", f"there is no engine called {model.engine!r} (there are: {listed})"
        if model.max_model_len is not None and model.max_model_len < 1:
            yield f"models[{index}].max_model_len", "at least 1 token is needed"
    keys = [key.key for key in settings.api_keys]
    for index, key in enumerate(keys):
        if not key.strip():
            yield f"api_keys[{index}]", "a key cannot be empty"
        if key in keys[:index]:
            yield f"api_keys[{index}]", "this key is listed twice"
    if settings.now:
        try:
            date.fromisoformat(settings.now)
        except ValueError:
            yield "now", f"{settings.now!r} is no date of the form YYYY-MM-DD"
    for path in ("template_timeout_s", "max_body_bytes", "max_queue", "sweep_every_s"):
        if getattr(settings, path) <= 0:
            yield path, "must be more than 0"
    if settings.retention_days < 0:
        yield "retention_days", "must be 0 or more"
    for path in ("max_bytes", "max_pixels", "timeout_s"):
        if getattr(settings.media, path) <= 0:
            yield f"media.{path}", "must be more than 0"
    if not all(0 <= part <= 255 for part in settings.media.alpha_background):
        yield "media.alpha_background", "red, green and blue are 0 to 255"
