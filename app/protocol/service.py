"""What the server says of itself: models, readiness, version, load."""

from typing import Literal

from msgspec import Struct

__all__ = ("ModelCard", "ModelList", "ModelPermission", "PluginLine", "Readiness", "ServerLoad", "Version")


class ModelPermission(Struct, kw_only=True):
    """The permission record that OpenAI's API once had and vLLM's still shows."""

    id: str
    object: Literal["model_permission"] = "model_permission"
    created: int
    allow_create_engine: bool = False
    allow_sampling: bool = True
    allow_logprobs: bool = True
    allow_search_indices: bool = False
    allow_view: bool = True
    allow_fine_tuning: bool = False
    organization: str = "*"
    group: str | None = None
    is_blocking: bool = False


class ModelCard(Struct, kw_only=True):
    """One served name. ``created`` is in Unix seconds, ``max_model_len`` in tokens; ``parent`` is an alias's model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "isthmus"
    root: str
    parent: str | None = None
    max_model_len: int
    permission: list[ModelPermission]


class ModelList(Struct, kw_only=True):
    """All served names."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class Readiness(Struct, kw_only=True):
    """Whether requests are served, and the models that are."""

    ready: bool
    models: list[str]


class PluginLine(Struct, frozen=True):
    """One installed plugin; ``error`` says why a broken one is broken."""

    name: str
    group: str
    distribution: str
    version: str
    state: Literal["available", "loaded", "broken", "overridden"]
    error: str = ""


class Version(Struct, kw_only=True):
    """The server's version and its plugins."""

    version: str
    plugins: list[PluginLine]


class ServerLoad(Struct, kw_only=True):
    """Requests in work or waiting."""

    server_load: int
