"""A Responses request to a run: resolved against the store, rendered, begun as a turn, and streamed as events.

::

    request ─resolve→ items ─read→ RenderInput ─render→ prompt ─continued→ prompt ─begin→ turn ─run→ events ─commit→

Without a store, or with ``store: false``, the same path runs and nothing is written.
"""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from app.derendering.logprobs import LogprobOptions
from app.dialects.binding import derenderer_of, effective_kwargs, history_calls
from app.dialects.responses.opening import open_response, read_called_tools
from app.dialects.responses.read import LOGPROBS, read
from app.dialects.responses.write import ResponsesWriter
from app.errors import Unsupported
from app.models import ServedModel
from app.protocol.generate import GenerateRequest
from app.protocol.ids import new_id
from app.protocol.responses import ResponsesRequest
from app.protocol.responses_events import ResponseEvent
from app.protocol.responses_reply import Response
from app.rendering.request import RenderInput
from app.runs.compact import opened
from app.runs.continuation import continued
from app.runs.events import Ended, RunEvent, failure
from app.runs.generate_check import accept
from app.runs.history import ResolvedInput, as_dicts, check_outputs, conversation_id_of, resolve_input
from app.runs.names import RESPONSES, names_for, said_as
from app.runs.reading import reading
from app.runs.reply import require_engine
from app.runs.run import Run, events
from app.runs.salt import salted
from app.runs.sealed import Seal
from app.runs.stored import StoredRun, failure_of, stored
from app.store.exact import ExactIds
from app.store.items import as_list
from app.store.turn import NewTurn, Status, StoredResponse

if TYPE_CHECKING:
    from app.runs.state import State

__all__ = ("Prepared", "Rendered", "prepare", "render", "stream")

ENDS: dict[str, Status] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
LOOP_ITEMS = 256
"""Items of a history that are decoded and read on the event loop: some milliseconds."""
encode = msgspec.json.Encoder().encode


class Rendered(Struct, frozen=True, kw_only=True):
    """A request with its history inline, and its prompt. ``reused`` counts the prompt ids taken from the store."""

    request: ResponsesRequest
    given: RenderInput
    prompt: GenerateRequest
    resolved: ResolvedInput
    reused: int = 0


class Prepared(Struct, frozen=True, kw_only=True):
    """A run that can start: ``opening`` is the Response before its first item; ``turn`` None: nothing is stored."""

    rendered: Rendered
    model: ServedModel
    opening: Response
    stored: StoredRun | None = None
    keep_ids: bool = False


async def render(
    request: ResponsesRequest,
    *,
    model: ServedModel,
    state: "State | None",
    tenant: str,
    response_id: str,
    token_exact: bool = True,
    seal: Seal | None = None,
    long: bool = False,
) -> Rendered:
    """Resolve ``previous_response_id``, ``conversation``, references and compactions, and render.

    Args:
        request: the body; its history is inline in the answer's.
        model: the served model.
        state: the store; None: there is none.
        tenant: whose request it is.
        response_id: of the response to be.
        token_exact: whether the ids of the turn before are continued where they can be.
        seal: opens compactions where there is no store (which has its own).
        long: whether reading the request is long work.

    Raises:
        InvalidRequest: a field is wrong, the previous response is not found, or the prompt does not fit.
        NotFound: the conversation, or an item that is referred to, is not found.
        Unsupported: the request needs a store, and there is none.
    """
    resolved = ResolvedInput([], [])
    if state is not None:
        resolved = await resolve_input(
            encode(request.input),
            response_id=response_id,
            store=state.responses(tenant),
            conversations=state.conversations(tenant),
            previous_response_id=request.previous_response_id,
            conversation=conversation_id_of(request.conversation),
            with_exact=token_exact,
        )

    def inline() -> RenderInput:
        nonlocal request
        history = None
        if state is not None:
            check_outputs(resolved.input, resolved.history)
            place = "previous_response_id" if request.previous_response_id is not None else "conversation"
            history = as_dicts(opened(resolved.history, tenant=tenant, seal=state.seal, param=place))
            request = replace(request, input=as_dicts(opened(resolved.input, tenant=tenant, seal=state.seal)))
        elif seal is not None and not isinstance(request.input, str):
            items = as_list(encode(request.input))
            request = replace(request, input=as_dicts(opened(items, tenant=tenant, seal=seal)))
        return read(request, model=model, request_id=response_id, history=history)

    given = await reading(inline, long=long or len(resolved.history) > LOOP_ITEMS)
    given = salted(given, tenant)
    with said_as(RESPONSES, given=request):
        prompt = await model.renderer.render(given)
    reused = 0
    if token_exact and resolved.model == model.name and prompt.features is None:
        prompt, reused = _continue(prompt, resolved.exact, model)
    return Rendered(request=request, given=given, prompt=prompt, resolved=resolved, reused=reused)


def _continue(prompt: GenerateRequest, before: ExactIds | None, model: ServedModel) -> tuple[GenerateRequest, int]:
    """The prompt over the stored ids, if they fit; other ids may leave the output less room."""
    ids, reused = continued(prompt.token_ids, before, model.tokenizer)
    room = model.max_model_len - len(ids)
    if not reused or room < 1:
        return prompt, 0
    sampling = prompt.sampling_params
    if sampling.max_tokens is not UNSET and sampling.max_tokens is not None and sampling.max_tokens > room:
        sampling = replace(sampling, max_tokens=room)
    return replace(prompt, token_ids=ids, sampling_params=sampling), reused


