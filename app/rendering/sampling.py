"""Sampling as asked for to the sampling parameters of a generate request.

Values come from the request, else from the model's generation config, else from constants; the order, the rules for
greedy sampling and which keys are written are those of vLLM 0.33. One thing differs: ``max_tokens`` is always written,
since vLLM's generate endpoint takes a missing one for "as many as fit".
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec import UNSET

from app.errors import InvalidRequest
from app.parsing.format import ReasoningFormat, ToolFormat
from app.protocol.generate import SamplingParams
from app.rendering.request import RenderInput, SamplingRequest
from app.rendering.structural import constrain

__all__ = ("LEAST_TEMPERATURE", "effective_temperature", "resolve")

LEAST_TEMPERATURE = 0.01
"""Positive temperatures are raised to this, below which logits overflow."""

_SAME = (
    "watermarking",
    "logprobs",
    "prompt_logprobs",
    "logprob_token_ids",
    "stream_interval",
    "allowed_token_ids",
    "extra_args",
    "repetition_detection",
)
"""Fields that are written as they were asked for, or not at all."""
_same = attrgetter(*_SAME)


def resolve(
    request: RenderInput,
    *,
    prompt_len: int,
    max_model_len: int,
    defaults: Mapping[str, Any],
    tool_format: ToolFormat | None = None,
    reasoning_format: ReasoningFormat | None = None,
    default_stop_token_ids: Sequence[int] = (),
) -> SamplingParams:
    """The sampling parameters that the engine gets.

    Args:
        request: what is rendered; its sampling has passed :func:`app.rendering.sampling_checks.check_sampling`.
        prompt_len: tokens of the final prompt, truncation done.
        max_model_len: prompt and output together, in tokens.
        defaults: the model's generation config.
        tool_format: how the model writes calls.
        reasoning_format: how it writes reasoning.
        default_stop_token_ids: end tokens that the model's prompt encoder asks for.

    Raises:
        InvalidRequest: the context leaves no token for the output, or fewer than ``min_tokens``.
    """
    asked = request.sampling
    temperature = effective_temperature(asked, defaults)
    greedy = temperature == 0
    top_k = int(_value(asked.top_k, defaults, "top_k", 0))
    max_tokens = _max_tokens(asked, defaults, room=max_model_len - prompt_len, max_model_len=max_model_len)
    structured = constrain(request, tool_format, reasoning_format)
    params = SamplingParams(
        presence_penalty=_value(asked.presence_penalty, defaults, "presence_penalty", 0.0),
        frequency_penalty=_value(asked.frequency_penalty, defaults, "frequency_penalty", 0.0),
        repetition_penalty=_value(asked.repetition_penalty, defaults, "repetition_penalty", 1.0),
        temperature=temperature,
        top_p=1.0 if greedy else _value(asked.top_p, defaults, "top_p", 1.0),
        top_k=UNSET if greedy or not top_k else top_k,
        min_p=0.0 if greedy else _value(asked.min_p, defaults, "min_p", 0.0),
        stop=asked.stop,
        stop_token_ids=list(dict.fromkeys((*asked.stop_token_ids, *default_stop_token_ids))),
        max_tokens=max_tokens,
        output_kind=1 if request.stream else 2,
        skip_clone=True,
        bad_words=asked.bad_words,
        skip_reading_prefix_cache=asked.prompt_logprobs is not None,
    )
    for name, value in zip(_SAME, _same(asked), strict=True):
        if value is not None:
            setattr(params, name, value)
    if asked.n != 1:
        params.n = asked.n
    if asked.seed not in (None, -1):
        params.seed = asked.seed
    if asked.ignore_eos:
        params.ignore_eos = True
    if asked.min_tokens:
        params.min_tokens = asked.min_tokens
    if not _skips_special_tokens(request, defaults, tool_format, reasoning_format):
        params.skip_special_tokens = False
    if not asked.spaces_between_special_tokens:
        params.spaces_between_special_tokens = False
    if asked.include_stop_str_in_output:
        params.include_stop_str_in_output = True
    elif (hold_back := max(map(len, asked.stop), default=0) - 1) > 0:
        params.output_text_buffer_length = hold_back
    if structured is not None:
        params.structured_outputs = structured
    if asked.logit_bias is not None:
        params.logit_bias = _clamped(asked.logit_bias)
    if asked.thinking_token_budget not in (None, -1):
        params.thinking_token_budget = asked.thinking_token_budget
    if asked.routed_experts_prompt_start:
        params.routed_experts_prompt_start = asked.routed_experts_prompt_start
    return params


def effective_temperature(asked: SamplingRequest, defaults: Mapping[str, Any]) -> float:
    """The temperature that will be sampled with: 0, or at least 0.01."""
    temperature: float = _value(asked.temperature, defaults, "temperature", 1.0)
    return max(temperature, LEAST_TEMPERATURE) if temperature > 0 else 0.0


def _max_tokens(asked: SamplingRequest, defaults: Mapping[str, Any], *, room: int, max_model_len: int) -> int:
    """The least of the room left, and what the request asks for or else the generation config gives."""
    if room < 1:
        raise InvalidRequest(
            f"The prompt fills the whole context of {max_model_len} tokens and leaves none for the output.",
            param="input_tokens",
        )
    wanted = asked.max_tokens if asked.max_tokens is not None else defaults.get("max_new_tokens")
    allowed = room if wanted is None else min(room, int(wanted))
    if asked.min_tokens > allowed:
        raise InvalidRequest(
            f"`min_tokens` is {asked.min_tokens}, but at most {allowed} tokens can be generated.", param="min_tokens"
        )
    return allowed


def _skips_special_tokens(
    request: RenderInput,
    defaults: Mapping[str, Any],
    tool_format: ToolFormat | None,
    reasoning_format: ReasoningFormat | None,
) -> bool:
    """What was asked for, unless a format needs the special tokens in the text to find reasoning and calls."""
    if request.conversation is not None:
        for format in (tool_format, reasoning_format):
            policy = format.special_tokens if format is not None else "skip"
            calls = request.tool_choice != "none"
            if policy == "keep" or (policy == "unless_none" and calls):
                return False
            if policy == "with_tools" and calls and request.conversation.tools:
                return False
    return bool(_value(request.sampling.skip_special_tokens, defaults, "skip_special_tokens", True))


def _value(asked: Any, defaults: Mapping[str, Any], name: str, constant: Any) -> Any:
    if asked is not None:
        return asked
    default = defaults.get(name)
    return constant if default is None else default


def _clamped(bias: Mapping[str, float]) -> dict[str, float]:
    """Biases as the engine takes them: keys without leading zeros, values in [-100, 100]."""
    return {str(int(token)): min(100.0, max(-100.0, float(value))) for token, value in bias.items()}
