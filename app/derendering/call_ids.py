"""A tool call's place to its id: the same id wherever and however often the call is derendered.

An id depends on the request's id, the choice's index and the call's index, and on nothing else. Ids that the model
wrote itself are kept; two families whose templates demand a form of their own get it.
"""

import hashlib
import string
from typing import Literal

from msgspec import Struct

__all__ = ("CallIds", "IdForm")

IdForm = Literal["generated", "counted", "alphanumeric9"]
"""As :class:`app.parsing.format.ToolFormat` says: the dialect's own, ``functions.NAME:N``, nine letters or digits."""

ALPHANUMERIC = string.ascii_letters + string.digits


class CallIds(Struct, frozen=True):
    """How one request's calls are named.

    ``prefix`` and ``digits`` (hexadecimal) make the generated form; ``history_calls`` counts the calls of the
    conversation so far, from which counted ids go on.
    """

    request_id: str
    form: IdForm = "generated"
    prefix: str = "chatcmpl-tool-"
    digits: int = 16
    history_calls: int = 0

    def of(self, choice: int, call: int, name: str, native: str | None = None) -> str:
        """The id of call number ``call`` (from 0) of a choice."""
        if native:
            return native
        if self.form == "counted":
            return f"functions.{name}:{self.history_calls + call}"
        digest = hashlib.blake2b(f"{self.request_id}\0{choice}\0{call}".encode("utf-8", "surrogatepass")).digest()
        if self.form == "alphanumeric9":
            number = int.from_bytes(digest[:8], "big")
            return "".join(ALPHANUMERIC[number // 62**i % 62] for i in range(9))
        return self.prefix + digest.hex()[: self.digits]
