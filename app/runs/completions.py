"""A completions request to its reply: one run a prompt, all choices in one stream."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec import Struct
from msgspec.structs import replace

from app.derendering.derenderer import Step
from app.derendering.logprobs import LogprobReader
from app.derendering.prompt_logprobs import positions, with_texts
from app.dialects.binding import plain_derenderer
from app.dialects.completions.derender import completion_logprob_options
from app.dialects.completions.read import read
from app.dialects.completions.write import CompletionOptions, CompletionWriter, Echo, echo_of, fold
from app.dialects.identity import base_id
from app.dialects.writer import Event, ReplyHead, Usage
from app.errors import EngineFailure, Unsupported
from app.models import ServedModel
from app.protocol.completions import CompletionsRequest
from app.protocol.completions_reply import Completion
from app.protocol.generate import GenerateRequest
from app.rendering.request import RenderInput
from app.runs.generate_check import accept
from app.runs.merge import merged
from app.runs.names import COMPLETIONS, names_for, said_as
from app.runs.reading import reading_all, rendering_all
from app.runs.reply import Reply, require_engine
from app.runs.run import Run
from app.runs.salt import salted
from app.runs.tally import Tally

__all__ = ("complete",)


class Prompt(Struct, frozen=True, kw_only=True):
    """One prompt of the request, rendered. ``first`` is the index of its first choice."""

    first: int
    given: RenderInput
    rendered: GenerateRequest
    run: Run
    tally: Tally


class Plan(Struct, frozen=True, kw_only=True):
    """The request in parts. ``echoes``: each choice begins with its prompt; ``scored``: with the prompt's logprobs,
    too. ``prompt_only``: nothing of the output is told (``echo`` with ``max_tokens: 0``).
    """

    request: CompletionsRequest
    model: ServedModel
    prompts: list[Prompt]
    echoes: bool
    scored: bool
    prompt_only: bool


async def complete(
    request: CompletionsRequest,
    *,
    model: ServedModel,
    tenant: str = "",
    header_id: str | None = None,
    long: bool = False,
) -> Reply:
    """The reply to a request, not yet running.

    Args:
        request: the body.
        model: the served model that it names.
        tenant: whose request it is.
        header_id: the request's ``X-Request-Id``.
        long: whether reading it is long work.

    Raises:
        InvalidRequest: a field is wrong; ``param`` names it.
        Unsupported: something that this server, model or engine does not do.
    """
    require_engine(model)
    _refuse_unserved(request)
    base = base_id(header_id, request.request_id)
    inputs = await reading_all(lambda: read(request, model=model, request_id=base), long=long)
    inputs = [salted(given, tenant) for given in inputs]
    with said_as(COMPLETIONS, given=request):
        rendered = await rendering_all(inputs, model.renderer)
        plan = _plan(request, model, inputs, rendered)
    head = ReplyHead(id=f"cmpl-{base}", created=int(time.time()), model=request.model or model.name)
    writer = CompletionWriter(head, _options(plan))

    def whole(written: Sequence[Event]) -> Completion:
        reply = fold(head, [event.data for event in written])
        for choice in reply.choices:
            tally = plan.prompts[choice.index // request.n].tally
            if tally.prompt_logprobs is not None and request.prompt_logprobs is not None:
                choice.prompt_logprobs = with_texts(tally.prompt_logprobs, model.tokenizer)
        if len(plan.prompts) == 1 and plan.prompts[0].tally.kv_transfer_params is not None:
            reply.kv_transfer_params = plan.prompts[0].tally.kv_transfer_params
        return reply

    return Reply(
        stream=bool(request.stream),
        prompt_tokens=sum(prompt.tally.prompt for prompt in plan.prompts),
        events=_events(plan, writer),
        fold=whole,
    )


def _refuse_unserved(request: CompletionsRequest) -> None:
    """Refuse what changes the reply and is not served; a render, which makes no reply, takes it."""
    if request.best_of is not None and request.best_of != request.n:
        raise Unsupported("`best_of` is not served: every output of `n` is answered.", param="best_of")
    if request.return_prompt_text:
        raise Unsupported("`return_prompt_text` is not served: use `echo`.", param="return_prompt_text")
    if request.return_weight_versions:
        raise Unsupported("Versions of weights are not told.", param="return_weight_versions")


def _plan(
    request: CompletionsRequest, model: ServedModel, inputs: Sequence[RenderInput], rendered: Sequence[GenerateRequest]
) -> Plan:
    logprobs = completion_logprob_options(request) if request.logprobs is not None else None
    prompts = []
    for number, (given, prompt) in enumerate(zip(inputs, rendered, strict=True)):
        derenderer = plain_derenderer(model, given, request_id=prompt.request_id, logprobs=logprobs)
        run = Run(
            model=model,
            request=accept(prompt, model),
            derenderer=derenderer,
            kwargs={},
            names=names_for(request, COMPLETIONS),
        )
        prompts.append(
            Prompt(first=number * request.n, given=given, rendered=prompt, run=run, tally=Tally(len(prompt.token_ids)))
        )
    return Plan(
        request=request,
        model=model,
        prompts=prompts,
        echoes=bool(request.echo),
        scored=bool(request.echo) and logprobs is not None,
        prompt_only=bool(request.echo) and request.max_tokens == 0,
    )


def _options(plan: Plan) -> CompletionOptions:
    request, options = plan.request, plan.request.stream_options
    prompt_ids = {
        prompt.first + number: prompt.rendered.token_ids for prompt in plan.prompts for number in range(request.n)
    }
    return CompletionOptions(
        include_usage=not request.stream or bool(options and options.include_usage),
        continuous_usage=bool(options and options.continuous_usage_stats),
        token_ids=bool(request.return_token_ids),
        prompt_token_ids=prompt_ids if request.return_token_ids else {},
    )


async def _events(plan: Plan, writer: CompletionWriter) -> AsyncGenerator[tuple[Event, Usage], None]:
    """The events of all prompts; steps of a prompt whose logprobs are echoed wait for those."""
    held: list[list[Step]] = [[] for _ in plan.prompts]
    begun = [not plan.echoes for _ in plan.prompts]
    totals = _Totals(plan)
    for event in writer.start():
        yield event, totals.usage()
    async with aclosing(merged([(prompt.run, prompt.tally) for prompt in plan.prompts])) as found:
        async for number, step in found:
            prompt = plan.prompts[number]
            held[number].append(step)
            usage = totals.update(number)
            if not begun[number]:
                if plan.scored and prompt.tally.prompt_logprobs is None:
                    continue
                begun[number] = True
                # Reading thousands of logprobs would hold the event loop up.
                echo = await asyncio.to_thread(_echo, plan, prompt) if plan.scored else _echo(plan, prompt)
                for choice in range(plan.request.n):
                    writer.precede(prompt.first + choice, echo)
            for waiting in held[number]:
                for event in writer.feed(_placed(waiting, prompt, plan), usage):
                    yield event, usage
            held[number].clear()
    if not all(begun):
        raise EngineFailure("The engine gave no logprobs of the prompt.")
    usage = [totals.update(number) for number in range(len(plan.prompts))][-1]
    for event in writer.finish(usage):
        yield event, usage


def _placed(step: Step, prompt: Prompt, plan: Plan) -> Step:
    """The step with the index that its choice has among all prompts' choices."""
    index = prompt.first + step.index
    if not plan.prompt_only:
        return replace(step, index=index)
    ended = None if step.finish_reason is None else "length"
    return Step(index=index, finish_reason=ended)


