"""Fields that several dialects' requests share: sampling, and what passes through to the engine.

Bodies are decoded leniently: unknown fields are ignored, and null means "not given" everywhere. Ranges are checked by
``app.rendering.sampling``, so that a refusal reads the same in every dialect. (One line of descent: msgspec Structs
cannot have two bases with fields.)
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from app.protocol.generate import RepetitionDetection, StructuredOutputs

__all__ = ("RenderFields", "SamplingFields", "TokenFields")


class RenderFields(Struct, frozen=True, kw_only=True):
    """How media are sent on, and what passes through to the engine and its scheduler."""

    request_id: Annotated[str | None, Meta(description="Base of the reply's id; the X-Request-Id header wins.")] = None
    priority: Annotated[int | None, Meta(description="Scheduling priority, lower first.")] = None
    cache_salt: Annotated[
        str | None, Meta(description="Keeps prefix caches apart; 1 to 128 characters without @, /, \\ and NUL.")
    ] = None
    kv_transfer_params: Annotated[
        dict[str, Any] | None,
        Meta(description="For a disaggregated engine; `prompt_token_ids` in it are used as the prompt."),
    ] = None
    ec_transfer_params: Annotated[dict[str, Any] | None, Meta(description="For a disaggregated encoder.")] = None
    vllm_xargs: Annotated[
        dict[str, Any] | None, Meta(description="Further engine arguments: strings, numbers, and lists of them.")
    ] = None
    structured_outputs: Annotated[
        StructuredOutputs | None,
        Meta(description="One constraint: json, regex, choice, grammar, json_object or structural_tag."),
    ] = None
    session_id: Annotated[str | None, Meta(description="Ignored by render.")] = None
    mm_processor_kwargs: Annotated[
        dict[str, Any] | None, Meta(description="Processor options; only where the server trusts requests.")
    ] = None
    media_io_kwargs: Annotated[
        dict[str, dict[str, Any]] | None,
        Meta(description="Loading options per modality; only where the server trusts requests."),
    ] = None
    mm_payload: Annotated[str | None, Meta(description="tensors (default), or none: hashes and placeholders only.")] = (
        None
    )
    return_mm_kwargs: Annotated[bool | None, Meta(description="Older spelling: false is `mm_payload: none`.")] = None


class SamplingFields(RenderFields, frozen=True, kw_only=True):
    """How to sample, as chat, completions and responses spell it."""

    temperature: Annotated[float | None, Meta(description="0 is greedy, at most 2; unset: the model's default.")] = None
    top_p: Annotated[float | None, Meta(description="Nucleus mass, in (0, 1].")] = None
    top_k: Annotated[int | None, Meta(description="Candidates kept; 0 and -1: all.")] = None
    min_p: Annotated[float | None, Meta(description="Least probability relative to the likeliest, in [0, 1].")] = None
    presence_penalty: Annotated[float | None, Meta(description="In [-2, 2].")] = None
    frequency_penalty: Annotated[float | None, Meta(description="In [-2, 2].")] = None
    repetition_penalty: Annotated[float | None, Meta(description="Above 0; 1 is none.")] = None
    seed: Annotated[int | None, Meta(description="64-bit; -1 is none.")] = None
    stop: Annotated[
        str | list[str] | None, Meta(description="Up to four strings that end the output; not part of it.")
    ] = None
    stop_token_ids: Annotated[list[int] | None, Meta(description="Token ids that end the output.")] = None
    ignore_eos: Annotated[bool | None, Meta(description="Go on past the model's end tokens.")] = None
    logit_bias: Annotated[
        dict[str, float] | None, Meta(description="Token id to a bias that is cut to [-100, 100].")
    ] = None
    skip_special_tokens: Annotated[
        bool | None, Meta(description="Leave special tokens out of text; the model's output formats may need them.")
    ] = None
    spaces_between_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None
    watermarking: bool | None = None


class TokenFields(SamplingFields, frozen=True, kw_only=True):
    """Finer sampling and token reporting, as chat and completions spell it."""

    min_tokens: Annotated[int | None, Meta(description="Tokens before any stop counts.")] = None
    bad_words: Annotated[list[str] | None, Meta(description="Up to 128 words never written.")] = None
    allowed_token_ids: Annotated[list[int] | None, Meta(description="The only token ids allowed.")] = None
    prompt_logprobs: Annotated[
        int | None, Meta(description="Logprobs of the prompt, alternatives per token; -1: whole vocabulary.")
    ] = None
    logprob_token_ids: Annotated[
        list[int] | None, Meta(description="Up to 128 token ids whose logprobs are reported at each position.")
    ] = None
    length_penalty: float | None = None
    use_beam_search: Annotated[bool | None, Meta(description="Refused: not served.")] = None
    stream_interval: Annotated[int | None, Meta(description="Tokens per streamed chunk, at least 1.")] = None
    thinking_token_budget: Annotated[int | None, Meta(description="Reasoning tokens at most; -1: no limit.")] = None
    repetition_detection: RepetitionDetection | None = None
    routed_experts_prompt_start: int | None = None
    truncate_prompt_tokens: Annotated[
        int | None, Meta(description="Keep this many prompt tokens; -1: as many as leave room for one of output.")
    ] = None
    truncation_side: Annotated[str | None, Meta(description="left (default: the tail is kept) or right.")] = None
    echo: Annotated[bool | None, Meta(description="In a render: asks for prompt logprobs.")] = None
    return_token_ids: Annotated[bool | None, Meta(description="Token ids in the reply.")] = None
    return_token_offsets: Annotated[
        bool | None, Meta(description="`[start, end)` of each prompt token, in characters of the rendered text.")
    ] = None
    return_tokens_as_token_ids: Annotated[bool | None, Meta(description="Logprobs name tokens `token_id:N`.")] = None
    return_prompt_text: bool | None = None
    return_weight_versions: bool | None = None
