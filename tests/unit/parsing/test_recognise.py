"""What a template and a vocabulary show of a model's formats."""

import json
from importlib.metadata import entry_points

import pytest

from app.parsing.format import ReasoningFormat, ToolFormat
from app.parsing.recognise import recognise
from tests.models import BUILT, shared_models

FORMATS = {point.name: point.load() for point in entry_points(group="isthmus.formats")}
TOOLS = {name.removeprefix("tool."): f for name, f in FORMATS.items() if isinstance(f, ToolFormat)}
REASONING = {name.removeprefix("reasoning."): f for name, f in FORMATS.items() if isinstance(f, ReasoningFormat)}
EXPECTED = {
    "qwen3": ("hermes", "qwen3"),
    "qwen2.5": ("hermes", ""),
    "hermes-2-pro-llama3": ("hermes", ""),
    "llama3.1": ("llama3_json", ""),
    "mistral-nemo-hf": ("mistral", ""),
    "mistral-small-3.2-hf": ("mistral", ""),
    "deepseek-v3.1": ("deepseek_v31", "deepseek_v3"),
    "glm-4.5-surrogate": ("glm45", "glm45"),
    "glm-4.6-surrogate": ("glm45", "glm45"),
    "kimi-k2-surrogate": ("kimi_k2", "kimi_k2"),
    "gpt-oss": ("openai", "openai_gptoss"),
    "minimax-m2-surrogate": ("minimax_m2", "minimax_m2"),
    "command-r": ("", ""),
    "llama2": ("", ""),
    "gemma3": ("", ""),
    "phi-4": ("", ""),
}


@pytest.mark.parametrize("model", sorted(EXPECTED))
def test_real_models_are_recognised(model, model_dir, load_files):
    if model not in BUILT and model not in shared_models():
        pytest.skip("no shared folder")
    templates, added = load_files(model_dir(model))
    found = tuple(recognise(formats, templates, added)[1].name for formats in (TOOLS, REASONING))
    assert found == EXPECTED[model]


@pytest.fixture
def load_files():
    def load(directory):
        templates = [path.read_text("utf-8") for path in directory.rglob("*.jinja")]
        tokenizer = json.loads((directory / "tokenizer.json").read_text("utf-8"))
        config = json.loads((directory / "tokenizer_config.json").read_text("utf-8"))
        if not templates and isinstance(config.get("chat_template"), str):
            templates = [config["chat_template"]]
        return templates, {token["content"] for token in tokenizer["added_tokens"]}

    return load


def test_none_rather_than_a_guess():
    one = ToolFormat(name="one", sections=TOOLS["hermes"].sections, signature=("<a>",))
    two = ToolFormat(name="two", sections=TOOLS["glm45"].sections, signature=("<b>",))
    format, found = recognise({"one": one, "two": two}, ["<a> <b>"], ())
    assert format is None and "one or two" in found.why
    assert recognise({"one": one}, ["nothing"], ["<a>"])[0] is None
    assert recognise({"one": one, "alias": one}, ["<a>"], ())[1].name == "one"
