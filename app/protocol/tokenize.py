"""The bodies of ``/tokenize`` and ``/detokenize``, and their answers."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from app.protocol.chat import ChatMessage, ChatTool

__all__ = (
    "DETOKENIZE_EXAMPLE",
    "TOKENIZE_EXAMPLE",
    "DetokenizeReply",
    "DetokenizeRequest",
    "TokenCount",
    "TokenizeReply",
    "TokenizeRequest",
)


class TokenizeRequest(Struct, frozen=True, kw_only=True):
    """Text (``prompt``) or a conversation (``messages``) to be counted and tokenised; one of the two."""

    prompt: Annotated[str | UnsetType, Meta(description="Text, taken as it is.")] = UNSET
    messages: Annotated[list[ChatMessage] | UnsetType, Meta(description="A conversation for the chat template.")] = (
        UNSET
    )
    model: Annotated[str | None, Meta(description="A served model's name; unset: the first one.")] = None
    add_special_tokens: Annotated[
        bool | None, Meta(description="The tokenizer's own BOS and the like; unset: true for text, false for chat.")
    ] = None
    return_token_strs: Annotated[bool | None, Meta(description="The vocabulary's entries beside the ids.")] = False
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    media_io_kwargs: dict[str, dict[str, Any]] | None = None
    mm_processor_kwargs: dict[str, Any] | None = None
    tools: list[ChatTool] | None = None


class TokenizeReply(Struct, kw_only=True):
    """``tokens`` are ids, ``token_strs`` the vocabulary's entries as the tokenizer file spells them."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(Struct, frozen=True, kw_only=True):
    """Ids to be written as text; ids outside the vocabulary give nothing."""

    tokens: list[Annotated[int, Meta(ge=0, le=2**63 - 1)]]
    model: Annotated[str | None, Meta(description="A served model's name; unset: the first one.")] = None


class DetokenizeReply(Struct, kw_only=True):
    """The text, special tokens kept."""

    prompt: str


class TokenCount(Struct, kw_only=True):
    """The answer of ``/v1/messages/count_tokens``, in tokens of the prompt."""

    input_tokens: int


TOKENIZE_EXAMPLE: dict[str, Any] = {"model": "demo", "prompt": "What is the capital of France?"}
DETOKENIZE_EXAMPLE: dict[str, Any] = {"model": "demo", "tokens": [1, 2, 3]}
