"""The sampling fields that dialects share to one ``SamplingRequest``."""

from operator import attrgetter
from typing import Any

from app.errors import InvalidRequest, Unsupported
from app.protocol.generate import StructuredOutputs
from app.protocol.request_fields import SamplingFields, TokenFields
from app.protocol.usage import StreamOptions
from app.rendering.request import SamplingRequest

__all__ = ("read_sampling", "read_stream_options", "stop_strings")


_SAME = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
    "stop_token_ids",
    "ignore_eos",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "include_stop_str_in_output",
    "logit_bias",
    "watermarking",
)
"""Fields that go over as they are; null is "not given"."""
_SAME_FINER = (
    *_SAME,
    "min_tokens",
    "bad_words",
    "allowed_token_ids",
    "logprob_token_ids",
    "stream_interval",
    "thinking_token_budget",
    "repetition_detection",
    "routed_experts_prompt_start",
)
_same, _same_finer = attrgetter(*_SAME), attrgetter(*_SAME_FINER)


def stop_strings(stop: str | list[str] | None) -> list[str]:
    """One string or several to a list."""
    if stop is None:
        return []
    return [stop] if isinstance(stop, str) else stop


def read_sampling(
    request: SamplingFields,
    *,
    max_tokens: int | None,
    max_tokens_param: str = "max_tokens",
    stream: bool | None = False,
    n: int = 1,
    logprobs: int | None = None,
    prompt_logprobs: int | None = None,
    structured_outputs: StructuredOutputs | None = None,
    extra_args: dict[str, Any] | None = None,
) -> SamplingRequest:
    """The shared fields as they are, beside those that each dialect derives in its own way."""
    names: tuple[str, ...] = _SAME
    values: tuple[Any, ...]
    if isinstance(request, TokenFields):
        if request.use_beam_search:
            raise Unsupported("Beam search is not served.", param="use_beam_search")
        if stream and request.prompt_logprobs not in (None, 0):
            raise InvalidRequest("`prompt_logprobs` are not sent in a stream.", param="prompt_logprobs")
        names, values = _SAME_FINER, _same_finer(request)
    else:
        values = _same(request)
    given = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    return SamplingRequest(
        n=n,
        stop=stop_strings(request.stop),
        max_tokens=max_tokens,
        max_tokens_param=max_tokens_param,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        structured_outputs=structured_outputs,
        extra_args=extra_args,
        **given,
    )


def read_stream_options(stream: bool | None, options: StreamOptions | None) -> StreamOptions | None:
    """Stream options, refused where nothing is streamed."""
    if options is not None and not stream:
        raise InvalidRequest("`stream_options` needs `stream: true`.", param="stream_options")
    return options
