"""``/v1/completions/derender``: token answers, one a prompt, to a text completion; token chunks to its chunks."""

from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec import UnsetType

from app.derendering.derenderer import Derenderer, Step
from app.derendering.logprobs import LogprobOptions
from app.derendering.stream_state import StateSeal
from app.dialects.binding import DerenderModel, plain_derenderer
from app.dialects.completions.write import completion_logprobs, completion_text
from app.dialects.derender_limits import MAX_CHOICES, check_length, check_prompt, check_response
from app.dialects.identity import base_id
from app.dialects.nested import inside
from app.dialects.recent import Recent
from app.dialects.sampling_fields import read_sampling
from app.dialects.steps import advance, chunk_usage, first_id, first_state, whole
from app.errors import InvalidRequest
from app.protocol.completions import CompletionsRequest
from app.protocol.completions_reply import Completion, CompletionChoice, CompletionChunk, CompletionChunkChoice
from app.protocol.derender import CompletionDerendered, CompletionsDerenderRequest
from app.protocol.generate import GenerateResponse
from app.protocol.usage import GenerateUsage
from app.rendering.request import RenderInput
from app.rendering.sampling_checks import check_sampling

__all__ = ("completion_logprob_options", "derender")

DIALECT: Final = "completions"
RECENT: Recent[Derenderer] = Recent()
T = TypeVar("T")


def derender(
    request: CompletionsDerenderRequest, model: DerenderModel, seal: StateSeal, *, now: int
) -> Completion | CompletionDerendered:
    """The reply to a derender call; ``now`` is in Unix seconds. Formats are never read in completions.

    Raises:
        InvalidRequest: a field is missing, wrong or too large.
        InvalidState: ``stream_state`` is forged, of another key or of another stream.
    """
    return _derender_chunk(request, model, seal, now) if request.stream else _derender_whole(request, model, now)


def completion_logprob_options(request: CompletionsRequest | None) -> LogprobOptions:
    """``logprobs: k`` reports k alternatives and the sampled token; a request that asks for none takes what came."""
    if request is None:
        return LogprobOptions(top=None)
    everything = request.logprobs is None or request.logprobs == -1 or bool(request.logprob_token_ids)
    return LogprobOptions(
        top=None if everything else (request.logprobs or 0) + 1, as_ids=bool(request.return_tokens_as_token_ids)
    )


def _derender_whole(request: CompletionsDerenderRequest, model: DerenderModel, now: int) -> Completion:
    responses = request.generate_responses
    if not responses:
        raise InvalidRequest("`generate_responses` must have at least one answer.", param="generate_responses")
    if len(responses) > MAX_CHOICES:
        raise InvalidRequest(f"`generate_responses` has more than {MAX_CHOICES} entries.", param="generate_responses")
    counts = _per_response(request.prompt_tokens, len(responses), "prompt_tokens")
    prompts = _per_response(request.prompt_token_ids, len(responses), "prompt_token_ids")
    given = request.completion_request
    choices: list[CompletionChoice] = []
    completion = 0
    for number, (response, prompt) in enumerate(zip(responses, prompts, strict=True)):
        param = f"generate_responses[{number}]"
        check_response(model, response, param=param)
        if isinstance(prompt, int):
            raise InvalidRequest(
                "`prompt_token_ids` has one list of ids per answer.", param=f"prompt_token_ids[{number}]"
            )
        check_prompt(model, prompt, param=f"prompt_token_ids[{number}]")
        derenderer = _bind(model, given, response.request_id)
        for step in whole(
            derenderer, response, response.prompt_token_ids if prompt is None else prompt, {}, param=param
        ):
            choices.append(_choice(step, len(choices), given, response))
            completion += step.tokens
    total = sum(count for count in counts if isinstance(count, int))
    first = responses[0]
    same_transfer = all(response.kv_transfer_params == first.kv_transfer_params for response in responses)
    return Completion(
        id=first.request_id or f"cmpl-{base_id(None, given.request_id if given else None)}",
        created=now,
        model=request.model or model.name,
        choices=choices,
        service_tier=None,
        system_fingerprint=None,
        usage=GenerateUsage(prompt_tokens=total, completion_tokens=completion, total_tokens=total + completion),
        kv_transfer_params=first.kv_transfer_params if same_transfer else None,
        ec_transfer_params=None,
        metrics=first.metrics if len(responses) == 1 else None,
    )


