"""Generate requests to token chunks by a model in this process: the event loop's side of it.

Options of an ``[[engines]]`` table of kind ``local``, all optional::

    source = ""               # weights: directory, .gguf file, hub id or "demo"; unset: the served model's own
    dtype = "auto"            # float32 on a CPU, the checkpoint's own on a GPU
    device = "auto"           # the first GPU, else the CPU
    threads = 0               # of torch; 0: torch's choice
    max_num_seqs = 64         # outputs that run at once
    max_waiting = 1024        # outputs that wait for a place; more are refused as overload
    max_step_tokens = 0       # tokens computed in one step; 0: 512 on a CPU, 4096 on a GPU
    kv_cache_bytes = 0        # keys and values, running and kept; 0: 2 GiB on a CPU, a third of a GPU's free memory
    prefix_cache = true       # keep finished sequences' keys and values for prompts that begin alike
    max_logprobs = 20         # -1: the whole vocabulary
    media_cache_bytes = 0     # embeddings of images and videos; 0: 256 MiB
    transfer_path = ""        # folder in which embeddings are handed from encode to prefill servers; unset: nowhere
    transfer_bytes = 0        # size of that folder; 0: 1 GiB
    encode_only = false       # run the vision encoder and nothing else: the encode role
    grammar_timeout_s = 5     # of a processor, to compile one structured output's grammar
    reasoning_end = "</think>"  # the token that closes reasoning: structured output begins after it, budgets force it
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from app.engines.engine import EngineConfig, EngineHealth, EngineLimits, TokenChunk
from app.engines.local.grammars import Grammars
from app.engines.local.plan import Plan, make_plan, with_bad_words
from app.engines.local.prefix_cache import PrefixCache
from app.engines.local.scheduler import Scheduler
from app.engines.local.stops import StopWatch
from app.engines.table import read_table
from app.errors import EngineFailure, InvalidRequest, Overloaded, StartupError
from app.protocol.generate import GenerateRequest

if TYPE_CHECKING:
    from app.engines.local.media import MediaReader

__all__ = ("LocalEngine", "LocalOptions")

MEDIA_BYTES = 256 * 2**20
TRANSFER_BYTES = 2**30


class LocalOptions(Struct, frozen=True, kw_only=True):
    """The table's keys; see the module's docstring."""

    source: str = ""
    dtype: str = "auto"
    device: str = "auto"
    threads: int = 0
    max_num_seqs: int = 64
    max_waiting: int = 1024
    max_step_tokens: int = 0
    kv_cache_bytes: int = 0
    prefix_cache: bool = True
    max_logprobs: int = 20
    media_cache_bytes: int = 0
    transfer_path: str = ""
    transfer_bytes: int = 0
    encode_only: bool = False
    grammar_timeout_s: float = 5
    reasoning_end: str = "</think>"


class LocalEngine:
    """Registered as kind ``local``. ``model`` is a ready ``PreTrainedModel`` in place of weights (tests)."""

    def __init__(self, config: EngineConfig, *, model: Any = None) -> None:
        self._options = read_table(config.options, LocalOptions)
        self._config = config
        self._given_model = model
        self._runner: Any = None
        self._grammars: Grammars | None = None
        self._queues: dict[Any, asyncio.Queue[TokenChunk | EngineFailure]] = {}
        self._jobs: dict[str, list[list[Any]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = 0
        self._media: MediaReader | None = None
        self._media_thread: ThreadPoolExecutor | None = None
        self._modalities: frozenset[str] = frozenset()
        self._vocab_size = config.vocab_size
        self._max_model_len = config.max_model_len
        self._eos = config.eos_token_ids
        self.limits = EngineLimits(
            max_num_seqs=self._options.max_num_seqs,
            max_logprobs=None if self._options.max_logprobs < 0 else self._options.max_logprobs,
            detokenizes=False,
        )

    async def start(self) -> None:
        """Load the weights, try one step, start the model thread. Idempotent."""
        if self._runner is not None:
            return
        self._loop = asyncio.get_running_loop()
        try:
            self._runner = await asyncio.to_thread(self._load)
        except BaseException:
            await self.stop()
            raise
        self._runner.start()

    def _load(self) -> Any:
        from app.engines.local.load import load_model
        from app.engines.local.memory import kv_tokens, probe
        from app.engines.local.runner import Runner

        options = self._options
        if self._config.tokenizer is not None:
            self._grammars = Grammars(self._config.tokenizer, self._eos, options.grammar_timeout_s)
        source = options.source or self._config.source or self._config.model
        loaded = load_model(source, dtype=options.dtype, device=options.device, model=self._given_model)
        self._open_media(loaded)
        self._vocab_size = loaded.vocab_size
        longest = loaded.max_model_len
        self._max_model_len = min(self._max_model_len or longest, longest or self._max_model_len)
        self._eos = self._eos or loaded.eos_token_ids
        if self._grammars is not None:
            self._grammars.fit(self._vocab_size, self._eos)
        budget = max(kv_tokens(loaded, probe(loaded), options.kv_cache_bytes), self._max_model_len)
        scheduler = Scheduler(
            max_num_seqs=options.max_num_seqs,
            max_step_tokens=options.max_step_tokens or (512 if loaded.device == "cpu" else 4096),
            kv_tokens=budget,
            prefixes=PrefixCache(budget // 2 if options.prefix_cache else 0),
        )
        tokenizer = self._config.tokenizer
        decode = (lambda token: tokenizer.decode([token])) if tokenizer is not None else (lambda token: None)
        return Runner(loaded, scheduler, self._emit, threads=options.threads, decode=decode)

    def _open_media(self, loaded: Any) -> None:
        options = self._options
        if loaded.vision is None:
            if options.transfer_path or options.encode_only:
                raise StartupError("transfer_path and encode_only are for models whose images the local engine takes")
            return
        from app.engines.local.media import MediaReader
        from app.engines.local.transfer import TransferFolder

        folder = None
        if options.transfer_path:
            folder = TransferFolder(options.transfer_path, options.transfer_bytes or TRANSFER_BYTES)
        elif options.encode_only:
            raise StartupError("encode_only needs a transfer_path, or nobody could load what is encoded")
        self._media = MediaReader(loaded.vision, options.media_cache_bytes or MEDIA_BYTES, folder)
        self._media_thread = ThreadPoolExecutor(1, "isthmus-vision")
        self._modalities = frozenset(loaded.vision.tokens)

    async def stop(self) -> None:
        """Abort what runs and end the thread. Idempotent."""
        if self._media_thread is not None:
            self._media_thread.shutdown(wait=False, cancel_futures=True)
        if self._grammars is not None:
            await asyncio.to_thread(self._grammars.close)
        runner, self._runner = self._runner, None
        if runner is None:
            return
        await asyncio.to_thread(runner.stop)
        for queue in self._queues.values():
            queue.put_nowait(EngineFailure("The engine was stopped."))

    def serves(self, config: EngineConfig) -> bool:
        """Models of the same files, length and end tokens: their weights are loaded once."""
        own = self._config
        return (own.source, own.max_model_len, own.vocab_size, own.eos_token_ids) == (
            config.source,
            config.max_model_len,
            config.vocab_size,
            config.eos_token_ids,
        )

    def check(self, request: GenerateRequest) -> None:
        """Refuse what the local engine cannot do."""
        self._plan(request)

    def _plan(self, request: GenerateRequest) -> Plan:
        largest = max(request.token_ids)
        if largest >= self._vocab_size:
            raise InvalidRequest(
                f"Token id {largest} is outside the vocabulary of {self._vocab_size}.", param="token_ids"
            )
        room = self._max_model_len - len(request.token_ids)
        return make_plan(
            request,
            vocab_size=self._vocab_size,
            room=room,
            tokenizer=self._config.tokenizer,
            reasoning_end=self._options.reasoning_end,
            modalities=self._modalities,
        )

    async def _read_media(self, request: GenerateRequest) -> tuple[Any, dict[str, Any] | None]:
        if self._media is None or request.features is None or not request.features.mm_hashes:
            if self._options.encode_only:
                raise InvalidRequest("This engine only encodes media, and the request has none.", param="features")
            return None, None
        return await asyncio.get_running_loop().run_in_executor(self._media_thread, self._media.read, request)

    async def generate(self, request: GenerateRequest) -> AsyncIterator[TokenChunk]:
        """Yield chunks of all outputs as the steps bring them."""
        from app.engines.local.sequence import Sequence as Output

        plan = self._plan(request)
        runner = self._runner
        if runner is None or not runner.alive:
            raise EngineFailure("The engine is not running.")
        media, transfer = await self._read_media(request)
        if self._options.encode_only:
            for index in range(plan.n):
                yield TokenChunk(index=index, finish_reason="length", ec_transfer_params=transfer)
            return
        if plan.bad_words:
            plan = await asyncio.to_thread(with_bad_words, plan, self._config.tokenizer)
        compiled = None
        if plan.structured_outputs is not None and self._grammars is not None:
            compiled = await self._grammars.compiled(plan.structured_outputs)
        waiting = len(self._queues) - self._options.max_num_seqs
        if waiting >= self._options.max_waiting:
            raise Overloaded(f"{waiting} outputs wait for the engine already.")
        queue: asyncio.Queue[TokenChunk | EngineFailure] = asyncio.Queue()
        outputs = []
        for index in range(plan.n):
            constraint = None
            if compiled is not None and self._grammars is not None:
                constraint = self._grammars.start(compiled, request.reasoning_ended, self._options.reasoning_end)
            stops = None
            if plan.stop:
                stops = StopWatch(
                    self._config.tokenizer,
                    plan.stop,
                    request.token_ids,
                    min_tokens=plan.min_tokens,
                    skip_special_tokens=plan.skip_special_tokens,
                )
            outputs.append(Output(request, plan, index, eos=self._eos, stops=stops, constraint=constraint, media=media))
        for output in outputs:
            self._queues[output] = queue
        # A client that tries again may use one id twice; an abort then ends both.
        self._jobs.setdefault(request.request_id, []).append(outputs)
        runner.submit(outputs)
        open_outputs = len(outputs)
        try:
            while open_outputs:
                item = await queue.get()
                if isinstance(item, EngineFailure):
                    raise item
                if item.finish_reason is not None:
                    open_outputs -= 1
                item.ec_transfer_params, transfer = transfer, None
                yield item
        finally:
            jobs = self._jobs[request.request_id]
            jobs.remove(outputs)
            if not jobs:
                del self._jobs[request.request_id]
            for output in outputs:
                self._queues.pop(output, None)
            if open_outputs:
                runner.cancel(outputs)

    async def abort(self, request_ids: Sequence[str]) -> None:
        """End these requests; their iterators yield the abort."""
        for request_id in request_ids:
            for outputs in self._jobs.get(request_id, ()):
                if self._runner is not None:
                    self._runner.cancel(outputs)

    async def health(self) -> EngineHealth:
        """Whether the model thread runs."""
        runner = self._runner
        alive = runner is not None and runner.alive
        running = len(runner.scheduler.running) if runner is not None else 0
        return EngineHealth(
            ok=alive,
            detail="" if alive else "the model thread is not running",
            running=running,
            waiting=runner.scheduler.waiting if runner is not None else 0,
        )

    def _emit(self, emissions: list[Any]) -> None:
        """Called in the model thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._deliver, emissions)

    def _deliver(self, emissions: list[Any]) -> None:
        for output, item in emissions:
            queue = self._queues.get(output)
            if queue is not None:
                queue.put_nowait(item)
