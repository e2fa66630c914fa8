"""An ``[[engines]]`` table of kind ``vllm`` or ``sglang`` to an engine: what the plugin group finds."""

from collections.abc import AsyncIterator, Callable, Sequence

from app.engines.engine import EngineConfig, EngineHealth, EngineLimits, TokenChunk
from app.engines.fleet.fleet import Fleet
from app.engines.fleet.options import FleetOptions, read_options
from app.engines.fleet.roles import Roles
from app.engines.sglang import SglangWire
from app.engines.vllm import VllmWire
from app.engines.worker import Deadlines, Wire, Worker
from app.errors import StartupError
from app.protocol.generate import GenerateRequest

__all__ = ("FleetEngine", "sglang", "vllm")


class FleetEngine:
    """Workers behind the engine protocol; ``check`` is the wire's."""

    def __init__(self, roles: Roles, limits: EngineLimits, check: Callable[[GenerateRequest], None]) -> None:
        self.limits = limits
        self.roles = roles
        self._check = check

    async def start(self) -> None:
        """Begin the health checks."""
        await self.roles.start()

    async def stop(self) -> None:
        """End the health checks and close every connection."""
        await self.roles.stop()

    def serves(self, config: EngineConfig) -> bool:
        """Every model of the table: health, breakers, affinity and connections are those of the workers."""
        return True

    def check(self, request: GenerateRequest) -> None:
        """Refuse what the wire has no words for."""
        self._check(request)

    def generate(self, request: GenerateRequest) -> AsyncIterator[TokenChunk]:
        """Run on the best worker, by roles where there are some."""
        return self.roles.generate(request)

    async def abort(self, request_ids: Sequence[str]) -> None:
        """End requests on their workers."""
        await self.roles.abort(request_ids)

    async def health(self) -> EngineHealth:
        """Whether every role has a usable worker."""
        return self.roles.health()


def vllm(config: EngineConfig) -> FleetEngine:
    """Workers that speak vLLM's generate, vLLM itself or another Isthmus among them."""
    options = read_options(config.options)
    return _open(options, VllmWire(options.model), lambda request: None)


def sglang(config: EngineConfig) -> FleetEngine:
    """SGLang workers; roles are SGLang's own matter (its router sets ``bootstrap_*`` in ``kv_transfer_params``)."""
    options = read_options(config.options)
    if options.encode or options.prefill:
        raise StartupError("roles are for workers of kind vllm")
    wire = SglangWire()
    return _open(options, wire, wire.check)


def _open(options: FleetOptions, wire: Wire, check: Callable[[GenerateRequest], None]) -> FleetEngine:
    deadlines = Deadlines(
        connect=options.connect_timeout_s,
        first=options.first_token_timeout_s,
        between=options.token_timeout_s,
        health=options.health_timeout_s,
    )

    def make(url: str) -> Worker:
        return Worker(url, wire, deadlines, api_key=options.api_key, max_connections=options.max_connections)

    def fleet(urls: list[str]) -> Fleet | None:
        return Fleet(urls, make, options) if urls else None

    last = fleet([*options.urls, *options.decode])
    assert last is not None
    limits = EngineLimits(max_logprobs=None if options.max_logprobs < 0 else options.max_logprobs, detokenizes=True)
    return FleetEngine(Roles(fleet(options.encode), fleet(options.prefill), last), limits, check)
