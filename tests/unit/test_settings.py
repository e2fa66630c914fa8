"""File and environment to settings: every key has both ways in, and what is wrong is named in one line."""

from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from app.errors import StartupError
from app.settings import EngineSettings, ModelSettings, Settings, load_settings

MODEL = '[[models]]\nname = "q"\nsource = "/models/q"\n'


def load(tmp_path: Path, toml: str | None = None, **environ: str) -> Settings:
    if toml is not None:
        (tmp_path / "isthmus.toml").write_text(toml)
    return load_settings(environ, tmp_path)


def refusal(tmp_path: Path, toml: str | None = None, **environ: str) -> str:
    with pytest.raises(StartupError) as caught:
        load(tmp_path, toml, **environ)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_nothing_given_serves_the_demo_model(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert [(model.name, model.source, model.engine) for model in settings.models] == [("demo", "demo", "local")]
    assert [(engine.name, engine.kind) for engine in settings.engines] == [("local", "local")]


@pytest.mark.parametrize(
    ("source", "name"), [("/models/qwen3", "qwen3"), ("./qwen3/", "qwen3"), ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B")]
)
def test_one_variable_serves_one_model(tmp_path: Path, source: str, name: str) -> None:
    settings = load(tmp_path, ISTHMUS_MODEL=source)
    assert [(model.name, model.source, model.engine) for model in settings.models] == [(name, source, "")]


def test_the_one_model_takes_further_keys_from_the_environment(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        ISTHMUS_MODEL="/models/qwen3",
        ISTHMUS_MODELS__0__ENGINE="pool",
        ISTHMUS_ENGINES__0__NAME="pool",
        ISTHMUS_ENGINES__0__KIND="vllm",
        ISTHMUS_ENGINES__0__URLS='["http://127.0.0.1:8001"]',
    )
    assert settings.models[0].engine == "pool"
    assert settings.engines == [EngineSettings(name="pool", kind="vllm", options={"urls": ["http://127.0.0.1:8001"]})]


def test_a_named_file_is_read_and_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('now = "2026-11-29"\n' + MODEL)
    assert load(tmp_path, ISTHMUS_CONFIG="other.toml").now == "2026-11-29"
    assert refusal(tmp_path, ISTHMUS_CONFIG="absent.toml").startswith("absent.toml: ")


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    toml = "max_queue = 5\n[media]\nmax_items = 3\nmax_bytes = 10\n" + MODEL
    settings = load(tmp_path, toml, ISTHMUS_MAX_QUEUE="6", ISTHMUS_MEDIA__MAX_ITEMS="4")
    assert (settings.max_queue, settings.media.max_items, settings.media.max_bytes) == (6, 4, 10)


def test_an_engines_own_keys_become_its_options(tmp_path: Path) -> None:
    toml = MODEL + '[[engines]]\nname = "p"\nkind = "vllm"\nurls = ["http://a"]\noptions = {api_key = "k"}\n'
    assert load(tmp_path, toml).engines[0].options == {"api_key": "k", "urls": ["http://a"]}


@pytest.mark.parametrize(
    "given",
    [{"ISTHMUS_API_KEYS": "a, b"}, {"ISTHMUS_API_KEYS": '["a", {"key": "b"}]'}],
    ids=["commas", "json"],
)
def test_api_keys_from_the_environment(tmp_path: Path, given: dict[str, str]) -> None:
    assert [key.key for key in load(tmp_path, **given).api_keys] == ["a", "b"]


def test_api_keys_from_the_file(tmp_path: Path) -> None:
    keys = load(tmp_path, 'api_keys = ["a", {key = "b", tenant = "t"}]\n' + MODEL).api_keys
    assert [(key.key, key.tenant) for key in keys] == [("a", ""), ("b", "t")]


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("max_quue = 3\n" + MODEL, ["isthmus.toml", "max_quue", "max_queue"]),
        (MODEL + "max_model_length = 3\n", ["models[0].max_model_length", "max_model_len"]),
        (MODEL + 'max_model_len = "long"\n', ["models[0].max_model_len", "int"]),
        (MODEL + "max_model_len = 0\n", ["models[0].max_model_len"]),
        (MODEL + 'tokenizer = "slow"\n', ["models[0].tokenizer", "slow"]),
        (MODEL + 'engine = "pool"\n', ["models[0].engine", "pool"]),
        (MODEL + MODEL, ["models[1].name", "'q'"]),
        (MODEL + 'aliases = [""]\n', ["models[0].aliases"]),
        ('[[models]]\nname = "q"\n', ["models[0]", "source"]),
        ("[media]\nmax_bytes = -1\n", ["media.max_bytes"]),
        ('now = "29.11.2026"\n', ["now", "YYYY-MM-DD"]),
        ('api_keys = ["a", "a"]\n', ["api_keys[1]", "twice"]),
        ('api_keys = [""]\n', ["api_keys[0]", "empty"]),
        ("models = 3\n", ["models", "array"]),
        ("max_queue = \n", ["isthmus.toml", "TOML"]),
    ],
)
def test_what_is_wrong_is_named_with_file_key_and_reason(tmp_path: Path, toml: str, said: list[str]) -> None:
    message = refusal(tmp_path, toml)
    assert message.startswith("isthmus.toml: ")
    assert all(word in message for word in said), message


