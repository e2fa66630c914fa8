"""What one template render may cost: loop steps, characters built, and time.

A chat template is a program, and some come with a request. Each render carries a :class:`Budget`; the code that
:mod:`app.rendering.sandbox` compiles asks it before every loop turn and for every large value that it builds.
"""

import time
from collections.abc import Sequence
from functools import reduce
from typing import Any

__all__ = ("Budget", "OutOfBudget", "RenderTooLong")

MAX_STEPS = 2_000_000
"""Loop turns and macro calls of one render: a second or so; a conversation of 10,000 messages needs 50,000."""
MAX_CHARS = 1 << 27
"""Characters of all large values that one render builds, together."""
ENTRY = 32
"""How many characters an entry of a list counts for, which are about its bytes."""
MAX_OUTPUT = 1 << 26
"""Characters of a rendered prompt."""
MAX_BITS = 1 << 16
"""Bits of a whole number."""
INLINE_CHARS = 1 << 22
INLINE_S = 0.004
"""What a render may take on the event loop before it moves to a thread, in seconds; law 9 allows ten milliseconds."""
SMALL = 4096
"""Values up to this length are not counted."""
TURNS_BETWEEN_CLOCKS = 128


class OutOfBudget(BaseException):
    """The render costs more than it may. Not an Exception, so that nothing within a template swallows it."""


class RenderTooLong(OutOfBudget):
    """The render outgrew the event loop and must start again in a thread."""


class Budget:
    """The cost of one render so far. ``inline`` is a small budget, for the event loop."""

    __slots__ = ("chars", "deadline", "inline", "left", "steps")

    def __init__(self, *, seconds: float, inline: bool = False) -> None:
        self.inline = inline
        self.deadline = time.perf_counter() + (INLINE_S if inline else seconds)
        self.chars = INLINE_CHARS if inline else MAX_CHARS
        self.steps = 0
        self.left = TURNS_BETWEEN_CLOCKS

    def look(self) -> None:
        """Look at the steps and the clock: the compiled code counted ``left`` turns down to nothing."""
        self.steps += TURNS_BETWEEN_CLOCKS
        self.left = TURNS_BETWEEN_CLOCKS
        if self.steps > MAX_STEPS:
            self.refuse("takes too many steps")
        if time.perf_counter() > self.deadline:
            self.refuse("takes too long")

    def charge(self, size: int) -> None:
        """Count a value of ``size`` characters, before it is built where that is possible."""
        if size > SMALL:
            self.chars -= size
            if self.chars < 0:
                self.refuse("builds too large a value")

    def refuse(self, why: str) -> None:
        """End the render."""
        if self.inline:
            raise RenderTooLong(why)
        raise OutOfBudget(why)

    def add(self, parts: Sequence[Any]) -> Any:
        """``a + b + c``: for strings one join, else the operator from left to right."""
        if type(parts[0]) is str:
            if len(parts) > 16:
                self.charge(sum(len(part) for part in parts if type(part) is str))
            try:
                text = "".join(parts)
            except TypeError:
                pass
            else:
                if len(text) > SMALL:
                    self.charge(len(text))
                return text
        return reduce(self.plus, parts)

    def plus(self, left: Any, right: Any) -> Any:
        """``left + right``, counted."""
        return self.built(left + right)

    def times(self, left: Any, right: Any) -> Any:
        """``left * right``, refused before it grows out of hand."""
        for sequence, count in ((left, right), (right, left)):
            if isinstance(sequence, str | list | tuple | bytes) and isinstance(count, int):
                self.charge(len(sequence) * count * (1 if isinstance(sequence, str | bytes) else ENTRY))
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_BITS:
            self.refuse("builds too large a number")
        return left * right

    def power(self, left: Any, right: Any) -> Any:
        """``left ** right``, refused before it grows out of hand."""
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > MAX_BITS:
            self.refuse("builds too large a number")
        return left**right

    def built(self, value: Any) -> Any:
        """Count a value that a slice, a filter or a method built; gives it back."""
        kind = type(value)
        if kind is str or kind is bytes:
            if len(value) > SMALL:
                self.charge(len(value))
        elif kind is list or kind is tuple or kind is dict:
            self.charge(len(value) * ENTRY)
        return value

    def concat(self, parts: Sequence[str]) -> str:
        """What a macro or a set block wrote, joined."""
        self.charge(sum(map(len, parts)))
        return "".join(parts)

    def str_join(self, parts: Sequence[Any]) -> str:
        """``a ~ b ~ c``."""
        texts = [str(part) for part in parts]
        self.charge(sum(map(len, texts)))
        return "".join(texts)

    def output(self, chunks: Sequence[str]) -> str:
        """The whole render, joined."""
        if sum(map(len, chunks)) > MAX_OUTPUT:
            self.refuse("writes too long a prompt")
        return "".join(chunks)
