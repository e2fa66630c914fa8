"""A gpt-oss tokenizer to the vocabulary file that ``openai-harmony`` loads, so that nothing is downloaded.

The library reads ``o200k_base.tiktoken`` (a line per token: base64 of its bytes, a space, its rank) from the folder
that ``TIKTOKEN_ENCODINGS_BASE`` names, and checks its digest. All of it is in the model's own tokenizer.json.
"""

import base64
import hashlib
import os
import tempfile
import threading
from pathlib import Path

from openai_harmony import HarmonyEncoding, load_harmony_encoding

from app.errors import StartupError
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("load_encoding",)

FILE = "o200k_base.tiktoken"
SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""Of the file that OpenAI publishes; the library accepts no other."""
RANKS = 199_998
"""Ids below are the vocabulary's, from here on special tokens."""
BASE = "TIKTOKEN_ENCODINGS_BASE"
LOCK = threading.Lock()


def load_encoding(tokenizer: Tokenizer, source: Path, cache_dir: Path) -> HarmonyEncoding:
    """The library's encoding over the model's own vocabulary.

    Args:
        tokenizer: the model's.
        source: its directory, for error texts.
        cache_dir: where the vocabulary file is kept; written once.

    Raises:
        StartupError: the tokenizer is not gpt-oss's, or the folder cannot be written.
    """
    folder = cache_dir / "harmony"
    path = folder / FILE
    try:
        known = path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == SHA256
        if not known:
            data = vocabulary(tokenizer)
            if hashlib.sha256(data).hexdigest() != SHA256:
                raise StartupError(f'{source / "tokenizer.json"}: not gpt-oss\'s vocabulary; set encoder = "none"')
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                file.write(data)
            Path(file.name).replace(path)
    except OSError as error:
        raise StartupError(f"{path}: {error.strerror}; set ISTHMUS_CACHE to a folder that can be written") from error
    with LOCK:
        before = os.environ.get(BASE)
        os.environ[BASE] = str(folder)
        try:
            return load_harmony_encoding("HarmonyGptOss")
        except Exception as error:
            raise StartupError(f"{path}: {error}") from error
        finally:
            if before is None:
                del os.environ[BASE]
            else:
                os.environ[BASE] = before


def vocabulary(tokenizer: Tokenizer) -> bytes:
    """The file's content, byte for byte the published one for a gpt-oss tokenizer."""
    lines = []
    for rank in range(min(RANKS, tokenizer.vocab_size)):
        token = tokenizer.token_bytes(rank)
        if token:
            lines.append(b"%s %d\n" % (base64.b64encode(token), rank))
    return b"".join(lines)