def test_a_wrong_variable_is_named_itself(tmp_path: Path) -> None:
    assert refusal(tmp_path, ISTHMUS_MEDIA__MAX_BYTES="x").startswith("ISTHMUS_MEDIA__MAX_BYTES: media.max_bytes: ")
    assert refusal(tmp_path, ISTHMUS_MODELS__3__NAME="x").startswith("ISTHMUS_MODELS__3__NAME: ")


def test_a_misspelt_variable_does_not_leave_the_server_open(tmp_path: Path) -> None:
    assert "ISTHMUS_API_KEYS" in refusal(tmp_path, ISTHMUS_API_KEY="secret")
    load(tmp_path, ISTHMUS_SOMETHING_ELSE="someone's own")


def test_a_toml_date_is_taken_for_now(tmp_path: Path) -> None:
    assert load(tmp_path, "now = 2026-11-29\n" + MODEL).now == "2026-11-29"


def leaves(struct: type[Struct], prefix: str) -> list[tuple[str, Any]]:
    """Environment names of all settings that are no tables, with their types."""
    found = []
    for key, hint in get_type_hints(struct).items():
        if isinstance(hint, type) and issubclass(hint, Struct):
            found += leaves(hint, f"{prefix}{key.upper()}__")
        else:
            found.append((prefix + key.upper(), hint))
    return found


SAMPLES: dict[Any, tuple[str, Any]] = {bool: ("true", True), int: ("7", 7), float: ("7.5", 7.5), str: ("x", "x")}
SIMPLE = [(name, hint) for name, hint in leaves(Settings, "ISTHMUS_") if hint in SAMPLES and name != "ISTHMUS_NOW"]


@pytest.mark.parametrize(("name", "hint"), SIMPLE, ids=[name for name, _ in SIMPLE])
def test_every_setting_has_an_environment_name(tmp_path: Path, name: str, hint: Any) -> None:
    text, value = SAMPLES[hint]
    node: Any = load(tmp_path, **{name: text})
    for key in name.removeprefix("ISTHMUS_").lower().split("__"):
        node = getattr(node, key)
    assert node == value


def test_every_model_key_has_an_environment_name(tmp_path: Path) -> None:
    for key, hint in get_type_hints(ModelSettings).items():
        if hint is str and key not in ("source", "engine"):
            settings = load(tmp_path, ISTHMUS_MODEL="/m", **{f"ISTHMUS_MODELS__0__{key.upper()}": "x"})
            assert getattr(settings.models[0], key) == "x"
        elif get_origin(hint) is list and get_args(hint) == (str,):
            settings = load(tmp_path, ISTHMUS_MODEL="/m", **{f"ISTHMUS_MODELS__0__{key.upper()}": "a,b"})
            assert getattr(settings.models[0], key) == ["a", "b"]


NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(get_type_hints(Settings))), VALUES, max_size=4))
def test_any_json_in_the_environment_is_settings_or_one_line(values: dict[str, Any]) -> None:
    import json

    environ = {f"ISTHMUS_{key.upper()}": json.dumps(value) for key, value in values.items()}
    try:
        assert load_settings(environ, Path("/nonexistent")).models
    except StartupError as error:
        assert "\n" not in error.message
