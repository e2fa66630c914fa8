"""What a conversation is without its items, and what one may hold."""

from typing import Literal

from msgspec import Struct

from app.errors import InvalidRequest

__all__ = ("MOST_ITEMS", "StoredConversation", "check_metadata")

MOST_ITEMS = 20
"""Items in one create or append call, as OpenAI limits them."""


class StoredConversation(Struct, frozen=True):
    """A conversation; ``created_at`` in Unix seconds, as the API has it."""

    id: str
    created_at: int
    metadata: dict[str, str]
    object: Literal["conversation"] = "conversation"


def check_metadata(metadata: dict[str, str], *, param: str = "metadata") -> dict[str, str]:
    """Refuse what OpenAI refuses: more than 16 pairs, keys over 64 or values over 512 characters."""
    if len(metadata) > 16:
        raise InvalidRequest("Metadata has at most 16 pairs.", param=param)
    for key, value in metadata.items():
        if len(key) > 64 or len(value) > 512:
            raise InvalidRequest("A metadata key has at most 64 characters, a value at most 512.", param=param)
    return metadata
