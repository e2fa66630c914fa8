"""Text of ours that a caller carries for us, sealed: authentic, the tenant's own, and opaque where it can be.

With the package ``cryptography`` installed it is encrypted (AES-256-GCM); without, it is signed only (HMAC-SHA256):
nobody can forge it, but its holder can read it. A token starts with the id of its key, so that keys can be rotated.
"""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec

from app.errors import InvalidRequest

__all__ = ("Seal",)

_SIGNED, _ENCRYPTED = b"\x01", b"\x02"


class Seal:
    """Seals with the first of its keys and opens with any.

    Args:
        keys: secrets, the newest first; the same on all replicas.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys:
            raise ValueError("a seal needs a key")
        self._keys = {self._id(key): sha256(b"isthmus seal " + key.encode()).digest() for key in keys}
        self._newest = self._id(keys[0])
        self.encrypts = find_spec("cryptography") is not None

    @staticmethod
    def _id(key: str) -> bytes:
        return sha256(b"isthmus key id " + key.encode()).digest()[:4]

    def seal(self, text: str, *, tenant: str) -> str:
        """A token that only this tenant can have opened."""
        key, bound = self._keys[self._newest], tenant.encode()
        if not self.encrypts:
            data = text.encode()
            tag = hmac.digest(key, _SIGNED + bound + b"\0" + data, "sha256")
            return urlsafe_b64encode(_SIGNED + self._newest + tag + data).decode()
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(12)
        sealed = AESGCM(key).encrypt(nonce, text.encode(), _ENCRYPTED + bound)
        return urlsafe_b64encode(_ENCRYPTED + self._newest + nonce + sealed).decode()

    def open(self, token: str, *, tenant: str, param: str) -> str:
        """The text of a token. Raises :class:`InvalidRequest` where it is not ours, or not this tenant's."""
        try:
            raw = urlsafe_b64decode(token.encode())
            kind, key, rest = raw[:1], self._keys[raw[1:5]], raw[5:]
            if kind == _SIGNED:
                tag, data = rest[:32], rest[32:]
                if hmac.compare_digest(tag, hmac.digest(key, _SIGNED + tenant.encode() + b"\0" + data, "sha256")):
                    return data.decode()
            elif kind == _ENCRYPTED and self.encrypts:
                from cryptography.exceptions import InvalidTag
                from cryptography.hazmat.primitives.ciphers.aead import AESGCM

                try:
                    return AESGCM(key).decrypt(rest[:12], rest[12:], _ENCRYPTED + tenant.encode()).decode()
                except InvalidTag:
                    pass
        except (ValueError, KeyError):
            pass
        raise InvalidRequest("The encrypted content could not be verified.", param=param)