async def prepare(
    request: ResponsesRequest,
    *,
    model: ServedModel,
    state: "State | None",
    tenant: str,
    token_exact: bool = True,
    seal: Seal | None = None,
    idempotency_key: str | None = None,
    request_hash: bytes = b"",
    long: bool = False,
) -> Prepared | StoredResponse:
    """All that comes before the first token; with a store, the turn has begun when this returns.

    Returns:
        the run, or the answer that an earlier request with this idempotency key has.

    Raises:
        Unsupported: the model has no engine, or the request needs a store and there is none.
        InvalidRequest: see :func:`render`.
        Conflict: the idempotency key was used for another request.
    """
    require_engine(model)
    if state is None and request.background:
        raise Unsupported("Running in the background needs a store.", param="background")
    response_id = new_id("resp")
    rendered = await render(
        request,
        model=model,
        state=state,
        tenant=tenant,
        response_id=response_id,
        token_exact=token_exact,
        seal=seal,
        long=long,
    )
    with said_as(RESPONSES, given=request):
        rendered = replace(rendered, prompt=accept(rendered.prompt, model))
    kept = state is not None and request.store is not False
    opening = open_response(
        request,
        response_id=response_id,
        created_at=int(time.time()),
        model=request.model or model.name,
        status="queued" if request.background else "in_progress",
        store=kept,
        conversation_id=conversation_id_of(request.conversation),
    )
    prepared = Prepared(rendered=rendered, model=model, opening=opening, keep_ids=kept and token_exact)
    if state is None or not kept:
        return prepared
    turn = NewTurn(
        id=response_id,
        model=model.name,
        input=rendered.resolved.input,
        body=encode(opening),
        owner=state.owner,
        previous_id=request.previous_response_id,
        conversation_id=conversation_id_of(request.conversation),
        status="queued" if request.background else "in_progress",
        background=bool(request.background),
        idempotency_key=idempotency_key,
        request_hash=request_hash,
    )
    store = state.responses(tenant)
    begun = await store.begin(turn)
    if begun.repeated is not None:
        return begun.repeated
    chained = rendered.resolved.exact if turn.conversation_id is None else None
    kept_run = StoredRun(store, turn, chained, rendered.resolved.before)
    run = replace(prepared, stored=kept_run)
    if request.background:
        state.background.launch(kept_run, lambda: _produced(run))
    return run


def stream(prepared: Prepared) -> AsyncGenerator[RunEvent, None]:
    """The events of a run in the foreground; a stored one's last event comes when the turn is committed."""
    source = _produced(prepared)
    return stored(prepared.stored, source) if prepared.stored is not None else _unstored(prepared, source)


async def _unstored(prepared: Prepared, source: AsyncGenerator[RunEvent, None]) -> AsyncGenerator[RunEvent, None]:
    last = -1
    async with aclosing(source):
        try:
            async for event in source:
                last = event.sequence
                yield event
        except Exception as error:
            code, message = failure_of(error, prepared.opening.id)
            for event in failure(encode(prepared.opening), last + 1, code=code, message=message, error=error):
                yield event


async def _produced(prepared: Prepared) -> AsyncGenerator[RunEvent, None]:
    """The writer's events as run events; what an engine refuses or breaks is raised."""
    rendered, model = prepared.rendered, prepared.model
    asked = rendered.request
    wants_logprobs = LOGPROBS in (asked.include or ())
    kwargs = effective_kwargs(model, rendered.given)
    derenderer = derenderer_of(
        model,
        rendered.given,
        request_id=prepared.opening.id,
        kwargs=kwargs,
        history_calls=history_calls(rendered.given),
        logprobs=LogprobOptions(top=asked.top_logprobs or 0) if wants_logprobs else None,
        call_prefix="call_",
        call_digits=24,
    )
    writer = ResponsesWriter(prepared.opening, tools=read_called_tools(asked.tools), logprobs=wants_logprobs)
    sampled: list[int] = []
    run = Run(
        model=model,
        request=rendered.prompt,
        derenderer=derenderer,
        kwargs=kwargs,
        sampled=sampled,
        names=names_for(asked, RESPONSES),
    )
    async with aclosing(events(run, writer)) as written:
        async for event, usage in written:
            yield _run_event(prepared, event.data, sampled, usage.completion_tokens)


def _run_event(prepared: Prepared, data: object, sampled: list[int], tokens: int) -> RunEvent:
    kind, sequence = data.type, data.sequence_number  # type: ignore[attr-defined]
    ended = None
    if isinstance(data, ResponseEvent) and data.type in ENDS:
        response = data.response
        if prepared.rendered.reused and response.usage is not None:
            response.usage.input_tokens_details.reused_tokens = prepared.rendered.reused
        exact = ExactIds(prepared.rendered.prompt.token_ids, sampled) if prepared.keep_ids else None
        items = [Raw(encode(item)) for item in response.output]
        ended = Ended(status=ENDS[data.type], body=encode(response), output=items, exact=exact)
    return RunEvent(sequence, kind, encode(data), ended, tokens)
