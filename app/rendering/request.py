"""What a dialect's request becomes before it is rendered: one shape for all of them."""

from typing import Any, Literal

from msgspec import Struct

from app.protocol.generate import RepetitionDetection, StructuredOutputs
from app.protocol.usage import StreamOptions
from app.rendering.conversation import Conversation

__all__ = ("NamedTool", "RenderInput", "SamplingRequest", "TemplateOptions")


class NamedTool(Struct, frozen=True):
    """A tool choice that names its function."""

    name: str


class TemplateOptions(Struct, frozen=True, kw_only=True):
    """How the conversation is written as text.

    ``kwargs`` are the request's own ``chat_template_kwargs``; the server's defaults lie under them and the named
    fields here over them (None: not given).
    """

    add_generation_prompt: bool = True
    continue_final_message: bool = False
    chat_template: str | None = None
    kwargs: dict[str, Any] = {}
    reasoning_effort: str | None = None
    add_special_tokens: bool = False
    truncate_prompt_tokens: int | None = None
    truncation_side: Literal["left", "right"] | None = None
    drop_oldest_items: bool = False
    """Responses' ``truncation: "auto"``: whole items go, oldest first, a call never without its output."""
    return_token_offsets: bool = False
    mm_payload: Literal["tensors", "none"] = "tensors"
    mm_processor_kwargs: dict[str, Any] | None = None
    media_io_kwargs: dict[str, dict[str, Any]] | None = None


class SamplingRequest(Struct, frozen=True, kw_only=True):
    """Sampling as asked for, in any dialect; None is "not given" and takes the model's default.

    ``max_tokens`` is in tokens; ``max_tokens_param`` is the name that the dialect gives the field, for error texts.
    """

    n: int = 1
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: list[str] = []
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    max_tokens: int | None = None
    max_tokens_param: str = "max_tokens"
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    logit_bias: dict[str, float] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] = []
    watermarking: bool | None = None
    stream_interval: int | None = None
    thinking_token_budget: int | None = None
    repetition_detection: RepetitionDetection | None = None
    routed_experts_prompt_start: int = 0
    structured_outputs: StructuredOutputs | None = None
    """From ``structured_outputs`` and ``response_format`` / ``text.format`` together."""
    extra_args: dict[str, Any] | None = None


class RenderInput(Struct, frozen=True, kw_only=True):
    """All that rendering needs: one of ``conversation``, ``text`` and ``token_ids``.

    ``token_ids`` beside a conversation are its prompt as another server rendered it: they stand for its rendering, and
    the conversation tells what derendering must know.
    """

    dialect: Literal["chat", "completions", "responses", "messages"]
    request_id: str
    model: str | None = None
    conversation: Conversation | None = None
    text: str | None = None
    token_ids: list[int] | None = None
    template: TemplateOptions = TemplateOptions()
    sampling: SamplingRequest = SamplingRequest()
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    """Resolved: "auto" where tools are given without a choice; None only where the Messages API gave none."""
    parallel_tool_calls: bool = True
    include_reasoning: bool = True
    long: bool = False
    """Whether its rendering is long work whatever its length: a thread does it."""
    stream: bool = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    cache_salt: str | None = None
    priority: int = 0
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
