"""Loading served models: what is read, what is refused, and in how many lines."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.errors import ModelNotFound, StartupError
from app.models import Models, ServedModel, load_model, load_models
from app.models import configuration as conf
from app.models.formats import choose_format, format_literals
from app.models.source import cache_directory, resolve_source
from app.registry import Registry
from app.settings import ModelSettings, Settings

SMALL = "phi-3"


@pytest.fixture
def copied(model_dir: Callable[[str], Path], tmp_path: Path) -> Path:
    """A model's directory that a test may break."""
    return Path(shutil.copytree(model_dir(SMALL), tmp_path / "model"))


def load(source: Path | str, **fields: Any) -> ServedModel:
    fields = {"name": "m", "tokenizer": "hf", "tool_format": "none", "reasoning_format": "none"} | fields
    return load_model(ModelSettings(source=str(source), **fields), Settings(), Registry())


def why(source: Path | str, **fields: Any) -> str:
    with pytest.raises(StartupError) as caught:
        load(source, **fields)
    assert "\n" not in caught.value.message
    assert caught.value.message.startswith("model m: ")
    return caught.value.message


def test_what_is_read(model_dir: Callable[[str], Path]) -> None:
    model = load(model_dir("llama3.1"), aliases=["other"], tool_format="llama3_json")
    assert model.max_model_len == 131072
    assert model.generation_defaults == {"temperature": 0.6, "top_p": 0.9}
    assert model.eos_token_ids == (128009, 128001, 128008)
    assert model.tokenizer.bos_token == "<|begin_of_text|>"
    assert (model.tokenizer.eos_token, model.tokenizer.eos_token_id) == ("<|eot_id|>", 128009)
    assert model.vocab_size == 128256
    assert model.tool_format is not None
    assert model.renderer is not None
    assert list(model.templates) == ["default"]


def test_missing_tokenizer(copied: Path) -> None:
    (copied / "tokenizer.json").unlink()
    assert "tokenizer.json: no such file" in why(copied)
    (copied / "tokenizer.model").touch()
    assert "only tokenizer.model" in why(copied)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "config.json"])
@pytest.mark.parametrize("keep", [0, 0.5])
def test_truncated_file(copied: Path, name: str, keep: float) -> None:
    data = (copied / name).read_bytes()
    (copied / name).write_bytes(data[: int(len(data) * keep)])
    assert str(copied / name) in why(copied)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "config.json", "special_tokens_map.json"])
def test_file_of_another_shape(copied: Path, name: str) -> None:
    (copied / name).write_text("[1]")
    assert f"{name}: expected an object, found list" in why(copied)


def test_tokenizer_that_the_library_refuses(copied: Path) -> None:
    (copied / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Nonsense"}}')
    assert "tokenizer.json" in why(copied)


def test_template_with_a_syntax_error(copied: Path) -> None:
    (copied / "chat_template.jinja").write_text("{% for %}")
    assert "template" in why(copied)


def test_template_override(copied: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    assert "mine.jinja" in why(copied, chat_template=str(path))
    path.write_text("{{ messages[0].content }}")
    assert load(copied, chat_template=str(path)).templates == {"default": "{{ messages[0].content }}"}


def test_templates_in_the_tokenizer_config(copied: Path) -> None:
    (copied / "chat_template.jinja").unlink()
    config = json.loads((copied / "tokenizer_config.json").read_text())
    named = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    (copied / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": named}))
    assert load(copied).templates == {"default": "a", "tool_use": "b"}


def test_a_model_without_a_template(copied: Path) -> None:
    (copied / "chat_template.jinja").unlink()
    assert load(copied).templates == {}


@pytest.mark.parametrize("fields", [{"tool_format": "no-such"}, {"reasoning_format": "no-such"}, {"max_model_len": 0}])
def test_wrong_setting(model_dir: Callable[[str], Path], fields: dict[str, Any]) -> None:
    assert next(iter(fields)).replace("_format", "") in why(model_dir(SMALL), **fields)


@pytest.mark.parametrize("source", ["/no/such/directory", "./nor-here", "~/nor-there", "a/b/c"])
def test_missing_directory(source: str) -> None:
    assert "no such directory" in why(source)


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").touch()
    assert "a model is a directory" in why(tmp_path / "weights.bin")


def test_hub_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    asked: dict[str, Any] = {}

    def offline(name: str, **options: Any) -> str:
        asked.update(options)
        raise LocalEntryNotFoundError("no way\nout")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    assert "hub cannot be reached" in why("someone/some-model")
    assert not any("safetensors" in pattern for pattern in asked["allow_patterns"])
    with pytest.raises(StartupError):
        resolve_source("someone/some-model", weights=True)
    assert "*.safetensors" in asked["allow_patterns"]


def test_names_given_twice(model_dir: Callable[[str], Path]) -> None:
    source = str(model_dir(SMALL))
    models = [ModelSettings(name="a", source=source), ModelSettings(name="b", source=source, aliases=["a"])]
    with pytest.raises(StartupError, match="'a' is given twice"):
        asyncio.run(load_models(Settings(models=models), Registry()))


def test_get(served_models: Callable[..., Models]) -> None:
    models = served_models(SMALL, "mistral-7b")
    assert [model.name for model in models] == [SMALL, "mistral-7b"]
    assert models.get(None).name == models.get("").name == SMALL
    assert models.get("mistral-7b").name == "mistral-7b"
    with pytest.raises(ModelNotFound, match=r"mistral-7b"):
        models.get("no-such")


@pytest.mark.parametrize(
    ("config", "tokenizer_config", "length"),
    [
        ({"max_position_embeddings": 4096}, {"model_max_length": 10}, 4096),
        ({"text_config": {"max_position_embeddings": 128000}}, {}, 128000),
        ({"n_positions": 1024}, {}, 1024),
        ({}, {"model_max_length": 2048}, 2048),
        ({}, {"model_max_length": 10**30}, None),
        ({}, {}, None),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}, {}, 8192),
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, {}, 131072),
        (
            {
                "max_position_embeddings": 40960,
                "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
            },
            {},
            131072,
        ),
        ({"max_position_embeddings": 10, "rope_parameters": {"rope_type": "default", "rope_theta": 1.0}}, {}, 10),
    ],
)
def test_max_model_len(config: dict[str, Any], tokenizer_config: dict[str, Any], length: int | None) -> None:
    assert conf.max_model_len(config, tokenizer_config) == length


