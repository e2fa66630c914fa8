"""SGLang's ``/generate`` as a worker's wire: requests to its JSON, its replies to token chunks.

An event holds ``output_ids`` and ``meta_info`` (``completion_tokens``, ``finish_reason``, ``cached_tokens``,
``output_token_logprobs`` as ``[logprob, id, text]``). By default ids and logprobs are those of the whole output so far,
with ``--incremental-streaming-output`` those since the last event: the newest ``completion_tokens - seen`` are the new
ones in both. With n > 1 an event names its output by ``index``. Facts: SGLang's ``io_struct`` and output processor.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Struct

from app.engines.engine import TokenChunk
from app.engines.worker import WireReply, WorkerFailure, refusal
from app.errors import EngineFailure, InvalidRequest, Overloaded, Unsupported
from app.protocol.generate import GenerateRequest, TokenLogprob, TopLogprob

__all__ = ("SglangWire",)

encode = msgspec.json.Encoder().encode
FLOOR = -9999.0
Scored = tuple[float | None, int, str | None]


class _Meta(Struct):
    completion_tokens: int = 0
    cached_tokens: int | None = None
    finish_reason: dict[str, Any] | None = None
    output_token_logprobs: list[Scored] | None = None
    output_top_logprobs: list[list[Scored] | None] | None = None


class _Event(Struct):
    output_ids: list[int] = []
    meta_info: _Meta = msgspec.field(default_factory=_Meta)
    index: int = 0


_event = msgspec.json.Decoder(_Event)
_whole = msgspec.json.Decoder(_Event | list[_Event])

UNSERVED = (
    "allowed_token_ids",
    "bad_words",
    "logprob_token_ids",
    "prompt_logprobs",
    "repetition_detection",
    "thinking_token_budget",
    "watermarking",
    "extra_args",
    "flat_logprobs",
    "routed_experts_prompt_start",
)


class SglangWire:
    """Registered as kind ``sglang``."""

    generate_path = "/generate"
    health_path = "/health"
    abort_path = "/abort_request"

    @staticmethod
    def check(request: GenerateRequest) -> None:
        """Refuse what SGLang's endpoint has no word for."""
        params = request.sampling_params
        for name in UNSERVED:
            if getattr(params, name) not in (UNSET, None, [], {}, False, 0):
                raise Unsupported("SGLang workers don't do this.", param=name)
        for name in ("features", "content_parts", "ec_transfer_params"):
            if getattr(request, name):
                raise Unsupported("SGLang workers are served text only.", param=name)
        _constraint(request)

    def body(self, request: GenerateRequest, worker_id: str) -> tuple[bytes, bool]:
        """Always streamed."""
        params = request.sampling_params
        greedy = params.temperature == 0
        sampling: dict[str, Any] = {
            "max_new_tokens": None if params.max_tokens is UNSET else params.max_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "min_p": params.min_p,
            "frequency_penalty": params.frequency_penalty,
            "presence_penalty": params.presence_penalty,
            "repetition_penalty": params.repetition_penalty,
            "stop": params.stop,
            "stop_token_ids": params.stop_token_ids,
            "skip_special_tokens": params.skip_special_tokens is not False,
            "no_stop_trim": True,
            **_constraint(request),
        }
        for ours, theirs in (
            ("n", "n"),
            ("min_tokens", "min_new_tokens"),
            ("ignore_eos", "ignore_eos"),
            ("logit_bias", "logit_bias"),
            ("seed", "sampling_seed"),
            ("stream_interval", "stream_interval"),
        ):
            value = getattr(params, ours)
            if value is not UNSET and value is not None:
                sampling[theirs] = value
        if not greedy and params.top_k is not UNSET and params.top_k > 0:
            sampling["top_k"] = params.top_k
        body: dict[str, Any] = {
            "rid": worker_id,
            "input_ids": request.token_ids,
            "sampling_params": sampling,
            "stream": True,
        }
        if params.logprobs is not UNSET and params.logprobs is not None:
            body |= {"return_logprob": True, "top_logprobs_num": params.logprobs, "logprob_start_len": -1}
        if request.cache_salt is not None:
            body["cache_salt"] = request.cache_salt
        if request.priority:
            body["priority"] = request.priority
        transfer = request.kv_transfer_params or {}
        body |= {key: value for key, value in transfer.items() if key.startswith("bootstrap_")}
        return encode(body), True

    def abort_body(self, worker_id: str) -> bytes:
        """By its rid."""
        return encode({"rid": worker_id})

    def reply(self, request: GenerateRequest) -> WireReply:
        """A reader of events."""
        return _Reply(request)


