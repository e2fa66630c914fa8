"""The statements of :class:`app.store.store.ResponseStore`; every one is bound to a tenant.

Parameters: ``key`` (a response's or thread's id), ``tenant``, ``now`` (Unix milliseconds).
"""

from sqlalchemy import BigInteger, and_, bindparam, case, delete, exists, insert, or_, select, update

from app.store.tables import responses, threads, turns
from app.store.turn import CONTINUABLE, RUNNING

MINE = and_(responses.c.id == bindparam("key"), responses.c.tenant_id == bindparam("tenant"))
ALIVE = and_(
    threads.c.id == responses.c.thread_id,
    threads.c.tenant_id == bindparam("tenant"),
    or_(threads.c.expires_at.is_(None), threads.c.expires_at > bindparam("now")),
)
INSERT_THREAD = insert(threads)
INSERT_RESPONSE = insert(responses)
INSERT_TURN = insert(turns)
PLACE = select(responses.c.thread_id, responses.c.depth, responses.c.status).where(MINE, ALIVE)
SLIDE = (
    update(threads)
    .where(threads.c.id == bindparam("key"), threads.c.tenant_id == bindparam("tenant"))
    .where(or_(threads.c.expires_at.is_(None), threads.c.expires_at > bindparam("now")))
    .values(expires_at=bindparam("until"))
)
BODY = (
    responses.c.id,
    responses.c.status,
    responses.c.background,
    responses.c.body,
    responses.c.request_hash,
    turns.c.output,
)
RETRIEVE = select(*BODY).where(MINE, ALIVE, turns.c.response_id == responses.c.id)
BY_KEY = (
    select(*BODY, threads.c.expires_at)
    .where(responses.c.tenant_id == bindparam("tenant"), responses.c.idempotency_key == bindparam("key"))
    .where(threads.c.id == responses.c.thread_id, turns.c.response_id == responses.c.id)
)
FREE_KEY = update(responses).where(MINE).values(idempotency_key=None)
START = (
    update(responses)
    .where(MINE, responses.c.status == "queued")
    .values(status="in_progress", body=bindparam("new_body"))
)
LOCK = select(responses.c.status, responses.c.body).where(MINE).with_for_update()
FINISH = (
    update(responses)
    .where(MINE, responses.c.status.in_(RUNNING))
    .values(
        status=bindparam("new_status"),
        body=bindparam("new_body"),
        finished_at=bindparam("now"),
        owner=None,
        events_until=case((responses.c.background, bindparam("until", type_=BigInteger)), else_=None),
    )
    .returning(responses.c.conversation_id)
)
SET_OUTPUT = (
    update(turns)
    .where(turns.c.response_id == bindparam("key"))
    .values(
        output=bindparam("new_output"),
        shared_ids=bindparam("shared"),
        prompt_ids=bindparam("prompt"),
        completion_ids=bindparam("completion"),
    )
)
FORGET_IDS = (
    update(turns)
    .where(turns.c.response_id == bindparam("key"))
    .where(exists().where(responses.c.id == bindparam("key"), responses.c.tenant_id == bindparam("tenant")))
    .values(shared_ids=None, prompt_ids=None, completion_ids=None)
)
IDS_NEAR = select(
    responses.c.id, responses.c.model, turns.c.shared_ids, turns.c.prompt_ids, turns.c.completion_ids
).where(
    responses.c.id >= bindparam("first"),
    responses.c.id < bindparam("end"),
    responses.c.tenant_id == bindparam("tenant"),
    responses.c.status.in_(CONTINUABLE),
    turns.c.response_id == responses.c.id,
    turns.c.shared_ids == 0,
    ALIVE,
)
INPUT = select(turns.c.input).where(turns.c.response_id == bindparam("key"))
DELETE = delete(responses).where(MINE)
DELETE_EMPTY_THREAD = delete(threads).where(
    threads.c.id == bindparam("key"),
    threads.c.tenant_id == bindparam("tenant"),
    ~exists().where(responses.c.thread_id == threads.c.id),
)
NEAR = select(turns.c.input, turns.c.output).where(
    responses.c.id >= bindparam("first"),
    responses.c.id < bindparam("end"),
    responses.c.tenant_id == bindparam("tenant"),
    turns.c.response_id == responses.c.id,
    ALIVE,
)
