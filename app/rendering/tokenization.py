"""Text or messages to ids and ids to text, for the ``/tokenize`` and ``/detokenize`` endpoints."""

from collections.abc import Sequence

from msgspec import structs

from app.errors import InvalidRequest
from app.rendering.conversation import Conversation
from app.rendering.renderer import Renderer
from app.rendering.request import RenderInput, TemplateOptions

__all__ = ("detokenize", "token_strings", "tokenize_conversation", "tokenize_text")


async def tokenize_text(renderer: Renderer, text: str, *, add_special_tokens: bool = True) -> list[int]:
    """Ids of a text, control tokens in it read as such; of any length."""
    options = TemplateOptions(add_special_tokens=add_special_tokens, truncate_prompt_tokens=-1)
    return (await renderer.writer.encode(text, options)).ids


async def tokenize_conversation(
    renderer: Renderer, conversation: Conversation, options: TemplateOptions, *, long: bool = False
) -> list[int]:
    """Ids of a chat prompt, media placeholders at their full length; of any length. ``long``: it is long work."""
    options = structs.replace(options, truncate_prompt_tokens=-1)
    unbounded = RenderInput(dialect="chat", request_id="", conversation=conversation, template=options, long=long)
    return (await renderer.prompt(conversation, unbounded))[0]


def token_strings(renderer: Renderer, ids: Sequence[int]) -> list[str]:
    """The vocabulary's own spelling of each id ("Ġworld")."""
    return [renderer.tokenizer.id_to_token(token) or "" for token in ids]


def detokenize(renderer: Renderer, ids: Sequence[int]) -> str:
    """The text of ids, special tokens kept; ids outside the vocabulary give nothing."""
    if any(token < 0 for token in ids):
        raise InvalidRequest("Token ids are not negative.", param="tokens")
    return renderer.tokenizer.decode(ids, skip_special_tokens=False)
