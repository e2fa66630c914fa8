"""Responses items as JSON bytes: give them ids, name their type, list them in pages. Their content is never read.

An item may lack its ``type`` (a message, or a reference by id), so a list is decoded as raw objects and probed.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from app.errors import InvalidRequest
from app.protocol.ids import item_id, item_prefix

__all__ = (
    "Page",
    "Probe",
    "as_list",
    "check_limit",
    "edit",
    "join",
    "listed",
    "listing",
    "page",
    "probe",
    "split",
    "with_ids",
)


class Probe(Struct, frozen=True):
    """The few keys that tell items apart; ``id`` and ``type`` None where they are absent."""

    id: str | None = None
    type: str | None = None
    role: str | None = None
    call_id: str | None = None

    @property
    def kind(self) -> str:
        """The item's type, where it may be left out: a message has a role, a reference only an id."""
        if self.type is not None:
            return self.type
        return "item_reference" if self.role is None and self.id is not None else "message"


class Page(Struct, frozen=True):
    """One page of a list, as the API answers it."""

    data: list[Raw]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: Literal["list"] = "list"


_items = msgspec.json.Decoder(list[Raw])
_probe = msgspec.json.Decoder(Probe)
_fields = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


def split(array: bytes) -> list[Raw]:
    """A JSON array's elements, each as written."""
    return _items.decode(array)


def join(items: Sequence[Raw | bytes]) -> bytes:
    """Elements as one JSON array, each as written."""
    return b"[" + b",".join([bytes(item) for item in items]) + b"]"


def probe(item: Raw | bytes) -> Probe:
    """What an item is. Raises :class:`msgspec.ValidationError` where one of the keys has a wrong type."""
    return _probe.decode(item)


def as_list(value: Raw | bytes) -> list[Raw]:
    """A request's ``input`` as items: a string is one user message.

    Raises:
        InvalidRequest: neither a string nor a list of objects.
    """
    given = bytes(value).lstrip()
    if given[:1] == b'"':
        return [Raw(b'{"type":"message","role":"user","content":' + given.rstrip() + b"}")]
    try:
        items = split(given)
    except msgspec.MsgspecError as error:
        raise InvalidRequest("The input must be a string or a list of items.", param="input") from error
    for index, item in enumerate(items):
        if bytes(item)[:1] != b"{":
            raise InvalidRequest("An item must be an object.", param=f"input[{index}]")
    return items


def with_ids(items: Sequence[Raw], owner: str, *, param: str = "input") -> list[Raw]:
    """Give every item a type and an id; one that has an id keeps it, unless an earlier item has the same.

    Args:
        items: as a caller sent them.
        owner: the response or conversation that they belong to; new ids are derived from it.
        param: the request field, for errors.
    """
    seen: set[str] = set()
    named = []
    for index, item in enumerate(items):
        try:
            found = probe(item)
        except msgspec.MsgspecError as error:
            raise InvalidRequest(f"The item is malformed: {error}", param=f"{param}[{index}]") from error
        name = found.id
        if not name or name in seen:
            name = item_id(item_prefix(found.kind), owner, index, side="input")
        seen.add(name)
        if name == found.id and found.type is not None:
            named.append(item)
            continue
        fields = _fields.decode(item)
        fields["id"] = Raw(_encode(name))
        fields["type"] = Raw(_encode(found.kind))
        named.append(Raw(_encode(fields)))
    return named


def listed(item: Raw, name: str) -> Raw:
    """An item as a listing shows it: message content as parts, a status, and the id that it is listed under."""
    found = probe(item)
    if found.kind != "message" and found.id == name:
        return item
    fields = _fields.decode(item)
    fields["id"] = Raw(_encode(name))
    if found.kind == "message":
        fields.setdefault("status", Raw(b'"completed"'))
        content = bytes(fields.get("content", b"[]"))
        if content[:1] == b'"':
            kind = b'"output_text","annotations":[]' if found.role == "assistant" else b'"input_text"'
            fields["content"] = Raw(b'[{"type":' + kind + b',"text":' + content + b"}]")
    return Raw(_encode(fields))


def listing(items: Sequence[Raw], owner: str) -> list[tuple[str, Raw]]:
    """Items under ids that are unique in the list (a client may have sent an earlier item again): else paging loops."""
    seen: set[str] = set()
    result = []
    for index, item in enumerate(items):
        found = probe(item)
        name = found.id or ""
        if not name or name in seen:
            name = item_id(item_prefix(found.kind), owner, index, side="listing")
        seen.add(name)
        result.append((name, item))
    return result


def page(items: Sequence[tuple[str, Raw]], *, after: str | None, limit: int, order: Literal["asc", "desc"]) -> Page:
    """The page of a list (oldest first) that follows the item ``after``.

    Raises:
        InvalidRequest: ``limit`` is not 1 to 100, or ``after`` is in no page.
    """
    check_limit(limit)
    ordered = list(items) if order == "asc" else list(reversed(items))
    start = 0
    if after is not None:
        start = next((place for place, (name, _) in enumerate(ordered, 1) if name == after), -1)
        if start < 0:
            raise InvalidRequest(f"Item with id '{after}' not found.", param="after")
    shown = ordered[start : start + limit]
    return Page(
        data=[listed(item, name) for name, item in shown],
        first_id=shown[0][0] if shown else None,
        last_id=shown[-1][0] if shown else None,
        has_more=start + limit < len(ordered),
    )


def check_limit(limit: int) -> None:
    """Refuse a page size that is not 1 to 100."""
    if not 1 <= limit <= 100:
        raise InvalidRequest("The limit must be 1 to 100.", param="limit")


def edit(body: bytes, changes: Mapping[str, object] | None = None, *, drop: Sequence[str] = ()) -> bytes:
    """A JSON object with some keys set and some dropped; the others stay byte for byte."""
    fields = _fields.decode(body)
    for key in drop:
        fields.pop(key, None)
    for key, value in (changes or {}).items():
        fields[key] = value if isinstance(value, Raw) else Raw(_encode(value))
    return _encode(fields)
