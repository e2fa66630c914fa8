"""Jobs to token chunks: the thread that owns the model and runs one step after another."""

import collections
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from app.engines.engine import TokenChunk
from app.engines.local.attention import StepRange
from app.engines.local.load import LoadedModel
from app.engines.local.sampler import position_logprobs, sample
from app.engines.local.scheduler import Scheduler
from app.engines.local.sequence import Sequence
from app.errors import EngineFailure
from app.protocol.generate import TokenLogprob

__all__ = ("Emission", "Runner")

logger = logging.getLogger(__name__)

Emission = tuple[Sequence, TokenChunk | EngineFailure]
"""What one sequence has to say after a step."""


class Runner:
    """Runs the model in a thread of its own; torch releases the GIL while it computes.

    Args:
        loaded: the model.
        scheduler: who computes what; touched by the thread alone.
        emit: called in the thread after every step with all that the step brought.
        threads: of torch; 0 leaves torch's own choice.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        scheduler: Scheduler,
        emit: Callable[[list[Emission]], None],
        *,
        threads: int = 0,
        decode: Callable[[int], str | None] = lambda _: None,
    ) -> None:
        self._loaded = loaded
        self.scheduler = scheduler
        self._emit = emit
        self._threads = threads
        self._decode = decode
        self._inbox: collections.deque[tuple[str, tuple[Sequence, ...]]] = collections.deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._drafts: dict[int, TokenChunk] = {}
        self._thread = threading.Thread(target=self._run, name="isthmus-model", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end after the step in work and wait for it."""
        self._stopping = True
        with self._wake:
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def submit(self, sequences: Iterable[Sequence]) -> None:
        """Queue sequences. From any thread."""
        self._post("add", sequences)

    def cancel(self, sequences: Iterable[Sequence]) -> None:
        """End sequences with finish reason "abort". From any thread."""
        self._post("cancel", sequences)

    def _post(self, verb: str, sequences: Iterable[Sequence]) -> None:
        with self._wake:
            self._inbox.append((verb, tuple(sequences)))
            self._wake.notify()

    def _run(self) -> None:
        import torch

        if self._threads:
            torch.set_num_threads(self._threads)
        if self._loaded.device.startswith("cuda"):
            # Kernels that are no torch operators (xgrammar's) run on the thread's current device.
            torch.cuda.set_device(self._loaded.device)
        while True:
            with self._wake:
                while not (self._stopping or self._inbox or self.scheduler.running or self.scheduler.waiting):
                    self._wake.wait()
            if self._stopping:
                return
            emissions = self._take()
            try:
                emissions += self._step()
            except Exception as error:
                logger.exception("a step of the local engine failed")
                emissions += self._fail(error)
            if emissions:
                self._emit(emissions)

    def _take(self) -> list[Emission]:
        """Do what was asked for since the last step."""
        emissions: list[Emission] = []
        while self._inbox:
            verb, sequences = self._inbox.popleft()
            for sequence in sequences:
                if verb == "add":
                    self.scheduler.add(sequence)
                elif sequence.finish_reason is None:
                    sequence.finish_reason = "abort"
                    draft = self._drafts.pop(id(sequence), None) or TokenChunk(index=sequence.index)
                    draft.finish_reason = "abort"
                    self.scheduler.drop(sequence)
                    emissions.append((sequence, draft))
        return emissions

    def _fail(self, error: Exception) -> list[Emission]:
        failure = EngineFailure(f"The model failed: {type(error).__name__}.")
        self._drafts.clear()
        failed = self.scheduler.clear()
        for sequence in failed:
            sequence.finish_reason = "abort"
        return [(sequence, failure) for sequence in failed]

    def _step(self) -> list[Emission]:
        import torch

        work = self.scheduler.next_step()
        if not work:
            return []
        ids: list[int] = []
        positions: list[int] = []
        ranges: list[StepRange] = []
        rows: list[int] = []
        spans: list[tuple[Any, int, int, int]] = []
        for sequence, count in work:
            cache = sequence.cache
            assert cache is not None
            first, start = cache.length, len(ids)
            ranges.append(StepRange(cache, start, count))
            spans.append((sequence.media, first, start, count))
            ids += sequence.ids[first : first + count]
            positions += range(first, first + count)
            if self._wants_prompt_logprobs(sequence):
                rows += range(start, start + count)
            elif count == sequence.pending:
                rows.append(start + count - 1)
        device = self._loaded.device
        with torch.inference_mode():
            if self._loaded.vision is not None:
                return self._absorb(work, self._loaded.vision.logits(ids, spans, rows, ranges).float())
            logits = self._loaded.model(
                input_ids=torch.tensor([ids], device=device),
                position_ids=torch.tensor([positions], device=device),
                use_cache=False,
                step=ranges,
                logits_to_keep=torch.tensor(rows, device=device, dtype=torch.long),
            ).logits[0]
            return self._absorb(work, logits.float())

    def _absorb(self, work: list[tuple[Sequence, int]], logits: Any) -> list[Emission]:
        """Count what was computed, read prompt logprobs, sample where a sequence is complete."""
        row = 0
        ready: list[Sequence] = []
        picked: list[int] = []
        for sequence, count in work:
            assert sequence.cache is not None
            complete = count == sequence.pending
            wants = self._wants_prompt_logprobs(sequence)
            first = sequence.cache.length
            sequence.cache.length += count
            if wants:
                self._read_prompt_logprobs(sequence, first, logits[row : row + count])
                row += count
            elif complete:
                row += 1
            if complete:
                ready.append(sequence)
                picked.append(row - 1)
        if not ready:
            return []
        emissions: list[Emission] = []
        for sequence, (token, logprob) in zip(ready, sample(logits[picked], ready), strict=True):
            sequence.append(token)
            if sequence.finish_reason is not None:
                self.scheduler.drop(sequence)
            chunk = self._draft(sequence, token, logprob)
            if chunk is not None:
                emissions.append((sequence, chunk))
        return emissions

    def _draft(self, sequence: Sequence, token: int, logprob: TokenLogprob | None) -> TokenChunk | None:
        """The chunk to send now, or None while the stream interval gathers tokens."""
        draft = self._drafts.pop(id(sequence), None) or TokenChunk(index=sequence.index)
        draft.token_ids.append(token)
        if logprob is not None:
            draft.logprobs = [*(draft.logprobs or ()), logprob]
        if len(sequence.output) == 1:
            draft.cached_tokens = sequence.cached_tokens
            if sequence.plan.prompt_logprobs is not None and sequence.index == 0:
                draft.prompt_logprobs = sequence.prompt_logprobs
        draft.finish_reason, draft.stop_reason = sequence.finish_reason, sequence.stop_reason
        if draft.finish_reason is None and (len(sequence.output) - 1) % sequence.plan.stream_interval:
            self._drafts[id(sequence)] = draft
            return None
        return draft

    def _wants_prompt_logprobs(self, sequence: Sequence) -> bool:
        return (
            sequence.plan.prompt_logprobs is not None
            and sequence.index == 0
            and len(sequence.prompt_logprobs) < sequence.prompt_length
        )

    def _read_prompt_logprobs(self, sequence: Sequence, first: int, logits: Any) -> None:
        """Position ``p`` tells how likely the prompt's token ``p + 1`` was; the first token has no entry (None)."""
        entries = sequence.prompt_logprobs
        if not entries:
            entries.append(None)
        for offset in range(len(logits)):
            place = first + offset + 1
            if place != len(entries) or place >= sequence.prompt_length:
                continue
            raw = logits[offset].log_softmax(-1)
            found = position_logprobs(raw, sequence.ids[place], sequence.plan.prompt_logprobs or 0)
            entries.append(
                {
                    str(top.token_id): {
                        "logprob": top.logprob,
                        "rank": top.rank,
                        "decoded_token": self._decode(top.token_id),
                    }
                    for top in found.top_logprobs
                }
            )
