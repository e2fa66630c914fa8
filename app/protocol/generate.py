"""The token-in, token-out bodies: GenerateRequest, GenerateResponse and the stream chunk.

Field names, order and defaults are those of vLLM 0.33's ``/inference/v1/generate`` and ``/render`` endpoints.
Structs only; nothing here checks a value beyond its type.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from app.protocol.usage import GenerateUsage, StreamOptions

__all__ = (
    "Features",
    "GenerateChoice",
    "GenerateChunk",
    "GenerateChunkChoice",
    "GenerateLogprobs",
    "GenerateRequest",
    "GenerateResponse",
    "ParseContext",
    "Placeholder",
    "ReasoningKwargs",
    "RepetitionDetection",
    "SamplingParams",
    "StructuredOutputs",
    "TokenLogprob",
    "TopLogprob",
)


class RepetitionDetection(Struct, kw_only=True):
    """Stop a generation that repeats a pattern of tokens."""

    max_pattern_size: int = 0
    min_pattern_size: int = 0
    min_count: int = 0


class StructuredOutputs(Struct, kw_only=True):
    """One constraint on the output; on the wire always with all keys."""

    json: Any = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    structural_tag: str | None = None
    _backend: str | None = None
    _backend_was_auto: bool = False


class SamplingParams(Struct, kw_only=True):
    """How to sample. Keys that are UNSET are left out of the wire; floats, lists and ``max_tokens`` never are.

    ``output_kind`` (1 delta, 2 final), ``skip_clone``, ``output_text_buffer_length`` (characters) and
    ``skip_reading_prefix_cache`` are vLLM's engine-private keys, written so that a vLLM worker takes the object as is.
    """

    n: int | UnsetType = UNSET
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    watermarking: bool | UnsetType | None = UNSET
    top_p: float = 1.0
    top_k: int | UnsetType = UNSET
    min_p: float = 0.0
    seed: int | UnsetType | None = UNSET
    stop: list[str] = []
    stop_token_ids: list[int] = []
    ignore_eos: bool | UnsetType = UNSET
    max_tokens: int | UnsetType | None = UNSET
    min_tokens: int | UnsetType = UNSET
    logprobs: int | UnsetType | None = UNSET
    prompt_logprobs: int | UnsetType | None = UNSET
    logprob_token_ids: list[int] | UnsetType | None = UNSET
    flat_logprobs: bool | UnsetType = UNSET
    detokenize: bool | UnsetType = UNSET
    skip_special_tokens: bool | UnsetType = UNSET
    spaces_between_special_tokens: bool | UnsetType = UNSET
    include_stop_str_in_output: bool | UnsetType = UNSET
    output_kind: int | UnsetType = UNSET
    stream_interval: int | UnsetType | None = UNSET
    skip_clone: bool | UnsetType = UNSET
    output_text_buffer_length: int | UnsetType = UNSET
    structured_outputs: StructuredOutputs | UnsetType | None = UNSET
    logit_bias: dict[str, float] | UnsetType | None = UNSET
    allowed_token_ids: list[int] | UnsetType | None = UNSET
    extra_args: dict[str, Any] | UnsetType | None = UNSET
    bad_words: list[str] = []
    skip_reading_prefix_cache: bool | UnsetType = UNSET
    thinking_token_budget: int | UnsetType | None = UNSET
    repetition_detection: RepetitionDetection | UnsetType | None = UNSET
    routed_experts_prompt_start: int | UnsetType = UNSET


class Placeholder(Struct, frozen=True):
    """The range of prompt tokens that one media item occupies: ``[offset, offset + length)``, in tokens."""

    offset: int
    length: int


class Features(Struct, kw_only=True):
    """Media of a prompt, per modality; every list has the same item order.

    ``kwargs_data`` and ``mm_metadata`` hold msgpack items (``app.multimodal.items``): base64 text in JSON, raw bytes in
    a msgpack body. A null item is one that the engine is expected to have cached under its hash.
    """

    mm_hashes: dict[str, list[str]]
    mm_placeholders: dict[str, list[Placeholder]]
    kwargs_data: dict[str, list[Any]] | None = None
    mm_metadata: dict[str, list[Any]] | None = None


class ReasoningKwargs(Struct, kw_only=True, forbid_unknown_fields=True):
    """What an engine's reasoning gate needs to know of the render."""

    chat_template_kwargs: dict[str, Any] = {}


