"""The tokenizers of all served models: models of one directory share one vocabulary in memory."""

from concurrent.futures import Future
from pathlib import Path
from threading import Lock

from app.tokenizing.hf import HFTokenizer, load_tokenizer

__all__ = ("SharedTokenizers",)


class SharedTokenizers:
    """Loads each directory's tokenizer once, from any thread. Models under ``tokenizer = "hf"`` share with their like
    only, so that they never get the faster library that another one has."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loading: dict[tuple[Path, str], Future[HFTokenizer]] = {}

    def load(self, source: Path, library: str, *, min_vocab_size: int) -> HFTokenizer:
        """A tokenizer of its own for one model.

        Args:
            source: the model's directory.
            library: the setting ``tokenizer``.
            min_vocab_size: the model's embedding rows.

        Raises:
            StartupError: the directory has none, or it cannot be read; one line.
        """
        key = (source.resolve(), library)
        with self._lock:
            known = self._loading.get(key)
            loading: Future[HFTokenizer] = known if known is not None else Future()
            self._loading[key] = loading
        if known is not None:
            return known.result().twin()
        try:
            loading.set_result(load_tokenizer(source, min_vocab_size=min_vocab_size))
        except BaseException as error:
            loading.set_exception(error)
        return loading.result()
