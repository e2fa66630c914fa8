"""vLLM's ``/inference/v1/generate`` as a worker's wire: requests to its JSON, its replies to token chunks."""

from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from app.engines.engine import TokenChunk
from app.engines.worker import WireReply, WorkerFailure, refusal
from app.multimodal.encoded import EncodedItem, json_body
from app.multimodal.splice import CHUNK, Body
from app.protocol.generate import Features, GenerateLogprobs, GenerateRequest, StructuredOutputs
from app.protocol.usage import GenerateUsage, StreamOptions

__all__ = ("VllmWire",)

ID_PREFIX = "generate-tokens-"
encode = msgspec.json.Encoder().encode


class _Choice(Struct):
    index: int = 0
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    logprobs: GenerateLogprobs | None = None


class _Body(Struct):
    """What we read of an event, and of a whole reply."""

    choices: list[_Choice]
    usage: GenerateUsage | None = None
    prompt_logprobs: list[dict[str, Any] | None] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None


_body = msgspec.json.Decoder(_Body)


class VllmWire:
    """Registered as kind ``vllm``. ``model`` is sent as the model's name; empty: none, which every server takes."""

    generate_path = "/inference/v1/generate"
    health_path = "/health"
    abort_path = "/inference/v1/abort_requests"

    def __init__(self, model: str = "") -> None:
        self._model = model or None

    def body(self, request: GenerateRequest, worker_id: str) -> tuple[bytes | Body, bool]:
        """Streamed, but where only a whole reply carries what is wanted or nothing could be streamed."""
        params = request.sampling_params
        handover = bool(request.kv_transfer_params and request.kv_transfer_params.get("do_remote_decode"))
        wants_prompt = params.prompt_logprobs is not UNSET and params.prompt_logprobs is not None
        streamed = not (handover or wants_prompt or params.max_tokens == 1)
        sent = replace(
            request,
            request_id=worker_id,
            model=self._model,
            features=_features(request.features),
            token_offsets=None,
            parse_context=None,
            return_token_ids=None,
            output_mode="tokens",
            stream=streamed,
            stream_options=StreamOptions(include_usage=True) if streamed else None,
            sampling_params=replace(params, output_kind=1 if streamed else 2),
        )
        whole = _without_private(sent)
        return (encode(whole) if sent.features is None else json_body(whole)), streamed

    def abort_body(self, worker_id: str) -> bytes:
        """By the id that its answers carry."""
        return encode({"request_ids": [ID_PREFIX + worker_id]})

    def reply(self, request: GenerateRequest) -> WireReply:
        """A reader of events or of the whole."""
        return _Reply()


def _without_private(request: GenerateRequest) -> Any:
    """vLLM takes ``structured_outputs`` without its engine-private keys."""
    wanted = request.sampling_params.structured_outputs
    if not isinstance(wanted, StructuredOutputs):
        return request
    body = msgspec.to_builtins(replace(request, features=None))
    body["features"] = request.features
    kept = {key: value for key, value in msgspec.to_builtins(wanted).items() if not key.startswith("_")}
    body["sampling_params"]["structured_outputs"] = kept
    return body


def _features(features: Features | None) -> Features | None:
    """Metadata of an item whose tensors are there is left out: the tensors hold it too, and are what counts."""
    if features is None or features.kwargs_data is None:
        return features
    data = {
        modality: [_item(item, f"features.kwargs_data.{modality}[{at}]") for at, item in enumerate(items)]
        for modality, items in features.kwargs_data.items()
    }
    if features.mm_metadata is None:
        return replace(features, kwargs_data=data)
    metadata: dict[str, list[str | None]] = {}
    for modality, items in features.mm_metadata.items():
        tensors = data.get(modality) or [None] * len(items)
        metadata[modality] = [item if tensor is None else None for item, tensor in zip(items, tensors, strict=True)]
    needed = any(item is not None for items in metadata.values() for item in items)
    return replace(features, kwargs_data=data, mm_metadata=metadata if needed else None)


def _item(item: Any, param: str) -> Any:
    """A large item as one that is encoded in pieces."""
    if not isinstance(item, str | bytes) or len(item) < CHUNK:
        return item
    from app.multimodal.items import raw_item  # numpy, which a server of text does without

    return EncodedItem([raw_item(item, param=param)])


class _Reply:
    def event(self, data: bytes) -> list[TokenChunk] | None:
        if data == b"[DONE]":
            return None
        if data.startswith(b'{"error"'):
            _raise(data)
        return _chunks(_body.decode(data), over=False)

    def whole(self, body: bytes) -> list[TokenChunk]:
        return _chunks(_body.decode(body), over=True)


def _chunks(body: _Body, *, over: bool) -> list[TokenChunk]:
    cached = _cached(body.usage)
    return [
        TokenChunk(
            index=choice.index,
            token_ids=choice.token_ids or [],
            logprobs=None if choice.logprobs is None else choice.logprobs.content,
            finish_reason=choice.finish_reason or ("stop" if over else None),
            stop_reason=choice.stop_reason,
            cached_tokens=cached,
            prompt_logprobs=body.prompt_logprobs,
            kv_transfer_params=body.kv_transfer_params,
            ec_transfer_params=body.ec_transfer_params,
            metrics=body.metrics,
        )
        for choice in body.choices
    ]


def _cached(usage: GenerateUsage | None) -> int | None:
    details = usage.prompt_tokens_details if usage is not None else None
    cached = (details or {}).get("cached_tokens")
    return cached if isinstance(cached, int) else None


def _raise(data: bytes) -> None:
    """An error event: the status stands in its code."""
    found = msgspec.json.decode(data)["error"]
    code = found.get("code") if isinstance(found, dict) else None
    if isinstance(code, int):
        raise refusal(code, data)
    raise WorkerFailure("The worker reported an error.")