def _derender_chunk(
    request: CompletionsDerenderRequest, model: DerenderModel, seal: StateSeal, now: int
) -> CompletionDerendered:
    chunk, given = request.generate_chunk, request.completion_request
    if chunk is None:
        raise InvalidRequest("`generate_chunk` is needed with `stream: true`.", param="generate_chunk")
    check_response(model, chunk, param="generate_chunk")
    prompt = _one_prompt(request)
    check_prompt(model, prompt)
    if request.stream_state is None:
        prompt = _null(chunk.prompt_token_ids) if prompt is None else prompt
        request_id = chunk.request_id or first_id("cmpl-", prompt, chunk)
        derenderer = _bind(model, given, request_id)
        state = first_state(derenderer, prompt, {}, request_id=request_id, created=now)
    else:
        state = seal.open(request.stream_state, dialect=DIALECT, model=model.name, request_id=chunk.request_id)
        request_id = state.request_id
        derenderer = RECENT.get(DIALECT, request_id, model, given, lambda: _bind(model, given, request_id))
    check_length(model, prompt, state, chunk)
    steps = advance(derenderer, state, chunk)
    count = request.prompt_tokens
    reply = CompletionChunk(
        id=state.request_id,
        created=state.created,
        model=request.model or model.name,
        choices=[_chunk_choice(step, given, _null(chunk.prompt_token_ids)) for step in steps],
        usage=chunk_usage(chunk, state, sum(count) if isinstance(count, list) else count),
        system_fingerprint=None,
        metrics=_null(chunk.metrics),
        kv_transfer_params=_null(chunk.kv_transfer_params),
    )
    return CompletionDerendered(reply, seal.seal(state, dialect=DIALECT, model=model.name))


def _bind(model: DerenderModel, request: CompletionsRequest | None, request_id: str) -> Derenderer:
    logprobs = completion_logprob_options(request)
    if request is None:
        return plain_derenderer(model, None, request_id=request_id, logprobs=logprobs)
    # The prompt plays no part here, and a client may leave it out.
    with inside("completion_request"):
        sampling = read_sampling(request, max_tokens=request.max_tokens, n=request.n, logprobs=request.logprobs)
        check_sampling(sampling, model.generation_defaults, model.max_model_len)
    read = RenderInput(dialect=DIALECT, request_id=request_id, sampling=sampling)
    return plain_derenderer(model, read, request_id=request_id, logprobs=logprobs)


def _choice(step: Step, index: int, request: CompletionsRequest | None, response: GenerateResponse) -> CompletionChoice:
    ids = request is not None and bool(request.return_token_ids)
    return CompletionChoice(
        index=index,
        text=completion_text(step),
        logprobs=completion_logprobs(step.logprobs, step.text_offset),
        finish_reason=step.finish_reason,
        stop_reason=step.stop_reason,
        token_ids=step.token_ids if ids else None,
        prompt_logprobs=response.prompt_logprobs,
        prompt_token_ids=response.prompt_token_ids if ids else None,
        routed_experts=None,
        weight_versions=None,
    )


def _chunk_choice(
    step: Step, request: CompletionsRequest | None, prompt_ids: list[int] | None
) -> CompletionChunkChoice:
    ids = request is not None and bool(request.return_token_ids)
    return CompletionChunkChoice(
        index=step.index,
        text=completion_text(step),
        logprobs=completion_logprobs(step.logprobs, step.text_offset),
        finish_reason=step.finish_reason,
        stop_reason=step.stop_reason,
        prompt_token_ids=prompt_ids if ids else None,
        token_ids=step.token_ids if ids else None,
        weight_versions=None,
    )


def _one_prompt(request: CompletionsDerenderRequest) -> list[int] | None:
    ids: list[int] = []
    for position, token_id in enumerate(request.prompt_token_ids or ()):
        if not isinstance(token_id, int):
            raise InvalidRequest(
                "With `stream: true`, `prompt_token_ids` is one prompt's list of ids.",
                param=f"prompt_token_ids[{position}]",
            )
        ids.append(token_id)
    return None if request.prompt_token_ids is None else ids


def _per_response(values: Sequence[T] | int | None, count: int, param: str) -> Sequence[T | None]:
    """One value per answer, None where none are given."""
    if values is None:
        return [None] * count
    if isinstance(values, int) or len(values) != count:
        raise InvalidRequest(f"`{param}` has one entry per answer in `generate_responses`.", param=param)
    return values


def _null(value: T | UnsetType | None) -> T | None:
    return None if isinstance(value, UnsetType) else value