def _constraint(request: GenerateRequest) -> dict[str, Any]:
    wanted = request.sampling_params.structured_outputs
    if wanted is UNSET or wanted is None:
        return {}
    if wanted.json is not None:
        schema = wanted.json
        return {"json_schema": schema if isinstance(schema, str) else encode(schema).decode()}
    if wanted.json_object:
        return {"json_schema": '{"type": "object"}'}
    if wanted.regex is not None:
        return {"regex": wanted.regex}
    if wanted.choice is not None:
        return {"ebnf": "root ::= " + " | ".join(encode(option).decode() for option in wanted.choice)}
    if wanted.grammar is not None:
        return {"ebnf": wanted.grammar}
    if wanted.structural_tag is not None:
        return {"structural_tag": wanted.structural_tag}
    raise InvalidRequest("Structured outputs are given without a constraint.", param="structured_outputs")


class _Reply:
    def __init__(self, request: GenerateRequest) -> None:
        self._seen: dict[int, int] = {}
        params = request.sampling_params
        self._wants_logprobs = params.logprobs is not UNSET and params.logprobs is not None

    def event(self, data: bytes) -> list[TokenChunk] | None:
        if data == b"[DONE]":
            return None
        if data.startswith(b'{"error"'):
            raise _error(data)
        return [self._chunk(_event.decode(data))]

    def whole(self, body: bytes) -> list[TokenChunk]:
        reply = _whole.decode(body)
        events = reply if isinstance(reply, list) else [reply]
        for place, event in enumerate(events):
            event.index = place
        return [self._chunk(event) for event in events]

    def _chunk(self, event: _Event) -> TokenChunk:
        meta = event.meta_info
        seen = self._seen.get(event.index, 0)
        new = meta.completion_tokens - seen
        if not 0 <= new <= len(event.output_ids):
            raise WorkerFailure("The worker's token counts don't fit its tokens.")
        self._seen[event.index] = seen + new
        reason, stop = _finish(meta.finish_reason)
        return TokenChunk(
            index=event.index,
            token_ids=event.output_ids[len(event.output_ids) - new :],
            logprobs=_logprobs(meta, new) if self._wants_logprobs else None,
            finish_reason=reason,
            stop_reason=stop,
            cached_tokens=meta.cached_tokens if seen == 0 else None,
        )


def _finish(found: dict[str, Any] | None) -> tuple[str | None, int | str | None]:
    """Finish and stop reason."""
    if found is None:
        return None, None
    kind = found.get("type")
    if kind == "stop":
        matched = found.get("matched")
        return "stop", matched if isinstance(matched, int | str) else None
    if kind == "abort":
        status = found.get("status_code")
        if isinstance(status, int):
            raise refusal(status, encode({"message": found.get("message")}))
        return "abort", None
    return "length", None


def _logprobs(meta: _Meta, new: int) -> list[TokenLogprob] | None:
    scored = meta.output_token_logprobs or []
    tops = meta.output_top_logprobs or [None] * len(scored)
    if len(scored) < new or len(tops) < new:
        raise WorkerFailure("The worker sent fewer logprobs than tokens.")
    entries = []
    for (value, token, _), top in zip(scored[len(scored) - new :], tops[len(tops) - new :], strict=True):
        ranked = [
            TopLogprob(token_id=i, logprob=_finite(v), rank=place) for place, (v, i, _) in enumerate(top or (), 1)
        ]
        own = next((entry for entry in ranked if entry.token_id == token), None)
        if own is None:
            own = TopLogprob(token_id=token, logprob=_finite(value))
        rest = [entry for entry in ranked if entry is not own]
        entries.append(TokenLogprob(token_id=token, logprob=_finite(value), rank=own.rank, top_logprobs=[own, *rest]))
    return entries


def _finite(value: float | None) -> float:
    return value if value is not None and value > FLOOR else FLOOR


def _error(data: bytes) -> EngineFailure | InvalidRequest | Overloaded:
    """An error event; SGLang writes only a message for what it refuses."""
    found = msgspec.json.decode(data)["error"]
    message = str(found.get("message") or "")[:2000] if isinstance(found, dict) else ""
    code = found.get("code") if isinstance(found, dict) else None
    if code in (429, 503):
        return Overloaded(message or "The worker has no room.")
    if code == 400:
        return InvalidRequest(message or "The worker refused the request.")
    return WorkerFailure("The worker reported an error.")
