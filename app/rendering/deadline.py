"""Ends pure-Python work in a thread when its time is up.

Compiled templates ask their budget themselves; this catches what loops inside a filter or a library, where nobody asks.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

from app.rendering.budget import OutOfBudget

__all__ = ("within",)

T = TypeVar("T")


class TimeUp(OutOfBudget):
    """The deadline passed."""

    def __init__(self) -> None:
        super().__init__("takes too long")


def raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Let ``thread`` raise ``exception`` at its next bytecode, or take back one that has not been raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if exception is None else ctypes.py_object(exception)
    )


def within(seconds: float, work: Callable[[], T]) -> T:
    """``work()`` in this thread; raises :class:`OutOfBudget` when it takes longer than ``seconds``."""
    lock = threading.Lock()
    thread = threading.get_ident()
    over = False

    def ring() -> None:
        with lock:
            if not over:
                raise_in(thread, TimeUp)

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        return work()
    finally:
        # A bell that rings between the end of the work and this line must not hit what the thread does next.
        with lock:
            over = True
            raise_in(thread, None)
        timer.cancel()
