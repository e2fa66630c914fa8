"""What a body of calls is: the contract between the scanner and whatever reads the calls of one section."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from app.parsing.run import Run

__all__ = ("CLOSED", "FAILED", "LEFT", "MORE", "BodyMachine", "CustomBody")

MORE, CLOSED, LEFT, FAILED = 0, 1, 2, 3
"""What a body says: feed me more; the section is over, its closer read; the section is over, and from the cursor on
there is text; what stands since the last call is no call."""


class BodyMachine(Protocol):
    """Reads the calls of one section in ``state.pending``, from ``state.cursor`` on."""

    settled: int
    """The highest phase between two calls, in which all that was read belongs to the syntax."""
    closes: tuple[str, ...]
    """What may end a call or the section."""

    def step(self, run: "Run") -> int:
        """Read as far as the text decides, and say MORE, CLOSED, LEFT or FAILED."""

    def flush(self, run: "Run") -> bool:
        """The output is over inside a call: give out what is written of it; whether the call is complete."""


@runtime_checkable
class CustomBody(Protocol):
    """A kind of body that a plugin brings: a :class:`~app.parsing.format.Section`'s ``body`` may be one.

    Its machine keeps what it remembers in those fields of :class:`~app.parsing.state.State` that belong to bodies
    (``phase``, ``stack``, ``quoted``, ``name``, ``native``, ``key``, ``kind``, ``raw``, ``count``, ``marks``,
    ``flags``), and gives out what it reads through :class:`~app.parsing.run.Run`.
    """

    literals: tuple[str, ...]
    """Every literal that it looks for, head templates included: added tokens among them are matched by id."""

    def bind(self, close: tuple[str, ...], repeat: bool, encode: Callable[[str], str]) -> BodyMachine:
        """The machine for one vocabulary: ``close`` is the section's, encoded; ``encode`` does it to a literal."""
