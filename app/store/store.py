"""One tenant's responses: begin a turn, end it once, read it, continue it, delete it.

A :class:`ResponseStore` is bound to its tenant, so that no statement can forget it. A response that is absent,
another tenant's, expired or deleted is the same "not found" in every call. States change by compare-and-set only:
whoever comes second learns that it lost. What a call returns is committed.
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Raw
from sqlalchemy import Connection

from app.errors import InvalidRequest
from app.protocol.ids import now_ms, response_range
from app.store import blobs, chain
from app.store import statements as sql
from app.store.apart import apart, size_of
from app.store.beginning import begin, whole
from app.store.conversations import append
from app.store.database import Clash, Database
from app.store.exact import PackedIds, TurnIds, unpack
from app.store.items import Page, join, listing, page, probe, split
from app.store.retention import Retention
from app.store.turn import (
    RUNNING,
    Begun,
    NewTurn,
    Status,
    StoredResponse,
    check_continuable,
    ended_body,
    not_found,
    previous_not_found,
    usable_id,
    without_output,
)

__all__ = ("ResponseStore",)


class ResponseStore:
    """The responses of one tenant. Cheap to make: one a request.

    Args:
        database: where they are.
        tenant: whose they are; from the API key, never from a request's body.
        retention: how long a thread is kept after its last use.
    """

    def __init__(self, database: Database, tenant: str, retention: Retention = Retention()) -> None:
        self.tenant = tenant
        self._database = database
        self._retention = retention

    async def begin(self, turn: NewTurn) -> Begun:
        """Store a turn that is about to run, or find the answer of an earlier request with its idempotency key.

        Raises:
            InvalidRequest: the previous response is not found, or has no usable end.
            Conflict: the idempotency key was used for another request.
        """
        if turn.idempotency_key is not None and not 0 < len(turn.idempotency_key) <= 255:
            raise InvalidRequest("An idempotency key has 1 to 255 characters.", param="Idempotency-Key")
        given, taken = await apart(size_of(turn.input), blobs.take_out, turn.input)
        for attempt in (1, 2, 3):
            try:
                return await self._database.write(begin, self.tenant, self._retention, turn, join(given), taken)
            except Clash:
                # Lost a race for the key, the thread or a blob: the next look finds what won.
                if attempt == 3:
                    raise
        raise AssertionError("unreachable")

    async def start(self, response_id: str, body: bytes) -> bool:
        """From queued to in_progress; False where it was cancelled or deleted first."""
        values = {"key": response_id, "tenant": self.tenant, "new_body": without_output(body)}
        return await self._database.write(lambda connection: connection.execute(sql.START, values).rowcount == 1)

    async def finish(
        self,
        response_id: str,
        *,
        status: Status,
        body: bytes,
        output: Sequence[Raw],
        exact: PackedIds | None = None,
        outdated: str | None = None,
    ) -> bool:
        """End a running turn, whole: reply, output, token ids, and its conversation's new items in one transaction.

        Args:
            response_id: the turn's.
            status: the state it ends in.
            body: the reply; its ``output`` is dropped.
            output: what was generated, each item with its id.
            exact: token ids over the previous turn's.
            outdated: the turn whose token ids nobody needs any more, as these hold them too.

        Returns:
            False where the turn does not run any more (cancelled, deleted, given up for dead): nothing was written.
        """
        taken_out, taken = await apart(size_of(output), blobs.take_out, output)
        now = now_ms()
        values: dict[str, Any] = {
            "key": response_id,
            "tenant": self.tenant,
            "new_status": status,
            "now": now,
            "until": now + self._retention.events_ms,
            "new_body": without_output(body),
        }
        wide = {
            "key": response_id,
            "new_output": join(taken_out),
            "shared": None if exact is None else exact.shared,
            "prompt": None if exact is None else exact.prompt,
            "completion": None if exact is None else exact.completion,
        }

        def work(connection: Connection) -> bool:
            ended = connection.execute(sql.FINISH, values).first()
            if ended is None:
                return False
            connection.execute(sql.SET_OUTPUT, wide)
            if outdated is not None and exact is not None:
                connection.execute(sql.FORGET_IDS, {"key": outdated, "tenant": self.tenant})
            blobs.save(connection, self.tenant, taken, response_id=response_id)
            if ended.conversation_id is not None and status in ("completed", "incomplete"):
                given = connection.execute(sql.INPUT, {"key": response_id}).scalar_one()
                append(connection, self.tenant, ended.conversation_id, [*split(bytes(given)), *taken_out])
            return True

        return await self._database.write(work)

    async def fail(self, response_id: str, *, code: str, message: str) -> bool:
        """End a running turn as failed, without a reply of its own; False where it does not run any more."""
        return await self._end(response_id, "failed", code=code, message=message)

    async def abandon(self, response_id: str) -> bool:
        """End a running turn that nobody waits for as cancelled; False where it does not run any more."""
        return await self._end(response_id, "cancelled")

    async def _end(self, response_id: str, status: Status, *, code: str = "", message: str = "") -> bool:
        def work(connection: Connection) -> bool:
            found = connection.execute(sql.LOCK, {"key": response_id, "tenant": self.tenant}).first()
            if found is None or found.status not in RUNNING:
                return False
            now = now_ms()
            values = {
                "key": response_id,
                "tenant": self.tenant,
                "new_status": status,
                "now": now,
                "until": now + self._retention.events_ms,
                "new_body": ended_body(bytes(found.body), status, code=code, message=message),
            }
            return connection.execute(sql.FINISH, values).first() is not None

        return await self._database.write(work)

    async def cancel(self, response_id: str) -> StoredResponse:
        """Cancel a background response; one that has ended is returned as it is.

        Raises:
            NotFound: there is no such response.
            InvalidRequest: it does not run in the background.
        """
        found = await self.retrieve(response_id)
        if not found.background:
            raise InvalidRequest("Cannot cancel a synchronous response.", param="response_id")
        if found.status in RUNNING:
            await self._end(response_id, "cancelled")
            found = await self.retrieve(response_id)
        return found

    async def retrieve(self, response_id: str) -> StoredResponse:
        """A response as it stands. Raises :class:`NotFound`."""
        if not usable_id(response_id):
            raise not_found(response_id)

        def work(connection: Connection) -> StoredResponse:
            place = {"key": response_id, "tenant": self.tenant, "now": now_ms()}
            found = connection.execute(sql.RETRIEVE, place).first()
            if found is None:
                raise not_found(response_id)
            return whole(connection, self.tenant, found)

        return await self._database.read(work)

    async def status(self, response_id: str) -> Status | None:
        """The state of a response, None where there is none: what a long poll asks."""
        if not usable_id(response_id):
            return None
        place = {"key": response_id, "tenant": self.tenant, "now": now_ms()}
        found = await self._database.read(lambda connection: connection.execute(sql.PLACE, place).first())
        return None if found is None else found.status

    async def delete(self, response_id: str) -> None:
        """Delete a response, running or not; what continued it is not found from then on. Raises :class:`NotFound`."""
        if not usable_id(response_id):
            raise not_found(response_id)

        def work(connection: Connection) -> None:
            place = {"key": response_id, "tenant": self.tenant, "now": now_ms()}
            found = connection.execute(sql.PLACE, place).first()
            if found is None:
                raise not_found(response_id)
            used = blobs.uses_of(connection, "response_id", [response_id])
            if connection.execute(sql.DELETE, {"key": response_id, "tenant": self.tenant}).rowcount == 0:
                raise not_found(response_id)
            connection.execute(sql.DELETE_EMPTY_THREAD, {"key": found.thread_id, "tenant": self.tenant})
            blobs.drop_unused(connection, used)

        await self._database.write(work)

    async def resolve(self, previous_id: str, *, with_ids: bool = False) -> chain.History:
        """The whole conversation up to and including a response, to be continued.

        Raises:
            InvalidRequest: it is not found (absent, foreign, expired, deleted, or a turn of it is missing: the history
                is never shortened), or it has no usable end.
        """
        history = await self._walk(previous_id, with_ids=with_ids)
        if history is None:
            raise previous_not_found(previous_id)
        check_continuable(previous_id, history.status)
        return history

    async def input_items(
        self, response_id: str, *, after: str | None = None, limit: int = 20, order: Literal["asc", "desc"] = "desc"
    ) -> Page:
        """One page of what a response was generated from: the resolved history and its own input.

        Raises:
            NotFound: there is no such response, or its history is not whole any more.
            InvalidRequest: the limit or the cursor is wrong.
        """
        history = await self._walk(response_id)
        if history is None:
            raise not_found(response_id)
        items = history.input_items()
        return await apart(
            size_of(items), lambda: page(listing(items, response_id), after=after, limit=limit, order=order)
        )

    async def _walk(self, response_id: str, *, with_ids: bool = False) -> chain.History | None:
        if not usable_id(response_id):
            return None
        walked = await self._database.read(chain.walk, self.tenant, response_id, now=now_ms(), with_ids=with_ids)
        return None if walked is None else await apart(walked.size, chain.read, walked)

    async def token_ids(self, between: tuple[str, str]) -> TurnIds | None:
        """The token ids of the ended turn in a range of ids, where they are kept whole; None where they are not."""
        place = {"tenant": self.tenant, "first": between[0], "end": between[1], "now": now_ms()}
        row = await self._database.read(lambda connection: connection.execute(sql.IDS_NEAR, place).first())
        if row is None:
            return None
        ids = unpack([PackedIds(0, bytes(row.prompt_ids), bytes(row.completion_ids))])
        return None if ids is None else TurnIds(row.id, row.model, ids)

    async def find_item(self, item_id: str) -> Raw | None:
        """An item that a response of this tenant took or gave, by its id; None where there is none."""
        between = response_range(item_id)
        if between is None:
            return None
        place = {"tenant": self.tenant, "first": between[0], "end": between[1], "now": now_ms()}

        def work(connection: Connection) -> Raw | None:
            for row in connection.execute(sql.NEAR, place).all():
                for column in (bytes(row.output), bytes(row.input)):
                    for item in split(column):
                        if probe(item).id == item_id:
                            try:
                                return Raw(blobs.restore(connection, self.tenant, [bytes(item)])[0])
                            except KeyError:
                                return None
            return None

        return await self._database.read(work)
