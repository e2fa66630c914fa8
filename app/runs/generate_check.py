"""A generate body to a request that an engine can take: checked, its id and its ``max_tokens`` filled in.

The rules are those of vLLM's ``/inference/v1/generate`` (wire protocol, sections 10.1 and 10.2).
"""

import re
import secrets
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from app.engines.admit import admit
from app.errors import InvalidRequest, NotFound, Unsupported
from app.models import ServedModel
from app.multimodal.encoded import EncodedItem
from app.protocol.generate import Features, GenerateRequest, ParseContext, SamplingParams
from app.rendering.limits import MAX_CACHE_SALT
from app.rendering.request import SamplingRequest
from app.rendering.sampling_checks import check_sampling

__all__ = ("ID_PREFIX", "accept", "check_features", "check_parse_context")

ID_PREFIX = "generate-tokens-"
_UNSAFE = re.compile(r"[@/\\\0]")


class _Context(Struct):
    output_mode: Any = None
    parse_context: Any = None


def check_parse_context(body: bytes) -> None:
    """Refuse a body whose ``parse_context`` has fields unknown here, if they would be needed.

    A newer render server may know of things that change the reply; in output mode "derender" they can't be ignored.
    (Ask for a request of that mode only: bodies may have megabytes of tensors.)
    """
    # A msgpack body is a map of at most 65535 keys; JSON begins with a brace.
    decoder = msgspec.msgpack if body[:1] >= b"\x80" else msgspec.json
    found = decoder.decode(body, type=_Context)
    if found.output_mode == "derender" and isinstance(found.parse_context, dict):
        unknown = sorted(found.parse_context.keys() - set(ParseContext.__struct_fields__))
        if unknown:
            raise InvalidRequest(f"parse_context has unknown fields: {', '.join(unknown)}.", param="parse_context")


def accept(request: GenerateRequest, model: ServedModel, *, header_id: str | None = None) -> GenerateRequest:
    """Check ``request`` against the model and its engine; answers it as the engine gets it.

    Args:
        request: as posted.
        model: the one that its ``model`` names.
        header_id: the request's ``X-Request-Id``, which comes before the body's ``request_id``.

    Raises:
        NotFound: the model has no engine.
        InvalidRequest: a field is wrong; ``param`` names it.
        Unsupported: the engine can't do what is asked.
    """
    if model.engine is None:
        raise NotFound(f"The model `{model.name}` has no engine here: it renders and derenders only.", param="model")
    _check_tokens(request, model)
    _check_salt(request.cache_salt)
    if request.features is not None:
        if request.content_parts:
            raise InvalidRequest("`content_parts` and `features` exclude each other.", param="content_parts")
        check_features(request.features, len(request.token_ids), has_transfer=bool(request.ec_transfer_params))
    if not -(2**63) <= request.priority < 2**63:
        raise InvalidRequest("`priority` is a 64-bit integer.", param="priority")
    params = _check_sampling(request, model)
    _check_mode(request, params, model)
    accepted = replace(
        request,
        request_id=ID_PREFIX + (header_id or request.request_id or secrets.token_hex(8)),
        sampling_params=params,
    )
    admit(accepted, model.engine)
    return accepted


def _check_tokens(request: GenerateRequest, model: ServedModel) -> None:
    ids = request.token_ids
    if not ids:
        raise InvalidRequest("`token_ids` is empty; a prompt has a token at least.", param="token_ids")
    if min(ids) < 0:
        raise InvalidRequest("`token_ids` has a negative id.", param="token_ids")
    if max(ids) >= model.vocab_size:
        raise InvalidRequest(
            f"Token id {max(ids)} is outside the vocabulary of {model.vocab_size} ids.", param="token_ids"
        )
    if len(ids) >= model.max_model_len:
        raise InvalidRequest(
            f"The prompt has {len(ids)} tokens; with a context of {model.max_model_len} there is no room for output.",
            param="token_ids",
        )


def _check_salt(salt: str | None) -> None:
    if salt is None:
        return
    if not salt:
        raise InvalidRequest("`cache_salt` is empty; leave it out or give it a value.", param="cache_salt")
    if len(salt) > MAX_CACHE_SALT or _UNSAFE.search(salt):
        raise InvalidRequest(
            f"`cache_salt` takes at most {MAX_CACHE_SALT} characters, none of them @, /, \\ or NUL.", param="cache_salt"
        )