class ParseContext(Struct, kw_only=True):
    """What is needed to derender a reply without the original request."""

    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = True
    include_reasoning: bool = True
    chat_template_kwargs: dict[str, Any] | None = None
    history_tool_call_cnt: int = 0


class GenerateRequest(Struct, kw_only=True):
    """What every render endpoint answers and ``/inference/v1/generate`` takes."""

    request_id: str = ""
    token_ids: list[int]
    token_offsets: list[tuple[int, int]] | None = None
    features: Features | None = None
    content_parts: list[dict[str, Any]] | None = None
    sampling_params: SamplingParams
    model: str | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: ReasoningKwargs | None = None
    return_token_ids: bool | None = None
    output_mode: Literal["tokens", "text", "derender"] = "tokens"
    parse_context: ParseContext | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    cache_salt: str | None = None
    priority: int = 0
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None


class TopLogprob(Struct, kw_only=True):
    """One alternative at a position. ``logprob`` is natural-log, finite: -inf and NaN are sent as -9999.0."""

    token_id: int
    logprob: float
    rank: int | None = None


class TokenLogprob(TopLogprob, kw_only=True):
    """The sampled token at a position with its alternatives: the sampled one first, then by rank."""

    top_logprobs: list[TopLogprob] = []


class GenerateLogprobs(Struct, kw_only=True):
    """Logprobs of a choice (or of a chunk's new tokens), one entry a token."""

    content: list[TokenLogprob] | None = None


class GenerateChoice(Struct, kw_only=True):
    """One finished output. ``text`` is there in output mode "text", ``message`` in "derender"."""

    index: int = 0
    finish_reason: str | None = "stop"
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    routed_experts: Any = None
    sampling_mask: Any = None
    weight_versions: list[dict[str, Any]] | None = None
    text: str | UnsetType = UNSET
    message: Any | UnsetType = UNSET
    logprobs: Any = None


class GenerateResponse(Struct, kw_only=True):
    """The whole answer of ``/inference/v1/generate``; ``choices`` is all that a derender call must have."""

    request_id: str = ""
    model: str | None = None
    created: int = 0
    usage: GenerateUsage | None = None
    prompt_logprobs: list[dict[str, Any] | None] | None = None
    prompt_token_id_logprobs: str | None = None
    prompt_token_ids: list[int] | None = None
    mm_placeholders: dict[str, list[Placeholder]] | None = None
    metrics: dict[str, Any] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    output_mode: str = "tokens"
    choices: list[GenerateChoice]


class GenerateChunkChoice(Struct, kw_only=True):
    """New tokens of one choice; ``token_ids`` is the delta and may be empty in a last chunk."""

    index: int = 0
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    routed_experts: Any = None
    sampling_mask: Any = None
    weight_versions: list[dict[str, Any]] | None = None
    text: str | UnsetType = UNSET
    logprobs: Any = None


class GenerateChunk(Struct, kw_only=True):
    """One event of the generate stream (vLLM 0.33, section SSE)."""

    request_id: str = ""
    usage: GenerateUsage | None = None
    output_mode: str = "tokens"
    choices: list[GenerateChunkChoice]
    prompt_token_ids: list[int] | UnsetType | None = UNSET
    mm_placeholders: dict[str, list[Placeholder]] | UnsetType | None = UNSET
    metrics: dict[str, Any] | UnsetType | None = UNSET
    prompt_logprobs: list[dict[str, Any] | None] | UnsetType | None = UNSET
    kv_transfer_params: dict[str, Any] | UnsetType | None = UNSET
    ec_transfer_params: dict[str, Any] | UnsetType | None = UNSET
