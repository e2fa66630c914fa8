"""A Responses run without a model: its events from a script, with pauses and failures where a test wants them."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec

from app.runs.events import Ended, RunEvent, terminal
from app.store.exact import ExactIds
from app.store.turn import NewTurn

from .turns import answer


class ScriptedRun:
    """Yields created, some deltas and a last event; ``gate`` is waited for after the first delta where it is given."""

    def __init__(
        self,
        turn: NewTurn,
        *,
        deltas: int = 3,
        status: str = "completed",
        gate: asyncio.Event | None = None,
        error: Exception | None = None,
        ends: bool = True,
        exact: ExactIds | None = None,
    ) -> None:
        self.turn = turn
        self.deltas = deltas
        self.status = status
        self.gate = gate
        self.error = error
        self.ends = ends
        self.exact = exact
        self.closed = asyncio.Event()

    async def __call__(self) -> AsyncGenerator[RunEvent, None]:
        try:
            yield self._event(0, "response.created", response=msgspec.json.decode(self.turn.body))
            for number in range(1, self.deltas + 1):
                yield self._event(number, "response.output_text.delta", delta=f"word {number} ")
                if number == 1 and self.gate is not None:
                    await self.gate.wait()
            if self.error is not None:
                raise self.error
            if self.ends:
                body = msgspec.json.encode({**msgspec.json.decode(self.turn.body), "status": self.status})
                output = [answer(self.turn.id, "".join(f"word {n} " for n in range(1, self.deltas + 1)))]
                ended = Ended(status=self.status, body=body, output=output, exact=self.exact)
                yield terminal(ended, self.deltas + 1)
        finally:
            self.closed.set()

    def _event(self, sequence: int, kind: str, **fields: object) -> RunEvent:
        event = {"type": kind, "sequence_number": sequence, **fields}
        return RunEvent(sequence, kind, msgspec.json.encode(event))
