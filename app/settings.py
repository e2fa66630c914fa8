"""File and environment to frozen settings; every field is documented where it stands.

The TOML file is named by ``ISTHMUS_CONFIG`` (default ``isthmus.toml`` where it exists); every key has an environment
name. Values are only typed and checked here: no file is opened but the configuration, nothing is imported.
"""

from typing import Any, Literal

from msgspec import Struct

__all__ = ("ApiKey", "EngineSettings", "MediaSettings", "ModelSettings", "Settings")


class ApiKey(Struct, frozen=True, forbid_unknown_fields=True):
    """A key and whose it is; a key alone is its own tenant."""

    key: str
    tenant: str = ""


class MediaSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What media a request may bring."""

    allowed_domains: list[str] = []
    """Hosts that media may be fetched from; empty: any public one."""
    denied_domains: list[str] = []
    """Hosts that media may never be fetched from."""
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
    """auto: Hugging Face's at once, fastokens behind it where it agrees."""
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


class EngineSettings(Struct, frozen=True, kw_only=True):
    """One engine; keys that are not named here are the engine's own ``options``."""

    name: str
    kind: str
    options: dict[str, Any] = {}


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of it."""

    models: list[ModelSettings] = []
    engines: list[EngineSettings] = []
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
    database_url: str = "sqlite+aiosqlite:///isthmus.db"
    """Empty: no store."""
    database_auto_upgrade: bool = False
    """Whether start-up brings an older database to head, or refuses it."""
    token_exact: bool = True
    """Whether a stored turn's next prompt extends its exact token ids."""
    retention_days: float = 30
    """How long a thread is kept after its last turn."""
    now: str = ""
    """Pins the date that templates see, YYYY-MM-DD; unset: today."""
    template_timeout_s: float = 30
    """Time budget of one template render, in seconds."""
    max_body_bytes: int = 268_435_456
    """Size of a request body."""
    max_queue: int = 1024
    """Requests in work or waiting before the next is answered 429."""
    plugin_overrides: dict[str, str] = {}
    """``{"isthmus.formats:hermes": "distribution-name"}``: which distribution wins a duplicate name."""
