"""Requests' constraints to grammars, off the event loop and within their time."""

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Any

import msgspec

from app.engines.local.constraint import Constraint, Constraints, kind_of
from app.engines.local.trial import Trial
from app.errors import InvalidRequest, StartupError
from app.protocol.generate import StructuredOutputs
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("Grammars",)

AT_ONCE = 4
"""Constraints that are compiled at the same time; each is over when its time is."""
REMEMBERED = 4096
"""Constraints that are known to compile in time."""


class Grammars:
    """Grammars for one model. Made before the weights are loaded: it forks (:mod:`app.engines.local.trial`).

    Args:
        tokenizer: the model's.
        eos_token_ids: which end a constrained output.
        limit_s: seconds of processor time that a constraint may take to compile.

    Raises:
        StartupError: xgrammar is not installed.
    """

    def __init__(self, tokenizer: Tokenizer, eos_token_ids: tuple[int, ...], limit_s: float) -> None:
        try:
            # Before the fork, which then need not load it once more.
            import xgrammar  # noqa: F401
        except ImportError as error:
            raise StartupError(f"the local engine needs pip install 'isthmus[engine]': {error}") from error
        self._tokenizer = tokenizer
        self._constraints = tried = Constraints(tokenizer, tokenizer.vocab_size, eos_token_ids)
        self._limit_s = limit_s
        self._threads = ThreadPoolExecutor(AT_ONCE, "isthmus-grammar")
        self._passed: OrderedDict[bytes, None] = OrderedDict()
        self._trial = Trial(tried.prepare, tried.compile, limit_s)
        self._trial.open()

    def fit(self, vocab_size: int, eos_token_ids: tuple[int, ...]) -> None:
        """Say what the loaded model's logits are over."""
        self._constraints = Constraints(self._tokenizer, vocab_size, eos_token_ids)

    async def compiled(self, wanted: StructuredOutputs) -> Any:
        """What :meth:`start` takes.

        Raises:
            InvalidRequest: it can't be compiled, or takes too long.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._compile, wanted)

    def start(self, compiled: Any, reasoning_ended: bool | None, reasoning_end: str) -> Constraint:
        """One output's constraint, from the beginning."""
        return self._constraints.start(compiled, reasoning_ended, reasoning_end)

    def close(self) -> None:
        """End the threads and the process. Idempotent."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._trial.close()

    def _compile(self, wanted: StructuredOutputs) -> Any:
        digest = blake2b(msgspec.json.encode(wanted), digest_size=16).digest()
        if digest not in self._passed and not self._trial.passes(wanted):
            kind = kind_of(wanted)
            raise InvalidRequest(
                f"The {kind} constraint takes more than {self._limit_s:g} seconds to compile; make it simpler.",
                param=f"structured_outputs.{kind}",
            )
        self._passed[digest] = None
        while len(self._passed) > REMEMBERED:
            self._passed.popitem(last=False)
        return self._constraints.compile(wanted)
