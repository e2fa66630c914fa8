"""One tenant's conversations: named lists of items that outlive the responses that wrote them.

Items are appended after a response has completed, in its transaction, at the end of what is there by then. A
conversation is kept until it is deleted (OpenAI exempts them from its 30 days as well).
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Raw
from sqlalchemy import Connection, and_, bindparam, delete, func, insert, select, update

from app.errors import InvalidRequest, NotFound
from app.protocol.ids import item_id, item_prefix, new_id, now_ms
from app.store import blobs
from app.store.apart import apart, size_of
from app.store.conversation import MOST_ITEMS, StoredConversation, check_metadata
from app.store.database import Database
from app.store.items import Page, check_limit, edit, listed, page, probe, with_ids
from app.store.tables import conversation_items, conversations
from app.store.turn import usable_id

__all__ = ("ConversationStore", "append")


class ConversationStore:
    """The conversations of one tenant. Cheap to make: one a request."""

    def __init__(self, database: Database, tenant: str) -> None:
        self.tenant = tenant
        self._database = database

    async def create(self, items: Sequence[Raw] = (), metadata: dict[str, str] | None = None) -> StoredConversation:
        """Begin a conversation, with up to 20 items. Raises :class:`InvalidRequest`."""
        made = StoredConversation(new_id("conv"), now_ms() // 1000, check_metadata(metadata or {}))
        given, taken = await apart(size_of(items), blobs.take_out, items)
        named = _named(given, made.id)
        row = {
            "id": made.id,
            "tenant_id": self.tenant,
            "created_at": now_ms(),
            "metadata": msgspec.json.encode(made.metadata),
        }

        def work(connection: Connection) -> None:
            connection.execute(insert(conversations), row)
            _append(connection, self.tenant, made.id, named, taken, start=0)

        await self._database.write(work)
        return made

    async def retrieve(self, conversation_id: str) -> StoredConversation:
        """A conversation without its items. Raises :class:`NotFound`."""
        return await self._database.read(self._find, conversation_id)

    async def update(self, conversation_id: str, metadata: dict[str, str]) -> StoredConversation:
        """Replace the metadata. Raises :class:`NotFound` or :class:`InvalidRequest`."""
        check_metadata(metadata)

        def work(connection: Connection) -> StoredConversation:
            found = self._find(connection, conversation_id)
            values = {"key": conversation_id, "tenant": self.tenant, "new": msgspec.json.encode(metadata)}
            connection.execute(_UPDATE, values)
            return msgspec.structs.replace(found, metadata=metadata)

        return await self._database.write(work)

    async def delete(self, conversation_id: str) -> None:
        """Delete a conversation with its items. Raises :class:`NotFound`."""

        def work(connection: Connection) -> None:
            self._find(connection, conversation_id)
            used = blobs.uses_of(connection, "conversation_id", [conversation_id])
            connection.execute(_DELETE, {"key": conversation_id, "tenant": self.tenant})
            blobs.drop_unused(connection, used)

        await self._database.write(work)

    async def add(self, conversation_id: str, items: Sequence[Raw]) -> Page:
        """Append up to 20 items; they are answered as a list. Raises :class:`NotFound` or :class:`InvalidRequest`."""
        given, taken = await apart(size_of(items), blobs.take_out, items)

        def work(connection: Connection) -> tuple[list[str], list[Raw]]:
            self._find(connection, conversation_id, lock=True)
            start = _end(connection, conversation_id)
            named = _named(given, conversation_id, start=start)
            names = [str(probe(item).id) for item in named]
            if (name := connection.execute(_TAKEN, {"key": conversation_id, "names": names}).scalar()) is not None:
                place = names.index(name)
                raise InvalidRequest(f"The conversation has an item '{name}' already.", param=f"items[{place}].id")
            _append(connection, self.tenant, conversation_id, named, taken, start=start)
            return names, named

        names, named = await self._database.write(work)
        return Page(
            data=[
                listed(Raw(blobs.put_back(bytes(item), taken)), name) for name, item in zip(names, named, strict=True)
            ],
            first_id=names[0] if names else None,
            last_id=names[-1] if names else None,
            has_more=False,
        )

    async def items(self, conversation_id: str) -> list[Raw]:
        """All items, oldest first: the history of the next response. Raises :class:`NotFound`."""
        return [item for _, item in await self._items(conversation_id)]

    async def page(
        self, conversation_id: str, *, after: str | None = None, limit: int = 20, order: Literal["asc", "desc"] = "desc"
    ) -> Page:
        """One page of the items. Raises :class:`NotFound` or :class:`InvalidRequest`."""
        check_limit(limit)
        items = await self._items(conversation_id)
        size = size_of(item for _, item in items)
        return await apart(size, page, items, after=after, limit=limit, order=order)

    async def item(self, conversation_id: str, item: str) -> Raw:
        """One item, as it is listed. Raises :class:`NotFound`."""

        def work(connection: Connection) -> bytes:
            self._find(connection, conversation_id)
            body = None
            if usable_id(item):
                body = connection.execute(_ITEM, {"key": conversation_id, "name": item}).scalar_one_or_none()
            if body is None:
                raise _no_item(item)
            try:
                return blobs.restore(connection, self.tenant, [bytes(body)])[0]
            except KeyError as error:
                raise _no_item(item) from error

        return listed(Raw(await self._database.read(work)), item)

    async def delete_item(self, conversation_id: str, item: str) -> StoredConversation:
        """Take one item out; the conversation is the answer. Raises :class:`NotFound`."""

        def work(connection: Connection) -> StoredConversation:
            found = self._find(connection, conversation_id, lock=True)
            gone = 0
            if usable_id(item):
                gone = connection.execute(_DELETE_ITEM, {"key": conversation_id, "name": item}).rowcount
            if gone == 0:
                raise _no_item(item)
            return found

        return await self._database.write(work)

    async def _items(self, conversation_id: str) -> list[tuple[str, Raw]]:
        def work(connection: Connection) -> tuple[list[tuple[str, bytes]], dict[bytes, bytes]]:
            self._find(connection, conversation_id)
            rows = [(row.id, bytes(row.body)) for row in connection.execute(_ITEMS, {"key": conversation_id})]
            try:
                return rows, blobs.load(connection, self.tenant, [body for _, body in rows])
            except KeyError as error:
                raise _not_found(conversation_id) from error

        rows, found = await self._database.read(work)
        bodies = blobs.put_all_back([body for _, body in rows], found)
        return [(name, Raw(body)) for (name, _), body in zip(rows, bodies, strict=True)]

    def _find(self, connection: Connection, conversation_id: str, *, lock: bool = False) -> StoredConversation:
        found = None
        if usable_id(conversation_id):
            place = {"key": conversation_id, "tenant": self.tenant}
            found = connection.execute(_FIND_LOCKED if lock else _FIND, place).first()
        if found is None:
            raise _not_found(conversation_id)
        metadata = msgspec.json.decode(bytes(found.metadata), type=dict[str, str])
        return StoredConversation(found.id, found.created_at // 1000, metadata)


def append(connection: Connection, tenant: str, conversation_id: str, items: Sequence[Raw]) -> None:
    """Add a completed turn's items; nothing where the conversation has gone.

    An item whose id the conversation has already gets a new one: a turn that is done cannot be refused for that.
    """
    if connection.execute(_FIND_LOCKED, {"key": conversation_id, "tenant": tenant}).first() is None:
        return
    start = _end(connection, conversation_id)
    names = [str(probe(item).id) for item in items]
    taken = set(connection.execute(_TAKEN, {"key": conversation_id, "names": names}).scalars())
    fresh = []
    for place, (name, item) in enumerate(zip(names, items, strict=True), start):
        if name in taken:
            name = item_id(item_prefix(probe(item).kind), conversation_id, place)
            item = Raw(edit(bytes(item), {"id": name}))
        taken.add(name)
        fresh.append(item)
    # They have left their blobs behind already: those only have one more user.
    _append(connection, tenant, conversation_id, fresh, {}, start=start)
    used = {key for item in fresh for key in blobs.references(bytes(item))}
    blobs.use(connection, tenant, used, conversation_id=conversation_id)


def _append(
    connection: Connection,
    tenant: str,
    conversation_id: str,
    items: Sequence[Raw],
    taken: dict[bytes, bytes],
    *,
    start: int,
) -> None:
    if not items:
        return
    connection.execute(
        insert(conversation_items),
        [
            {"conversation_id": conversation_id, "position": place, "id": probe(item).id, "body": bytes(item)}
            for place, item in enumerate(items, start)
        ],
    )
    blobs.save(connection, tenant, taken, conversation_id=conversation_id)


def _end(connection: Connection, conversation_id: str) -> int:
    return int(connection.execute(_LAST, {"key": conversation_id}).scalar_one()) + 1


def _named(items: Sequence[Raw], conversation_id: str, *, start: int = 0) -> list[Raw]:
    if len(items) > MOST_ITEMS:
        raise InvalidRequest(f"At most {MOST_ITEMS} items can be added at once.", param="items")
    for place, item in enumerate(items):
        if bytes(item)[:1] != b"{":
            raise InvalidRequest("An item must be an object.", param=f"items[{place}]")
        # An id is a key here, and both databases must take it.
        if (name := _id_of(item, place)) and not usable_id(name):
            raise InvalidRequest("An item's id has 1 to 200 ASCII characters.", param=f"items[{place}].id")
    return with_ids(items, f"{conversation_id}/{start}" if start else conversation_id, param="items")


def _id_of(item: Raw, place: int) -> str | None:
    try:
        return probe(item).id
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"The item is malformed: {error}", param=f"items[{place}]") from error


def _not_found(conversation_id: str) -> NotFound:
    return NotFound(f"Conversation with id '{conversation_id}' not found.", param="conversation_id")


def _no_item(item: str) -> NotFound:
    return NotFound(f"Item with id '{item}' not found.", param="item_id")


_MINE = and_(conversations.c.id == bindparam("key"), conversations.c.tenant_id == bindparam("tenant"))
_FIND = select(conversations).where(_MINE)
_FIND_LOCKED = _FIND.with_for_update()
_UPDATE = update(conversations).where(_MINE).values(metadata=bindparam("new"))
_DELETE = delete(conversations).where(_MINE)
_OF = conversation_items.c.conversation_id == bindparam("key")
_ITEMS = select(conversation_items.c.id, conversation_items.c.body).where(_OF).order_by(conversation_items.c.position)
_ITEM = select(conversation_items.c.body).where(_OF, conversation_items.c.id == bindparam("name"))
_DELETE_ITEM = delete(conversation_items).where(_OF, conversation_items.c.id == bindparam("name"))
_TAKEN = select(conversation_items.c.id).where(_OF, conversation_items.c.id.in_(bindparam("names", expanding=True)))
_LAST = select(func.coalesce(func.max(conversation_items.c.position), -1)).where(_OF)
