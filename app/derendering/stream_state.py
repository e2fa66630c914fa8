"""The state of a derendered stream to a signed text that its client carries from chunk to chunk, and back.

Any replica with the same key goes on with any stream (law 7). The signature also covers what the state belongs to,
the dialect and the served model, so a state of another kind of stream is refused like a forged one.
"""

import base64
import binascii
import hmac
from typing import Any

import msgspec
from msgspec import Struct

from app.derendering.choice_state import ChoiceState
from app.errors import InvalidState

__all__ = ("StateSeal", "StreamState")

VERSION = 1
SIGNATURE_BYTES = 16


class StreamState(Struct, array_like=True, kw_only=True):
    """All that a stream's next chunk needs.

    ``created`` (Unix seconds) is the same in every chunk. ``initial`` is the packed state before the first token, for
    choices that have not begun; ``choices`` the packed states of those that have, by index. ``history_calls`` counts
    the conversation's calls, ``prompt_tokens`` the prompt's ids that came. ``writer`` is the state of a dialect's
    event writer.
    """

    request_id: str
    created: int
    initial: ChoiceState
    choices: dict[int, ChoiceState] = {}
    history_calls: int = 0
    prompt_tokens: int = 0
    writer: Any = None


class StateSeal:
    """Signs and checks stream states with one key.

    Args:
        key: the server's ``state_key``, the same on all replicas.
    """

    def __init__(self, key: str | bytes) -> None:
        self._key = key.encode() if isinstance(key, str) else key
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(StreamState)

    def seal(self, state: StreamState, *, dialect: str, model: str) -> str:
        """URL-safe base64 of version, signature and msgpack."""
        payload = self._encoder.encode(state)
        return base64.urlsafe_b64encode(bytes([VERSION]) + self._sign(payload, dialect, model) + payload).decode()

    def open(self, text: str, *, dialect: str, model: str, request_id: str = "") -> StreamState:
        """The state; refuses any that this key did not seal for this dialect, model and (where given) request id."""
        try:
            raw = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error) as error:
            raise InvalidState("`stream_state` is no state of this server.", param="stream_state") from error
        signature, payload = raw[1 : 1 + SIGNATURE_BYTES], raw[1 + SIGNATURE_BYTES :]
        if raw[:1] != bytes([VERSION]):
            raise InvalidState("`stream_state` is of another version of this server.", param="stream_state")
        if not hmac.compare_digest(signature, self._sign(payload, dialect, model)):
            raise InvalidState(
                "`stream_state` was not made by this server for this endpoint and model, or was changed.",
                param="stream_state",
            )
        try:
            state = self._decoder.decode(payload)
        except msgspec.MsgspecError as error:
            raise InvalidState("`stream_state` is of another version of this server.", param="stream_state") from error
        if request_id and state.request_id != request_id:
            raise InvalidState("`stream_state` belongs to another request.", param="stream_state")
        return state

    def _sign(self, payload: bytes, dialect: str, model: str) -> bytes:
        context = f"{dialect}\0{model}\0".encode()
        return hmac.digest(self._key, context + payload, "sha256")[:SIGNATURE_BYTES]
