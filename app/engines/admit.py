"""A request against what an engine can do, before anything runs."""

from msgspec import UNSET

from app.engines.engine import Engine
from app.errors import InvalidRequest
from app.protocol.generate import GenerateRequest

__all__ = ("admit",)


def admit(request: GenerateRequest, engine: Engine) -> None:
    """Hold ``request`` against the engine's limits and its own check.

    Raises:
        InvalidRequest: more outputs or logprobs than the engine's limits allow, or whatever the engine refuses.
    """
    params, limits = request.sampling_params, engine.limits
    outputs = 1 if params.n is UNSET else params.n
    if limits.max_num_seqs is not None and outputs > limits.max_num_seqs:
        raise InvalidRequest(f"`n` is {outputs}; this engine runs {limits.max_num_seqs} at once.", param="n")
    if limits.max_logprobs is not None:
        for name in ("logprobs", "prompt_logprobs"):
            value = getattr(params, name)
            if value is not UNSET and value is not None and (value == -1 or value > limits.max_logprobs):
                asked = "the whole vocabulary" if value == -1 else str(value)
                raise InvalidRequest(
                    f"`{name}` asks for {asked}; this engine gives {limits.max_logprobs} at most.", param=name
                )
    engine.check(request)
