"""An engine that answers given token ids: for tests of everything that stands behind an engine.

    engine = ScriptedEngine(Script(ids, per_chunk=3), Script(other_ids, fail_after=2))

Requests take the scripts in turn (the last one again and again); a callable takes the request and answers a script.
``engine.requests`` are what was asked, ``engine.aborted`` whose iterators were closed or aborted before their end, and
``engine.running`` must be back to zero when a test is over.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from msgspec import UNSET, Struct

from app.engines.engine import EngineHealth, EngineLimits, TokenChunk
from app.errors import EngineFailure, IsthmusError
from app.protocol.generate import GenerateRequest, TokenLogprob, TopLogprob


class Script(Struct, frozen=True):
    """One answer. ``delay_s`` before every chunk; ``fail_after`` chunks ``error`` is raised."""

    token_ids: Sequence[int]
    finish_reason: str = "stop"
    stop_reason: int | str | None = None
    per_chunk: int = 1
    delay_s: float = 0.0
    fail_after: int | None = None
    error: IsthmusError | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    prompt_logprobs: list[dict[str, Any] | None] | None = None
    cached_tokens: int | None = None


class ScriptedEngine:
    """Yields scripts. ``max_tokens`` cuts them with finish reason "length", as a real engine does."""

    def __init__(
        self, *scripts: Script | Sequence[int] | Callable[[GenerateRequest], Script], limits: EngineLimits | None = None
    ) -> None:
        self.scripts = list(scripts)
        self.limits = limits or EngineLimits()
        self.requests: list[GenerateRequest] = []
        self.aborted: list[str] = []
        self.running = 0
        self.ok = True
        self.refusal: IsthmusError | None = None
        self._abort: dict[str, asyncio.Event] = {}

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        for event in self._abort.values():
            event.set()

    def check(self, request: GenerateRequest) -> None:
        if self.refusal is not None:
            raise self.refusal

    async def abort(self, request_ids: Sequence[str]) -> None:
        for request_id in request_ids:
            if request_id in self._abort:
                self._abort[request_id].set()

    async def health(self) -> EngineHealth:
        return EngineHealth(ok=self.ok, detail="scripted", running=self.running)

    def generate(self, request: GenerateRequest) -> AsyncIterator[TokenChunk]:
        turn = min(len(self.requests), len(self.scripts) - 1)
        entry = self.scripts[turn]
        script = entry(request) if callable(entry) else entry if isinstance(entry, Script) else Script(list(entry))
        self.requests.append(request)
        return self._run(request, script)

    async def _run(self, request: GenerateRequest, script: Script) -> AsyncIterator[TokenChunk]:
        params = request.sampling_params
        ids, reason, stop_reason = list(script.token_ids), script.finish_reason, script.stop_reason
        if isinstance(params.max_tokens, int) and len(ids) > params.max_tokens:
            ids, reason, stop_reason = ids[: params.max_tokens], "length", None
        outputs = 1 if params.n is UNSET else params.n
        wanted = params.logprobs is not UNSET and params.logprobs is not None
        abort = self._abort[request.request_id] = asyncio.Event()
        self.running += 1
        finished = False
        try:
            pieces = [ids[i : i + script.per_chunk] for i in range(0, len(ids), script.per_chunk)] or [[]]
            for number, piece in enumerate(pieces):
                if script.delay_s:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(abort.wait(), script.delay_s)
                else:
                    await asyncio.sleep(0)
                if script.fail_after is not None and number >= script.fail_after:
                    raise script.error or EngineFailure("the engine died")
                if abort.is_set():
                    self.aborted.append(request.request_id)
                    finished = True
                    for index in range(outputs):
                        yield TokenChunk(index=index, finish_reason="abort")
                    return
                last, first = number == len(pieces) - 1, number == 0
                for index in range(outputs):
                    yield TokenChunk(
                        index=index,
                        token_ids=piece,
                        logprobs=[_logprob(i) for i in piece] if wanted else None,
                        finish_reason=reason if last else None,
                        stop_reason=stop_reason if last else None,
                        prompt_logprobs=script.prompt_logprobs if first and index == 0 else None,
                        cached_tokens=script.cached_tokens if first else None,
                        kv_transfer_params=script.kv_transfer_params if last else None,
                        ec_transfer_params=script.ec_transfer_params if last else None,
                    )
            finished = True
        finally:
            self.running -= 1
            self._abort.pop(request.request_id, None)
            if not finished:
                self.aborted.append(request.request_id)


def _logprob(token_id: int) -> TokenLogprob:
    top = TopLogprob(token_id=token_id, logprob=-0.5, rank=1)
    return TokenLogprob(token_id=token_id, logprob=-0.5, rank=1, top_logprobs=[top])
