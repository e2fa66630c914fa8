"""A request's sampling parameters to a plan with every default resolved; what the local engine can't do is refused."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from app.engines.local.constraint import kind_of
from app.errors import InvalidRequest, Unsupported
from app.protocol.generate import GenerateRequest, RepetitionDetection, StructuredOutputs

__all__ = ("Plan", "make_plan", "with_bad_words")


class Plan(Struct, frozen=True, kw_only=True):
    """How one request is sampled; lengths in tokens, ``top_k`` 0 and ``None`` values are "off"."""

    n: int = 1
    max_tokens: int
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: tuple[int, ...] | None = None
    logit_bias: dict[int, float] = {}
    allowed_token_ids: tuple[int, ...] | None = None
    bad_words: tuple[str, ...] = ()
    bad_word_ids: tuple[tuple[int, ...], ...] = ()
    """Filled in by :func:`with_bad_words`."""
    structured_outputs: StructuredOutputs | None = None
    repetition_detection: RepetitionDetection | None = None
    thinking_token_budget: int | None = None
    thinking_end: int | None = None
    """The token that closes reasoning, where the prompt leaves it open and a budget is given."""
    stream_interval: int = 1
    skip_special_tokens: bool = True
    read_prefix_cache: bool = True

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken, not drawn."""
        return self.temperature == 0

    @property
    def edits_logits(self) -> bool:
        """Whether anything but temperature and truncation changes the distribution."""
        return bool(
            self.presence_penalty
            or self.frequency_penalty
            or self.repetition_penalty != 1.0
            or self.logit_bias
            or self.allowed_token_ids is not None
            or self.bad_word_ids
            or self.min_tokens
        )


def make_plan(
    request: GenerateRequest,
    *,
    vocab_size: int,
    room: int,
    tokenizer: Any = None,
    reasoning_end: str = "",
    modalities: frozenset[str] = frozenset(),
) -> Plan:
    """The plan of ``request``.

    Args:
        request: with token ids already checked against the vocabulary.
        vocab_size: ids must lie below it.
        room: tokens left between the prompt and the model's length.
        tokenizer: :class:`app.tokenizing.tokenizer.Tokenizer`, or None where the engine has none.
        reasoning_end: the token that closes reasoning.
        modalities: of media that the model takes.

    Raises:
        Unsupported: naming the parameter.
        InvalidRequest: an id is outside the vocabulary, or there is no room for a token.
    """
    params = request.sampling_params
    given: dict[str, Any] = {
        name: value
        for name in params.__struct_fields__
        if (value := getattr(params, name)) is not UNSET and value is not None
    }
    thinking_end = tokenizer.token_to_id(reasoning_end) if tokenizer is not None else None
    _refuse(request, given, tokenizer, thinking_end)
    _refuse_media(request, modalities)
    if room < 1:
        raise InvalidRequest("The prompt leaves no room for output.", param="token_ids")
    bias = {int(token): float(value) for token, value in (given.get("logit_bias") or {}).items()}
    allowed = given.get("allowed_token_ids")
    wanted = given.get("logprob_token_ids")
    if allowed is not None and not allowed:
        raise InvalidRequest("`allowed_token_ids` is empty, so nothing could be generated.", param="allowed_token_ids")
    for name, ids in (("logit_bias", bias), ("allowed_token_ids", allowed), ("logprob_token_ids", wanted)):
        if ids and max(ids) >= vocab_size:
            raise InvalidRequest(f"`{name}` has a token id outside the vocabulary of {vocab_size}.", param=name)
    structured = given.get("structured_outputs")
    if structured is not None:
        kind_of(structured)
    interval = given.get("stream_interval") or 1
    return Plan(
        n=given.get("n", 1),
        max_tokens=min(given.get("max_tokens", room), room),
        min_tokens=given.get("min_tokens", 0),
        temperature=_temperature(given["temperature"]),
        top_p=given["top_p"],
        top_k=max(0, given.get("top_k", 0)),
        min_p=given["min_p"],
        presence_penalty=given["presence_penalty"],
        frequency_penalty=given["frequency_penalty"],
        repetition_penalty=given["repetition_penalty"],
        seed=given.get("seed"),
        stop=tuple(given["stop"]),
        stop_token_ids=frozenset(given["stop_token_ids"]),
        ignore_eos=given.get("ignore_eos", False),
        include_stop_str_in_output=given.get("include_stop_str_in_output", False),
        logprobs=given.get("logprobs"),
        prompt_logprobs=given.get("prompt_logprobs"),
        logprob_token_ids=None if wanted is None else tuple(wanted),
        logit_bias=bias,
        allowed_token_ids=None if allowed is None else tuple(allowed),
        bad_words=tuple(given["bad_words"]),
        structured_outputs=structured,
        repetition_detection=given.get("repetition_detection"),
        thinking_token_budget=given.get("thinking_token_budget"),
        thinking_end=thinking_end if request.reasoning_ended is False and "thinking_token_budget" in given else None,
        stream_interval=interval,
        skip_special_tokens=given.get("skip_special_tokens", True),
        read_prefix_cache="prompt_logprobs" not in given and not given.get("skip_reading_prefix_cache", False),
    )


def _temperature(given: float) -> float:
    """As vLLM takes it: next to nothing is greedy, anything else 0.01 at least."""
    return 0.0 if given < 1e-5 else max(given, 0.01)


def _refuse(request: GenerateRequest, given: Mapping[str, Any], tokenizer: Any, thinking_end: int | None) -> None:
    for name, reason in (
        ("watermarking", "does not watermark"),
        ("flat_logprobs", "has no flat logprobs"),
        ("extra_args", "knows no extra arguments"),
        ("routed_experts_prompt_start", "does not report routed experts"),
    ):
        if given.get(name):
            raise Unsupported(f"The local engine {reason}.", param=name)
    if tokenizer is None:
        for name in ("stop", "bad_words", "structured_outputs"):
            if given.get(name):
                raise Unsupported("The engine has no tokenizer, which this needs.", param=name)
    if "thinking_token_budget" in given and request.reasoning_ended is False and thinking_end is None:
        raise Unsupported("This model's reasoning is closed by no single token.", param="thinking_token_budget")


def _refuse_media(request: GenerateRequest, modalities: frozenset[str]) -> None:
    hashes = request.features.mm_hashes if request.features is not None else {}
    for modality in hashes:
        if modality not in modalities:
            takes = " and ".join(sorted(modalities)) or "text only"
            raise Unsupported(f"The local engine takes no {modality} for this model ({takes}).", param="features")
    if request.content_parts:
        raise Unsupported("The local engine takes media as `features`, as render answers them.", param="content_parts")
    if request.kv_transfer_params:
        raise Unsupported("The local engine transfers no keys and values.", param="kv_transfer_params")
    if request.ec_transfer_params and not hashes:
        raise Unsupported("`ec_transfer_params` go with `features`.", param="ec_transfer_params")


def with_bad_words(plan: Plan, tokenizer: Any) -> Plan:
    """The plan with the id sequences that must not appear: each word as it stands, and as it is written after a space.

    Tokenizing takes its time: call it off the loop.
    """
    texts = [lead + word.lstrip() for word in plan.bad_words for lead in ("", " ")]
    found = dict.fromkeys(tuple(tokenizer.encode(text).ids) for text in texts)
    return replace(plan, bad_word_ids=tuple(ids for ids in found if ids))
