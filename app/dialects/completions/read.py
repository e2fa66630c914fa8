"""A completions request to one ``RenderInput`` per prompt."""

from typing import Any

from app.dialects.constraints import read_constraints
from app.dialects.identity import base_id
from app.dialects.model import DialectModel
from app.dialects.passthrough import read_fields
from app.dialects.prompt_ids import check_token_ids
from app.dialects.sampling_fields import read_sampling, read_stream_options
from app.dialects.template_fields import check_truncation, read_mm_payload, read_side
from app.errors import InvalidRequest, Unsupported
from app.protocol.completions import CompletionsRequest
from app.rendering.limits import MAX_PROMPTS
from app.rendering.request import RenderInput, SamplingRequest, TemplateOptions
from app.rendering.sampling_checks import check_sampling

__all__ = ("read",)

DEFAULT_MAX_TOKENS = 16


def read(request: CompletionsRequest, *, model: DialectModel, request_id: str | None = None) -> list[RenderInput]:
    """What to render for a completions request, in the order of its prompts.

    Args:
        request: the decoded body.
        model: the served model that it goes to.
        request_id: the ``X-Request-Id`` header.

    Raises:
        InvalidRequest: a value, or a combination of values, is wrong; ``param`` names the field.
    """
    prompts = _read_prompts(request, model)
    stream_options = read_stream_options(request.stream, request.stream_options)
    through = read_fields(request)
    kv_transfer_params = through.kv_transfer_params
    if through.prompt_token_ids is not None:
        # Only a conversation's ids are reused: a completions request has its prompt in its own hands.
        kv_transfer_params = {**(kv_transfer_params or {}), "prompt_token_ids": through.prompt_token_ids}
    sampling = _read_sampling(request, through.extra_args)
    check_sampling(sampling, model.generation_defaults, model.max_model_len)
    template = TemplateOptions(
        add_special_tokens=request.add_special_tokens is not False,
        truncate_prompt_tokens=check_truncation(request.truncate_prompt_tokens),
        truncation_side=read_side(request.truncation_side),
        return_token_offsets=bool(request.return_token_offsets),
        mm_payload=read_mm_payload(request.mm_payload, request.return_mm_kwargs),
    )
    base = f"cmpl-{base_id(request_id, request.request_id)}"
    return [
        RenderInput(
            dialect="completions",
            request_id=base if len(prompts) == 1 else f"{base}-{position}",
            model=request.model,
            text=prompt if isinstance(prompt, str) else None,
            token_ids=None if isinstance(prompt, str) else prompt,
            template=template,
            sampling=sampling,
            stream=bool(request.stream),
            stream_options=stream_options,
            return_token_ids=request.return_token_ids,
            cache_salt=through.cache_salt,
            priority=through.priority,
            kv_transfer_params=kv_transfer_params,
            ec_transfer_params=through.ec_transfer_params,
        )
        for position, prompt in enumerate(prompts)
    ]


def _read_prompts(request: CompletionsRequest, model: DialectModel) -> list[str | list[int]]:
    """The prompts: texts, or lists of token ids, never both."""
    if request.prompt_embeds is not None:
        raise Unsupported("Prompt embeddings are not served.", param="prompt_embeds")
    if request.suffix is not None:
        raise Unsupported("Fill-in-the-middle is not served: leave out `suffix`.", param="suffix")
    prompt = request.prompt
    if prompt is None or prompt == "" or prompt == []:
        raise InvalidRequest("`prompt` must be given, and not be empty.", param="prompt")
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt[0], int):
        return [check_token_ids(prompt, model, param="prompt")]
    if len(prompt) > MAX_PROMPTS:
        raise InvalidRequest(f"At most {MAX_PROMPTS} prompts are taken at once.", param="prompt")
    kind = type(prompt[0])
    prompts: list[str | list[int]] = []
    for position, one in enumerate(prompt):
        if not isinstance(one, kind) or isinstance(one, int):
            raise InvalidRequest("The prompts are all texts or all lists of ids.", param=f"prompt[{position}]")
        prompts.append(one if isinstance(one, str) else check_token_ids(one, model, param=f"prompt[{position}]"))
    return prompts


def _read_sampling(request: CompletionsRequest, extra_args: dict[str, Any] | None) -> SamplingRequest:
    logprobs = request.logprobs
    if logprobs is None and request.logprob_token_ids is not None:
        raise InvalidRequest("`logprob_token_ids` needs `logprobs`.", param="logprob_token_ids")
    if logprobs is not None and logprobs < -1:
        raise InvalidRequest("`logprobs` is 0 or more, or -1 for the whole vocabulary.", param="logprobs")
    max_tokens = DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens
    if request.echo and max_tokens == 0:
        if request.logprob_token_ids is not None:
            raise InvalidRequest("`logprob_token_ids` needs output tokens.", param="logprob_token_ids")
        max_tokens = 1  # the prompt's logprobs are wanted, and an engine generates at least one token
    return read_sampling(
        request,
        max_tokens=max_tokens,
        stream=request.stream,
        n=request.n,
        logprobs=logprobs if request.logprob_token_ids is None else None,
        prompt_logprobs=logprobs if request.echo and request.prompt_logprobs is None else request.prompt_logprobs,
        structured_outputs=read_constraints(request.structured_outputs, request.response_format),
        extra_args=extra_args,
    )
