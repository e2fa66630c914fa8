"""A worker over a bare TCP socket that speaks vLLM's or SGLang's generate, well or badly.

    async with FakeWorker(tokens=[1, 2, 3], fault="die:2") as worker: ... worker.url

``answer`` makes the tokens of each request instead.

Faults: ``die:N`` closes the socket after N events, ``hang:N`` sends nothing more after N events, ``half:N`` closes in
the middle of event N, ``garbage`` answers what is no HTTP, ``nonsense:N`` sends an event that is no JSON after N good
ones, ``wild:N`` one with a token id that no model has, ``status:CODE`` answers an error, ``error:CODE:N`` sends an
error event after N events, ``early`` ends the stream without its end mark, ``linger`` never ends it.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class FakeWorker:
    def __init__(
        self,
        tokens: list[int] | None = None,
        *,
        answer: Callable[[dict[str, Any]], list[int]] | None = None,
        fault: str = "",
        kind: str = "vllm",
        delay_s: float = 0.0,
        incremental: bool = False,
        transfer: dict[str, Any] | None = None,
        api_key: str = "",
    ) -> None:
        self.tokens = tokens if tokens is not None else [10, 11, 12, 13]
        self._answer_to = answer
        self._answers: dict[str, list[int]] = {}
        self.fault, _, rest = fault.partition(":")
        self.numbers = [int(part) for part in rest.split(":") if part]
        self.kind = kind
        self.delay_s = delay_s
        self.incremental = incremental
        self.transfer = transfer or {}
        self.api_key = api_key
        self.healthy = True
        self.requests: list[dict[str, Any]] = []
        self.aborted: list[str] = []
        self.authorization: list[str] = []
        self.running = 0
        self.connections = 0
        self.accepted = 0
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "FakeWorker":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def kill(self) -> None:
        """Every connection breaks off, no new one is taken."""
        self._server.close()
        for task in list(self._tasks):
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.accepted += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.connections -= 1
            self._tasks.discard(task)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((int(h[15:]) for h in head.lower().split("\r\n") if h.startswith("content-length:")), 0)
        body = await reader.readexactly(length)
        auth = next((h[15:] for h in head.split("\r\n") if h.lower().startswith("authorization:")), "")
        path = head.split(" ")[1]
        if path == "/health":
            if self.fault == "silent":
                await asyncio.sleep(3600)
            return await self._answer(writer, 200 if self.healthy else 503, b"")
        if path in ("/inference/v1/abort_requests", "/abort_request"):
            found = json.loads(body)
            self.aborted += found.get("request_ids", [found.get("rid")])
            return await self._answer(writer, 200, b"")
        self.authorization.append(auth)
        if self.api_key and auth != f"Bearer {self.api_key}":
            return await self._answer(writer, 401, b'{"error":"Unauthorized"}')
        request = json.loads(body)
        self.requests.append(request)
        if self._answer_to is not None:
            self._answers[_name(request)] = self._answer_to(request)
        self.running += 1
        run = asyncio.ensure_future(self._generate(request, writer))
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait([run, gone], return_when=asyncio.FIRST_COMPLETED)
            return await run if run.done() else False
        finally:
            self.running -= 1
            for task in (run, gone):
                task.cancel()
            await asyncio.gather(run, gone, return_exceptions=True)

    async def _generate(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        fault, after = self.fault, self.numbers[-1] if self.numbers else 0
        if fault == "garbage":
            writer.write(b"\x00\x01 this is no HTTP\r\n\r\n")
            return False
        if fault == "status":
            message = {"error": {"message": "the worker says no", "type": "T", "param": "stop", "code": after}}
            return await self._answer(writer, after, json.dumps(message).encode())
        if fault == "hang" and after == 0:
            await asyncio.sleep(3600)
        if fault == "die" and after == 0:
            return False
        if not request.get("stream"):
            return await self._answer(writer, 200, json.dumps(self._whole(request)).encode())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for number in range(len(self._tokens(request))):
            if number >= after and fault in ("die", "hang", "half", "nonsense", "wild", "error"):
                return await self._go_wrong(fault, request, number, writer)
            await self._send(writer, json.dumps(self._event(request, number)).encode())
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
        if fault == "linger":
            await asyncio.sleep(3600)
        if fault != "early":
            await self._send(writer, b"[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _go_wrong(self, fault: str, request: dict[str, Any], number: int, writer: asyncio.StreamWriter) -> bool:
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault == "half":
            event = b"data: " + json.dumps(self._event(request, number)).encode()
            writer.write(b"%x\r\n%s" % (len(event), event[: len(event) // 2]))
            await writer.drain()
        if fault == "nonsense":
            await self._send(writer, b'{"choices": [{"index": "x"')
        if fault == "wild":
            self._answers[_name(request)] = [2**40] * (number + 2)
            await self._send(writer, json.dumps(self._event(request, number)).encode())
            await asyncio.sleep(3600)
        if fault == "error":
            await self._send(writer, json.dumps({"error": {"message": "no more", "code": self.numbers[0]}}).encode())
            await self._send(writer, b"[DONE]")
        return False

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        event = b"data: " + data + b"\n\n"
        writer.write(b"%x\r\n%s\r\n" % (len(event), event))
        await writer.drain()

    async def _answer(self, writer: asyncio.StreamWriter, status: int, body: bytes) -> bool:
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        return True

    def _tokens(self, request: dict[str, Any]) -> list[int]:
        return self._answers.get(_name(request), self.tokens)

    def _event(self, request: dict[str, Any], number: int) -> dict[str, Any]:
        tokens = self._tokens(request)
        last = number == len(tokens) - 1
        if self.kind == "sglang":
            ids = tokens[number : number + 1] if self.incremental else tokens[: number + 1]
            meta: dict[str, Any] = {
                "id": request["rid"], "completion_tokens": number + 1, "prompt_tokens": 3, "cached_tokens": 2,
                "finish_reason": {"type": "stop", "matched": tokens[-1]} if last else None,
            }  # fmt: skip
            if request.get("return_logprob"):
                meta["output_token_logprobs"] = [[-0.5 - i, i, None] for i in ids]
                meta["output_top_logprobs"] = [[[-0.25, 99, None], [-0.5 - i, i, None]] for i in ids]
            return {"text": "x", "output_ids": ids, "meta_info": meta}
        return {
            "request_id": request["request_id"], "usage": None, "output_mode": "tokens",
            "choices": [{
                "index": 0, "finish_reason": "stop" if last else None, "stop_reason": None,
                "token_ids": [tokens[number]], "routed_experts": None, "sampling_mask": None,
                "weight_versions": None, "logprobs": None,
            }],
        }  # fmt: skip

    def _whole(self, request: dict[str, Any]) -> dict[str, Any]:
        tokens = self._tokens(request)
        limit = request["sampling_params"].get("max_tokens") or len(tokens)
        return {
            "request_id": request["request_id"], "model": "m", "created": 1, "output_mode": "tokens",
            "usage": {"prompt_tokens": 3, "total_tokens": 4, "completion_tokens": 1},
            "kv_transfer_params": self.transfer.get("kv"), "ec_transfer_params": self.transfer.get("ec"),
            "prompt_logprobs": [None] if request["sampling_params"].get("prompt_logprobs") is not None else None,
            "choices": [{"index": 0, "finish_reason": "length", "token_ids": tokens[:limit]}],
        }  # fmt: skip


def _name(request: dict[str, Any]) -> str:
    return str(request.get("request_id") or request.get("rid"))


@contextmanager
def in_a_thread(fake: FakeWorker) -> Iterator[FakeWorker]:
    """The worker on a loop and a thread of its own, so that it outlives the servers that call it."""
    ready, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def live() -> None:
        async with fake:
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield fake
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(20)
        loop.close()
