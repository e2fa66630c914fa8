"""The seam between rendering and multimodal processing: what the renderer asks for, and what it gets back."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from app.protocol.generate import Features
from app.rendering.conversation import Conversation, Media
from app.rendering.request import TemplateOptions
from app.tokenizing.tokenizer import Encoded

__all__ = ("MediaEncoder", "MediaPrompt", "media_of")


class MediaPrompt(Struct, frozen=True):
    """A prompt whose placeholders have their full length; offsets where the encoded prompt had them.

    ``growth`` is by how many tokens each item has made the prompt longer, in the order of the items.
    """

    ids: list[int]
    offsets: list[tuple[int, int]] | None
    features: Features
    growth: tuple[int, ...] = ()


class MediaEncoder(Protocol):
    """A served model's way with images and videos."""

    def placeholder(self, media: Media) -> str:
        """What is written for an item where the template takes plain strings; raises for an unknown modality."""

    async def expand(self, media: Sequence[Media], prompt: Encoded, options: TemplateOptions) -> MediaPrompt:
        """Fetch, hash and process the items, in prompt order, and put their placeholders into the prompt.

        Raises:
            BadMedia: an item could not be fetched or was refused.
            InvalidRequest: too many items, or the prompt's placeholders are not those of the items.
        """


def media_of(conversation: Conversation) -> list[Media]:
    """The media of a conversation, in order."""
    return [
        part
        for message in conversation.messages
        if isinstance(message.content, list)
        for part in message.content
        if isinstance(part, Media)
    ]
