"""A served model without files: what tests of generation need of one."""

from pathlib import Path
from typing import Any

import msgspec

from app.models import ServedModel
from app.protocol.generate import GenerateRequest
from app.settings import ModelSettings


class ByteTokenizer:
    """256 tokens, one a byte, and three specials: 256 <eos>, 257 <bos>, 258 </think>."""

    vocab_size = 259
    added_tokens: dict[int, Any] = {}
    special_ids = frozenset({256, 257})
    bos_token, eos_token, eos_token_id = "<bos>", "<eos>", 256
    names = {256: "<eos>", 257: "<bos>", 258: "</think>"}

    def encode(self, text: str, **_: Any) -> Any:
        from app.tokenizing.tokenizer import Encoded

        return Encoded(list(text.encode()))

    def decode(self, ids: Any, *, skip_special_tokens: bool = False) -> str:
        kept = [i for i in ids if not (skip_special_tokens and i in self.special_ids)]
        return b"".join([self.token_bytes(i) for i in kept]).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        if 0 <= token_id < 256:
            return bytes([token_id])
        return self.names.get(token_id, "").encode()

    def token_to_id(self, token: str) -> int | None:
        return next((i for i, name in self.names.items() if name == token), None)

    def id_to_token(self, token_id: int) -> str | None:
        return self.names.get(token_id, chr(token_id) if token_id < 256 else None)


def served(engine: Any, *, max_model_len: int = 256, **more: Any) -> ServedModel:
    fields: dict[str, Any] = {
        "name": "tiny",
        "aliases": [],
        "settings": ModelSettings(name="tiny", source="none"),
        "source": Path("none"),
        "config": {},
        "tokenizer": ByteTokenizer(),
        "engine": engine,
        "max_model_len": max_model_len,
        "generation_defaults": {},
        "eos_token_ids": (256,),
        "created": 1,
    }
    return ServedModel(**(fields | more))


def request(token_ids: Any = (1, 2, 3), *, sampling: dict[str, Any] | None = None, **fields: Any) -> GenerateRequest:
    body = {"request_id": "r", "token_ids": list(token_ids), "sampling_params": sampling or {}, **fields}
    return msgspec.convert(body, GenerateRequest)