def _echo(plan: Plan, prompt: Prompt) -> Echo:
    ids = prompt.rendered.token_ids
    # A prompt that was cut is told as it was read.
    text = prompt.given.text
    if text is None or prompt.given.template.truncate_prompt_tokens is not None:
        text = plan.model.tokenizer.decode(ids)
    if not plan.scored or prompt.tally.prompt_logprobs is None:
        return echo_of(text, None)
    reader = LogprobReader(plan.model.tokenizer, completion_logprob_options(plan.request))
    return echo_of(text, positions(ids, prompt.tally.prompt_logprobs, reader))


class _Totals:
    """Of all prompts and outputs together, kept up to date prompt by prompt: there may be a thousand."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._outputs = [0] * len(plan.prompts)
        self._cached: list[int | None] = [None] * len(plan.prompts)
        self._usage = Usage(prompt_tokens=sum(prompt.tally.prompt for prompt in plan.prompts))

    def usage(self) -> Usage:
        """As of the last :meth:`update`."""
        return self._usage

    def update(self, number: int) -> Usage:
        """After a step of this prompt."""
        tally = self._plan.prompts[number].tally
        cached, before = self._usage.cached_tokens, self._cached[number]
        if tally.cached is not None:
            cached = (cached or 0) + tally.cached - (before or 0)
        outputs = 0 if self._plan.prompt_only else tally.generated
        self._usage = Usage(
            prompt_tokens=self._usage.prompt_tokens,
            completion_tokens=self._usage.completion_tokens + outputs - self._outputs[number],
            cached_tokens=cached,
        )
        self._outputs[number], self._cached[number] = outputs, tally.cached
        return self._usage
