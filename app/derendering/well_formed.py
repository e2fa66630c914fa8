"""Text that a model wrote in escapes to text that UTF-8 can carry: half a surrogate pair becomes U+FFFD."""

from typing import Any

__all__ = ("well_formed", "well_formed_value")


def well_formed(text: str) -> str:
    """The text, lone surrogates replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_value(value: Any) -> Any:
    """A JSON value whose texts are :func:`well_formed`, keys too."""
    match value:
        case str():
            return well_formed(value)
        case list():
            return [well_formed_value(one) for one in value]
        case dict():
            return {well_formed(key): well_formed_value(one) for key, one in value.items()}
    return value
