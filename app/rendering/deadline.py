"""Ends pure-Python work in a thread when its time is up.

Compiled templates ask their budget themselves; this catches what loops inside a filter or a library, where nobody asks.
"""

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from app.rendering.budget import OutOfBudget

__all__ = ("within",)

T = TypeVar("T")


class TimeUp(OutOfBudget):
    """The deadline passed."""

    def __init__(self) -> None:
        super().__init__("takes too long")


def raise_in(thread: int, exception: type[BaseException]) -> None:
    """Let ``thread`` raise ``exception`` at its next bytecode that may be interrupted."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(exception))


def within(seconds: float, work: Callable[[], T]) -> T:
    """``work()`` in this thread; raises :class:`OutOfBudget` when it takes longer than ``seconds``."""
    lock = threading.Lock()
    thread = threading.get_ident()
    over = rung = False

    def ring() -> None:
        nonlocal rung
        with lock:
            if not over:
                rung = True
                raise_in(thread, TimeUp)

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        return work()
    finally:
        with lock:
            over = True
        timer.cancel()
        if rung and not caused_by_time(sys.exception()):
            land()


def caused_by_time(error: BaseException | None) -> bool:
    """Whether the deadline's exception was raised already, and is what ``error`` comes from."""
    while error is not None:
        if isinstance(error, TimeUp):
            return True
        error = error.__cause__ or error.__context__
    return False


def land() -> None:
    """Wait for an exception that is on its way, so that it hits nothing that the thread does later.

    It cannot be taken back: CPython 3.11 would leave its interrupt flag up, which slows every loop of the process from
    then on, and stalls one that is being profiled.
    """
    for _ in range(1000):
        time.sleep(0.001)