def check_features(features: Features, prompt_length: int, *, has_transfer: bool) -> None:
    """Refuse features whose lists don't fit each other or the prompt.

    Args:
        features: per modality, every list in the same item order.
        prompt_length: tokens.
        has_transfer: whether ``ec_transfer_params`` are there, without which an item can't be metadata alone.
    """
    hashes = features.mm_hashes
    lists: dict[str, dict[str, Any] | None] = {
        "mm_placeholders": dict(features.mm_placeholders),
        "kwargs_data": None if features.kwargs_data is None else dict(features.kwargs_data),
        "mm_metadata": None if features.mm_metadata is None else dict(features.mm_metadata),
    }
    for name, by_modality in lists.items():
        if by_modality is None:
            continue
        if by_modality.keys() != hashes.keys():
            raise InvalidRequest(f"`{name}` and `mm_hashes` have different modalities.", param=f"features.{name}")
        for modality, items in by_modality.items():
            if len(items) != len(hashes[modality]):
                raise InvalidRequest(
                    f"`{name}` has {len(items)} {modality} items, `mm_hashes` has {len(hashes[modality])}.",
                    param=f"features.{name}.{modality}",
                )
        if name != "mm_placeholders":
            _check_items(by_modality, name)
    _check_placeholders(features, prompt_length)
    if features.mm_metadata is None or has_transfer:
        return
    for modality, metadata in features.mm_metadata.items():
        tensors = features.kwargs_data[modality] if features.kwargs_data is not None else [None] * len(metadata)
        for place, (item, tensor) in enumerate(zip(metadata, tensors, strict=True)):
            if item is not None and tensor is None:
                raise InvalidRequest(
                    "An item with metadata alone needs `ec_transfer_params` to load its embeddings by.",
                    param=f"features.mm_metadata.{modality}[{place}]",
                )


def _check_items(by_modality: Mapping[str, list[Any]], name: str) -> None:
    for modality, items in by_modality.items():
        for place, item in enumerate(items):
            if not isinstance(item, str | bytes | EncodedItem | None):
                raise InvalidRequest(
                    "An item is base64 text (bytes in a msgpack body) or null.",
                    param=f"features.{name}.{modality}[{place}]",
                )


def _check_placeholders(features: Features, prompt_length: int) -> None:
    ranges = []
    for modality, items in features.mm_placeholders.items():
        for place, item in enumerate(items):
            param = f"features.mm_placeholders.{modality}[{place}]"
            if item.offset < 0 or item.length < 1:
                raise InvalidRequest("A placeholder starts at 0 or later and holds a token at least.", param=param)
            if item.offset + item.length > prompt_length:
                raise InvalidRequest(f"The placeholder ends after the prompt's {prompt_length} tokens.", param=param)
            ranges.append((item.offset, item.offset + item.length, param))
    ranges.sort()
    for (_, end, _), (start, _, param) in pairwise(ranges):
        if start < end:
            raise InvalidRequest("Two placeholders overlap.", param=param)


def _check_sampling(request: GenerateRequest, model: ServedModel) -> SamplingParams:
    """Check the ranges; answers the parameters with ``max_tokens`` filled in where it was not given."""
    params = request.sampling_params
    names = set(params.__struct_fields__) & set(SamplingRequest.__struct_fields__)
    given = {name: value for name in names if (value := getattr(params, name)) is not UNSET and value is not None}
    # The engine takes any temperature; only the public APIs end at 2.
    given["temperature"] = min(params.temperature, 2.0)
    check_sampling(SamplingRequest(**given), {}, model.max_model_len)
    room = model.max_model_len - len(request.token_ids)
    if params.max_tokens is UNSET or params.max_tokens is None:
        default = model.generation_defaults.get("max_new_tokens")
        params = replace(params, max_tokens=min(room, default) if isinstance(default, int) else room)
    return params


def _check_mode(request: GenerateRequest, params: SamplingParams, model: ServedModel) -> None:
    mode = request.output_mode
    if params.detokenize is False:
        if mode != "tokens":
            raise InvalidRequest(f"Output mode {mode!r} needs `detokenize`.", param="output_mode")
        if params.stop:
            raise InvalidRequest("Stop strings need `detokenize`.", param="stop")
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest("`stream_options` go with `stream: true`.", param="stream_options")
    if mode != "derender":
        return
    if request.stream:
        raise Unsupported("Output mode 'derender' is not streamed; post the chunks to derender.", param="stream")
    if request.parse_context is None and (model.tool_format is not None or model.reasoning_format is not None):
        raise InvalidRequest(
            "Output mode 'derender' needs the `parse_context` that render answered.", param="parse_context"
        )
