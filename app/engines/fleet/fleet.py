"""Requests to workers: the best one by affinity and load, another one while no token is there, never after.

A worker that refuses the request itself is believed: no other one is asked. A worker that has no room, fails or does
not answer in time is left for the next, ``retries`` times at most.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress

from app.engines.engine import EngineHealth, TokenChunk
from app.engines.fleet.affinity import Affinity
from app.engines.fleet.blocks import prompt_blocks
from app.engines.fleet.breaker import Breaker
from app.engines.fleet.options import FleetOptions
from app.engines.worker import Worker
from app.errors import EngineFailure, InvalidRequest, Overloaded
from app.protocol.generate import GenerateRequest

__all__ = ("Fleet",)


class Fleet:
    """The workers of one role.

    Args:
        urls: base URLs, all different.
        make: a worker from its URL.
        options: of the engine.
    """

    def __init__(self, urls: Sequence[str], make: Callable[[str], Worker], options: FleetOptions) -> None:
        self.workers = {url: make(url) for url in dict.fromkeys(urls)}
        self._options = options
        self._breakers = {url: Breaker(options.breaker_failures, options.breaker_rest_s) for url in self.workers}
        self._affinity = Affinity(slack=options.affinity_slack, load_blocks=options.affinity_load_blocks)
        self._checks: asyncio.Task[None] | None = None
        self._placed: dict[str, list[tuple[Worker, str]]] = {}

    async def start(self) -> None:
        """Check every worker once, then again and again. Sick workers don't stop the start."""
        if self._options.health_interval_s > 0 and self._checks is None:
            await self._check()
            self._checks = asyncio.create_task(self._keep_checking())

    async def stop(self) -> None:
        """End the checks, close every connection. Idempotent."""
        checks, self._checks = self._checks, None
        if checks is not None:
            checks.cancel()
            with suppress(asyncio.CancelledError):
                await checks
        await asyncio.gather(*(worker.close() for worker in self.workers.values()))

    async def _keep_checking(self) -> None:
        while True:
            await asyncio.sleep(self._options.health_interval_s)
            await self._check()

    async def _check(self) -> None:
        before = {url: worker.healthy for url, worker in self.workers.items()}
        await asyncio.gather(*(worker.check() for worker in self.workers.values()))
        for url, worker in self.workers.items():
            if worker.healthy and not before[url]:
                # It may have been started anew with an empty cache.
                self._affinity.forget(url)

    def health(self) -> EngineHealth:
        """Of the last check, and of what the breakers know."""
        usable = [url for url, worker in self.workers.items() if worker.healthy and not self._breakers[url].open]
        return EngineHealth(
            ok=bool(usable),
            detail=f"{len(usable)} of {len(self.workers)} workers usable",
            running=sum(worker.running for worker in self.workers.values()),
        )

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenChunk, None]:
        """Run ``request`` on the best worker. Closing the iterator ends it there.

        Raises:
            InvalidRequest: a worker refuses the request.
            Overloaded: no worker that was asked had room.
            EngineFailure: no worker is usable, all that were asked failed, or one failed after its first token.
        """
        blocks = prompt_blocks(request, self._options.block_tokens)
        tried: set[str] = set()
        failure: EngineFailure | Overloaded | None = None
        for _ in range(self._options.retries + 1):
            url = self._choose(blocks, tried)
            if url is None:
                break
            tried.add(url)
            started = False
            try:
                async with aclosing(self._run(url, request)) as chunks:
                    async for chunk in chunks:
                        if not started:
                            started = True
                            self._affinity.learn(blocks, url)
                        yield chunk
                return
            except (EngineFailure, Overloaded) as error:
                if started:
                    raise
                # A full worker says more to the caller than one that is gone.
                failure = failure if isinstance(failure, Overloaded) else error
        raise failure or EngineFailure("No worker can be reached.")

    def _choose(self, blocks: Sequence[int], tried: set[str]) -> str | None:
        """The best worker that is not resting: healthy ones first, others where there are none."""
        closed = [url for url in self.workers if url not in tried and not self._breakers[url].open]
        healthy = [url for url in closed if self.workers[url].healthy]
        running = {url: self.workers[url].running for url in healthy or closed}
        return self._affinity.rank(blocks, running)[0] if running else None

    async def _run(self, url: str, request: GenerateRequest) -> AsyncGenerator[TokenChunk, None]:
        worker, breaker = self.workers[url], self._breakers[url]
        worker_id = f"{request.request_id}-{secrets.token_hex(4)}"
        placed = (worker, worker_id)
        self._placed.setdefault(request.request_id, []).append(placed)
        breaker.begin()
        judged = False
        try:
            async with aclosing(worker.generate(request, worker_id)) as chunks:
                async for chunk in chunks:
                    if not judged:
                        judged = True
                        breaker.succeed()
                    yield chunk
        except (InvalidRequest, Overloaded):
            judged = True
            breaker.succeed()
            raise
        except EngineFailure:
            judged = True
            breaker.fail()
            raise
        finally:
            if not judged:
                breaker.give_up()
            places = self._placed[request.request_id]
            places.remove(placed)
            if not places:
                del self._placed[request.request_id]

    async def abort(self, request_ids: Sequence[str]) -> None:
        """End requests on the workers that they run on; the workers' streams then say so."""
        placed = [place for name in request_ids for place in self._placed.get(name, ())]
        await asyncio.gather(*(worker.abort(worker_id) for worker, worker_id in placed))
