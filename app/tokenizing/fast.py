"""A tokenizer that answers at once to the same tokenizer made faster: ``fastokens`` behind Hugging Face's library.

``fastokens`` encodes several times faster but takes a second or two to load, and is a younger library. So a model
gets ready on Hugging Face's; the other one is loaded behind it in a thread of low priority, must give the same ids on
the probe texts, and then encodes the text between added tokens. Loading it holds the GIL for long stretches (up to a
second was seen on a busy machine), so that waits until nothing has been asked of the server for a while. The
verdict is kept on disk by the file's hash, so that a tokenizer that does not agree is loaded only once. Whatever it
fails on goes to Hugging Face's.
"""

import hashlib
import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from app.tokenizing.hf import HFTokenizer
from app.tokenizing.memory import return_free_memory
from app.tokenizing.probes import PROBES

__all__ = ("Disagrees", "SpeedUp", "speed_up")

_log = logging.getLogger("isthmus.tokenizing")
_CHECK = 1
"""Of the check; a new one makes old verdicts void."""
IDLE_S = 10.0
"""How long the server must have had nothing to do before a tokenizer is loaded."""


class Disagrees(Exception):
    """Why a tokenizer stays on Hugging Face's library, in one line."""


class Verdict(Struct, frozen=True):
    """What the check found; ``why`` is empty where the two agree."""

    why: str = ""


def _verdict_path(tokenizer: HFTokenizer, cache: Path) -> Path:
    release = version("fastokens")
    digest = hashlib.sha256(tokenizer.files.data)
    return cache / "fastokens" / f"{digest.hexdigest()[:32]}-{release}-{_CHECK}.json"


def _read_verdict(path: Path) -> Verdict | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Verdict)
    except (OSError, msgspec.DecodeError):
        return None


def _write_verdict(path: Path, verdict: Verdict) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(msgspec.json.encode(verdict))
        draft.replace(path)
    except OSError as error:
        _log.info("%s: the verdict is not kept: %s", path, error.strerror)


def _check(tokenizer: HFTokenizer, fast: Any) -> str:
    """Why the two don't agree, or ""."""
    contents = [token.content for token in tokenizer.added_tokens.values()]
    texts = [text for text in (*PROBES, *contents[:50], *contents[-50:]) if text]
    texts += [" ".join(texts), "".join(texts), "\n\n".join(texts) * 4]
    for text, ids in zip(texts, tokenizer.encode_pieces_plainly(texts), strict=True):
        if fast.encode_ordinary(text).ids != ids:
            return f"other ids for {text[:40]!r}"
    return ""


def speed_up(tokenizer: HFTokenizer, cache: Path) -> None:
    """Load, check and swap in ``fastokens`` for one tokenizer, unless a twin of it has it already.

    Args:
        tokenizer: it goes on encoding meanwhile, from any thread.
        cache: directory of verdicts.

    Raises:
        Disagrees: it stays as it is.
    """
    if tokenizer.is_fast:
        return
    if not tokenizer.in_pieces:
        raise Disagrees("its texts are not encoded in pieces")
    try:
        fastokens: Any = importlib.import_module("fastokens")
        path = _verdict_path(tokenizer, cache)
    except (ImportError, PackageNotFoundError) as error:
        raise Disagrees("fastokens is not installed") from error
    verdict = _read_verdict(path)
    if verdict is not None and verdict.why:
        raise Disagrees(verdict.why)
    try:
        # From the file, as from_json_str holds the GIL while it copies and checks megabytes of text.
        fast = fastokens.Tokenizer.from_file(str(tokenizer.files.path))
        why = _check(tokenizer, fast) if verdict is None else ""
    except Exception as error:  # a native library's own
        why = f"it fails: {(str(error).splitlines() or [type(error).__name__])[0]}"
    if why or verdict is None:
        _write_verdict(path, Verdict(why))
    if why:
        raise Disagrees(why)

    def encode(texts: list[str]) -> list[list[int]]:
        try:
            return [fast.encode_ordinary(text).ids for text in texts]
        except Exception:  # its regular expressions have a backtracking limit; Hugging Face's do not need one
            return tokenizer.encode_pieces_plainly(texts)

    tokenizer.use(encode)
    return_free_memory()


class SpeedUp:
    """Speeds tokenizers up one after the other in a thread of low priority, while the server is idle.

    Args:
        tokenizers: by the names to log them under.
        cache: directory of verdicts.
        idle_s: for how many seconds the server has had nothing to do.
    """

    def __init__(self, tokenizers: Iterable[tuple[str, HFTokenizer]], cache: Path, idle_s: Callable[[], float]) -> None:
        self._idle_s = idle_s
        self._tokenizers = list(tokenizers)
        self._cache = cache
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fastokens", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        if self._tokenizers:
            self._thread.start()

    def stop(self) -> None:
        """Begin nothing more."""
        self._stop.set()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until all is done."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        if hasattr(os, "setpriority"):  # per thread on Linux
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        for name, tokenizer in self._tokenizers:
            while (wait_s := IDLE_S - self._idle_s()) > 0:
                if self._stop.wait(wait_s):
                    return
            if self._stop.is_set():
                return
            try:
                speed_up(tokenizer, self._cache)
                _log.info("%s: tokenized by fastokens from now on", name)
            except Disagrees as why:
                _log.info("%s: tokenized by Hugging Face's tokenizers, not fastokens: %s", name, why)
