"""Token ids that a request brings as its prompt, checked against the vocabulary."""

from array import array
from collections.abc import Sequence
from typing import Any

from app.dialects.model import DialectModel
from app.errors import InvalidRequest
from app.rendering.conversation import Conversation, Text

__all__ = ("check_token_ids", "reused_prompt")


def check_token_ids(ids: Sequence[Any], model: DialectModel, *, param: str) -> list[int]:
    """The ids, if each is an integer in ``[0, vocab_size)`` and there is at least one."""
    if not ids:
        raise InvalidRequest("A prompt of token ids needs at least one id.", param=param)
    size = model.vocab_size
    try:
        whole = array("I", ids)  # in C, as a prompt can have 100,000 ids; refuses what is no integer from 0
    except (TypeError, OverflowError):
        whole = None
    if whole is not None and max(ids) < size:
        return whole.tolist()
    for position, token in enumerate(ids):
        if type(token) is not int or not 0 <= token < size:
            raise InvalidRequest(
                f"Token ids of '{model.name}' are integers from 0 to {size - 1}.",
                param=f"{param}[{position}]",
            )
    return list(ids)


def reused_prompt(ids: Any, conversation: Conversation, model: DialectModel) -> list[int] | None:
    """``kv_transfer_params.prompt_token_ids``: what the prefill stage rendered, used instead of rendering again.

    Ignored where the conversation has media, whose placeholders the ids alone do not tell.
    """
    if ids is None:
        return None
    param = "kv_transfer_params.prompt_token_ids"
    if not isinstance(ids, list):
        raise InvalidRequest("A prompt of token ids is a list of integers.", param=param)
    checked = check_token_ids(ids, model, param=param)
    for message in conversation.messages:
        if isinstance(message.content, list) and not all(isinstance(part, Text) for part in message.content):
            return None
    return checked
