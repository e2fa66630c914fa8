"""A prompt to the chained hashes of its leading blocks: equal hashes, equal prefixes."""

from array import array
from hashlib import blake2b

from app.protocol.generate import GenerateRequest

__all__ = ("prompt_blocks",)

LONGEST = 512
"""Blocks that are told apart; what follows changes nothing in the choice of a worker."""


def prompt_blocks(request: GenerateRequest, block_tokens: int) -> list[int]:
    """One 64-bit hash a whole block, each over all before it; a short prompt has one over what there is.

    The cache salt opens the chain. A media item is a part of the block in which its placeholder begins, since items
    of one size have equal ids.
    """
    ids = array("q", request.token_ids)
    items: dict[int, list[str]] = {}
    if request.features is not None:
        for modality, places in request.features.mm_placeholders.items():
            for place, name in zip(places, request.features.mm_hashes.get(modality, ()), strict=False):
                items.setdefault(place.offset // block_tokens, []).append(f"{place.offset}:{name}")
    state = (request.cache_salt or "").encode("utf-8", "surrogatepass")
    hashes = []
    count = max(1, len(ids) // block_tokens)
    for number in range(min(count, LONGEST)):
        digest = blake2b(state, digest_size=8)
        digest.update(ids[number * block_tokens : (number + 1) * block_tokens].tobytes())
        for item in sorted(items.get(number, ())):
            digest.update(item.encode())
        state = digest.digest()
        hashes.append(int.from_bytes(state))
    return hashes
