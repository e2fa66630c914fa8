"""``data:`` URLs to bytes (RFC 2397, in all the spellings that clients send)."""

import binascii
import re
from urllib.parse import unquote_to_bytes

import pybase64

from app.errors import BadMedia, InvalidRequest

__all__ = ("decode", "decode_base64", "is_data_url", "split")

_BASE64_ALPHABET = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_WHITESPACE = str.maketrans("", "", " \t\r\n\f\v")


def is_data_url(url: str) -> bool:
    """Whether this is a data URL; the scheme may be in upper case."""
    return url[:5].lower() == "data:"


def split(url: str, *, param: str) -> tuple[str, str]:
    """A data URL's media type (lower case, without parameters) and its base64 payload text.

    Parameters such as ``charset`` may stand before ``;base64``, in any case; a percent-encoded payload is unquoted.

    Raises:
        InvalidRequest: there is no comma, or the payload is not declared base64 (binary media has no other form).
    """
    comma = url.find(",")
    if comma < 0:
        raise InvalidRequest("This data URL has no comma between its type and its data.", param=param)
    media_type, *attributes = [part.strip().lower() for part in url[5:comma].split(";")]
    if "base64" not in attributes:
        raise InvalidRequest("A data URL for media must be base64: `data:image/png;base64,…`.", param=param)
    payload = url[comma + 1 :]
    if "%" in payload:
        payload = unquote_to_bytes(payload).decode("ascii", "replace")
    return media_type, payload


def decode(url: str, *, max_bytes: int, param: str) -> bytes:
    """The bytes of a data URL.

    Raises:
        InvalidRequest: the URL is malformed.
        BadMedia: there are more than ``max_bytes`` of them (checked before decoding).
    """
    return decode_base64(split(url, param=param)[1], max_bytes=max_bytes, param=param)


def decode_base64(text: str, *, max_bytes: int, param: str) -> bytes:
    """Bytes of base64 text in the standard or URL-safe alphabet; white space and missing padding are allowed.

    Raises:
        InvalidRequest: it is no base64, or nothing.
        BadMedia: there are more than ``max_bytes`` bytes.
    """
    if _size(text) > max_bytes:
        text = text.translate(_WHITESPACE)
        if _size(text) > max_bytes:
            raise BadMedia(f"This item is larger than {max_bytes} bytes.", param=param)
    try:
        return _nonempty(pybase64.b64decode(text, validate=True), param)
    except (binascii.Error, ValueError):
        pass
    text = text.translate(_WHITESPACE).replace("-", "+").replace("_", "/")
    body = text.rstrip("=")
    if not _BASE64_ALPHABET.fullmatch(text) or len(body) % 4 == 1:
        raise InvalidRequest("The data of this URL is not base64.", param=param)
    try:
        return _nonempty(pybase64.b64decode(body + "=" * (-len(body) % 4)), param)
    except (binascii.Error, ValueError):
        raise InvalidRequest("The data of this URL is not base64.", param=param) from None


def _size(text: str) -> int:
    """Bytes that base64 text without white space stands for."""
    return (len(text) - text[-2:].count("=")) * 3 // 4


def _nonempty(data: bytes, param: str) -> bytes:
    if not data:
        raise InvalidRequest("This data URL holds no data.", param=param)
    return data
