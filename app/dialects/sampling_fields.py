"""The sampling fields that dialects share to one ``SamplingRequest``."""

from typing import Any

from app.errors import InvalidRequest, Unsupported
from app.protocol.generate import StructuredOutputs
from app.protocol.request_fields import SamplingFields, TokenFields
from app.protocol.usage import StreamOptions
from app.rendering.request import SamplingRequest

__all__ = ("read_sampling", "read_stream_options", "stop_strings")


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
    finer: dict[str, Any] = {}
    if isinstance(request, TokenFields):
        if request.use_beam_search:
            raise Unsupported("Beam search is not served.", param="use_beam_search")
        if stream and request.prompt_logprobs not in (None, 0):
            raise InvalidRequest("`prompt_logprobs` are not sent in a stream.", param="prompt_logprobs")
        finer = {
            "min_tokens": request.min_tokens or 0,
            "bad_words": request.bad_words or [],
            "allowed_token_ids": request.allowed_token_ids,
            "logprob_token_ids": request.logprob_token_ids,
            "stream_interval": request.stream_interval,
            "thinking_token_budget": request.thinking_token_budget,
            "repetition_detection": request.repetition_detection,
            "routed_experts_prompt_start": request.routed_experts_prompt_start or 0,
        }
    spaces = request.spaces_between_special_tokens
    return SamplingRequest(
        n=n,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        min_p=request.min_p,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        repetition_penalty=request.repetition_penalty,
        seed=request.seed,
        stop=stop_strings(request.stop),
        stop_token_ids=request.stop_token_ids or [],
        ignore_eos=request.ignore_eos or False,
        max_tokens=max_tokens,
        max_tokens_param=max_tokens_param,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        skip_special_tokens=request.skip_special_tokens,
        spaces_between_special_tokens=True if spaces is None else spaces,
        include_stop_str_in_output=request.include_stop_str_in_output or False,
        logit_bias=request.logit_bias,
        watermarking=request.watermarking,
        structured_outputs=structured_outputs,
        extra_args=extra_args,
        **finer,
    )


def read_stream_options(stream: bool | None, options: StreamOptions | None) -> StreamOptions | None:
    """Stream options, refused where nothing is streamed."""
    if options is not None and not stream:
        raise InvalidRequest("`stream_options` needs `stream: true`.", param="stream_options")
    return options