def test_generation_defaults() -> None:
    read = {"temperature": 0.5, "top_k": None, "do_sample": True, "max_new_tokens": 7, "min_p": 0.1, "eos_token_id": 1}
    assert conf.generation_defaults(read) == {"temperature": 0.5, "max_new_tokens": 7, "min_p": 0.1}


@pytest.mark.parametrize(
    ("tokenizer", "generation", "config", "ids"),
    [
        (7, {"eos_token_id": [1, 7]}, {"eos_token_id": 9}, (7, 1)),
        (None, {"eos_token_id": 3}, {}, (3,)),
        (7, {}, {"eos_token_id": [8, 7]}, (7, 8)),
        (None, {}, {"text_config": {"eos_token_id": 5}}, (5,)),
        (None, {}, {}, ()),
    ],
)
def test_eos_token_ids(
    tokenizer: int | None, generation: dict[str, Any], config: dict[str, Any], ids: tuple[int, ...]
) -> None:
    assert conf.eos_token_ids(tokenizer, generation, config) == ids


@pytest.mark.parametrize(
    ("name", "tool", "reasoning"),
    [("qwen3", "hermes", "qwen3"), ("llama3.1", "llama3_json", None), ("gpt-oss", "openai", "openai_gptoss")],
)
def test_formats_are_recognised(
    served_model: Callable[..., ServedModel], name: str, tool: str, reasoning: str | None
) -> None:
    model = served_model(name)
    registry = Registry()
    assert model.tool_format is registry.get("isthmus.formats", f"tool.{tool}")
    wanted = registry.get("isthmus.formats", f"reasoning.{reasoning}") if reasoning else None
    assert model.reasoning_format is wanted


def test_what_formats_write_is_protected(served_model: Callable[..., ServedModel]) -> None:
    """Tokens that are not flagged special, but that the template or a format writes."""
    assert {"<think>", "<tool_call>", "</tool_response>", "<|image_pad|>"} <= served_model(
        "qwen3"
    ).tokenizer.controls.contents
    assert "<|fim_prefix|>" not in served_model("qwen3").tokenizer.controls.contents
    registry = Registry()
    literals = set(format_literals(registry.get("isthmus.formats", "tool.hermes")))
    assert "<tool_call>" in literals
    assert choose_format("tool", "none", registry, {}, set()) is None


def test_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ISTHMUS_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path
    monkeypatch.delenv("ISTHMUS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "isthmus"


def test_models_of_one_directory_share_their_vocabulary_and_nothing_else(
    model_dir: Callable[[str], Path],
) -> None:
    source = str(model_dir("qwen3"))
    fields = {"source": source, "tokenizer": "hf", "reasoning_format": "none"}
    models = [
        ModelSettings(name="calls", tool_format="hermes", chat_template_kwargs={}, **fields),
        ModelSettings(name="plain", tool_format="none", **fields),
        ModelSettings(name="fast", tool_format="none", **{**fields, "tokenizer": "auto"}),
    ]
    loaded = asyncio.run(load_models(Settings(models=models), Registry()))
    calls, plain, fast = (model.tokenizer for model in loaded)
    assert calls.whole is plain.whole
    assert calls.whole is not fast.whole
    calls.protect(["<tool_call>"])
    plain.protect([])
    text = calls.controls.shield("<tool_call>x</tool_call>")
    assert calls.encode(text).ids != plain.encode("<tool_call>x</tool_call>").ids
    assert plain.encode("<tool_call>").ids == [plain.token_to_id("<tool_call>")]
    plain.use(lambda texts: [[7] for _ in texts])
    assert calls.is_fast
    assert not fast.is_fast
    assert calls.encode("never seen before").ids == [7]


def test_every_model_of_a_broken_directory_says_why(copied: Path) -> None:
    (copied / "tokenizer.json").unlink()
    models = [ModelSettings(name=name, source=str(copied), tokenizer="hf") for name in ("a", "b")]
    with pytest.raises(StartupError, match=r"model [ab]: .*no such file"):
        asyncio.run(load_models(Settings(models=models), Registry()))
