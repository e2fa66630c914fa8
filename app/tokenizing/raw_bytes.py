"""A vocabulary entry to the raw bytes that it stands for.

Three ways of writing bytes as vocabulary entries are known: GPT-2's byte-level alphabet (each byte is one printable
character: ``encoder.py`` of openai/gpt-2), SentencePiece's byte fallback (``<0xNN>``) and its ``▁`` for a space.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ("byte_alphabet", "reader_of")

_BYTE_FALLBACK = re.compile("<0x([0-9A-Fa-f]{2})>")


def byte_alphabet() -> dict[str, int]:
    """The byte-level alphabet: character to byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_ALPHABET = byte_alphabet()


def _parts(decoder: Any) -> Iterator[dict[str, Any]]:
    if isinstance(decoder, dict):
        if decoder.get("type") == "Sequence":
            for part in decoder.get("decoders") or ():
                yield from _parts(part)
        else:
            yield decoder


def _byte_level(token: str) -> bytes:
    try:
        return bytes([_ALPHABET[character] for character in token])
    except KeyError:
        return token.encode()


def reader_of(decoder: Any) -> Callable[[str], bytes]:
    """What reads one vocabulary entry, for the ``decoder`` section of a tokenizer file."""
    parts = list(_parts(decoder))
    if any(part.get("type") == "ByteLevel" for part in parts):
        return _byte_level
    replaced: list[tuple[str, str]] = []
    fallback = False
    for part in parts:
        match part:
            case {"type": "Replace", "pattern": {"String": str(pattern)}, "content": str(content)}:
                replaced.append((pattern, content))
            case {"type": "Metaspace"}:
                replaced.append((part.get("replacement") or "▁", " "))
            case {"type": "WordPiece", "prefix": str(prefix)}:
                replaced.append((prefix, ""))
            case {"type": "BPEDecoder", "suffix": str(suffix)}:
                replaced.append((suffix, " "))
            case {"type": "ByteFallback"}:
                fallback = True
            case _:
                pass

    def read(token: str) -> bytes:
        if fallback and (byte := _BYTE_FALLBACK.fullmatch(token)):
            return bytes([int(byte[1], 16)])
        for pattern, content in replaced:
            token = token.replace(pattern, content)
        return token.encode()

    return read
