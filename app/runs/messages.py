"""An Anthropic Messages request to its reply, and to the count of its prompt's tokens."""

import time

from app.dialects.binding import derenderer_of, effective_kwargs, history_calls
from app.dialects.messages.derender import CALL_DIGITS, CALL_PREFIX
from app.dialects.messages.read import read, read_for_counting
from app.dialects.messages.write import MessagesWriter, fold
from app.dialects.writer import ReplyHead, Usage
from app.errors import Unsupported
from app.models import ServedModel
from app.protocol.generate import GenerateRequest
from app.protocol.messages import CountTokensRequest, MessagesRequest
from app.runs.generate_check import accept
from app.runs.names import MESSAGES, names_for, said_as
from app.runs.reading import reading
from app.runs.reply import Reply, require_engine
from app.runs.run import Run, events
from app.runs.salt import salted

__all__ = ("count_tokens", "message")


async def message(
    request: MessagesRequest,
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
        BadMedia: an image could not be had.
    """
    require_engine(model)
    if request.mcp_servers:
        raise Unsupported("Nothing here calls MCP servers: call them, and give their tools.", param="mcp_servers")
    given = await reading(lambda: read(request, model=model, request_id=header_id), long=long)
    given = salted(given, tenant)
    with said_as(MESSAGES, given=request):
        prompt: GenerateRequest = await model.renderer.render(given)
        accepted = accept(prompt, model)
    reply_id = f"msg_{prompt.request_id.removeprefix('chatcmpl-')}"
    kwargs = effective_kwargs(model, given)
    derenderer = derenderer_of(
        model,
        given,
        request_id=reply_id,
        kwargs=kwargs,
        history_calls=history_calls(given),
        call_prefix=CALL_PREFIX,
        call_digits=CALL_DIGITS,
    )
    run = Run(
        model=model,
        request=accepted,
        derenderer=derenderer,
        kwargs=kwargs,
        abort_fails=True,
        names=names_for(request, MESSAGES),
    )
    head = ReplyHead(id=reply_id, created=int(time.time()), model=request.model)
    writer = MessagesWriter(head, Usage(prompt_tokens=len(prompt.token_ids)))
    return Reply(
        stream=given.stream,
        prompt_tokens=len(prompt.token_ids),
        # Nothing is told before the engine has taken the request: its refusal is still an error reply.
        events=events(run, writer, eager=False),
        fold=fold,
    )


async def count_tokens(request: CountTokensRequest, *, model: ServedModel, long: bool = False) -> int:
    """Tokens of the request's prompt, which may be longer than the model's context.

    ``long`` says whether reading it is long work.

    Raises:
        InvalidRequest: a field is wrong; ``param`` names it.
        BadMedia: an image could not be had.
    """
    given = await reading(lambda: read_for_counting(request, model=model), long=long)
    assert given.conversation is not None
    with said_as(MESSAGES):
        ids, *_ = await model.renderer.prompt(given.conversation, given)
    return len(ids)
