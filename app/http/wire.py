"""A rendered reply to the bytes of the wire that the client asked for: JSON, or msgpack with raw tensors.

A text reply is one encoding. One with tensors is cut into pieces that are sent one after another, so that no single
step of the event loop copies or encodes megabytes; base64 is made in a thread.
"""

import asyncio

from app.http.codec import MSGPACK, MSGPACK_TYPES, encode
from app.http.exchange import Exchange
from app.multimodal.encoded import json_body, msgpack_body
from app.multimodal.splice import Body
from app.protocol.generate import GenerateRequest

__all__ = ("Body", "wants_msgpack", "written")


def wants_msgpack(accept: bytes) -> bool:
    """Whether an ``Accept`` header prefers msgpack to JSON, by weight and then by order."""
    if b"msgpack" not in accept.lower():
        return False
    weights = {True: 0.0, False: 0.0}
    for entry in accept.split(b","):
        kind, *parameters = [part.strip().lower() for part in entry.split(b";")]
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith(b"q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        packed = kind in MSGPACK_TYPES
        if (packed or kind == b"application/json") and weight > weights[packed]:
            # Of equal weights the one named first wins: the later one is made to count a hair less.
            weights[packed] = weight - 1e-6 if weights[not packed] >= weight else weight
    return weights[True] > weights[False]


async def written(value: GenerateRequest | list[GenerateRequest], exchange: Exchange) -> bytes | Body:
    """A reply as the client asked for it; ``exchange.media_type`` says what it has become."""
    packed = bool(exchange.accept) and wants_msgpack(exchange.accept)
    if not packed and (isinstance(value, list) or value.features is None or value.features.kwargs_data is None):
        return encode(value)
    if not packed:
        return await asyncio.to_thread(json_body, value)
    exchange.media_type = MSGPACK
    return msgpack_body(value)
