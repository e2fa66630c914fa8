"""Whether a constraint compiles in time, tried out where it can be ended: in a process of its own.

A regular expression of twenty characters can take minutes to compile, and no thread can be stopped. So one process is
forked when the engine starts, before weights are loaded. It waits, and forks a child for each constraint that it is
given, which compiles it under a limit of processor time: what takes longer is ended by the system. What has passed is
compiled once more in the server itself, which costs less than handing a compiled grammar over.

Forking beside other threads is safe here: the child closes what it inherited, imports nothing, shares no lock that
another thread may hold, and is left by ``os._exit`` alone.
"""

import contextlib
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable
from typing import Any

import msgspec

from app.protocol.generate import StructuredOutputs

__all__ = ("Trial",)

PASSED = b"1"
LENGTH = 8
"""Bytes before a constraint that say how long its JSON is."""
PATIENCE = 20
"""How many times its processor time a trial may take in all, beside whatever else the machine does."""
NICENESS = 5
"""How far a trial stands back behind what is being served."""


class Trial:
    """The process and what it is asked.

    Args:
        prepare: done once in the process, for all constraints.
        compile: what is tried; its errors count as passed, since they come again.
        limit_s: seconds of processor time for one constraint.
    """

    def __init__(
        self, prepare: Callable[[], None], compile: Callable[[StructuredOutputs], Any], limit_s: float
    ) -> None:
        self._prepare = prepare
        self._compile = compile
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._pid = 0

    def open(self) -> None:
        """Fork the process that waits."""
        # What ``tokenizers`` would say of a fork is of no use: the child tokenizes nothing.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        ours, theirs = socket.socketpair()
        with warnings.catch_warnings():
            # Python 3.12 warns of every fork beside threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                _leave_behind(theirs)
                self._prepare()
                _wait(theirs, self._compile, self._limit_s)
            finally:
                os._exit(0)
        theirs.close()
        self._control, self._pid = ours, pid

    def close(self) -> None:
        """End it; what it is trying ends by itself. Idempotent."""
        control, self._control = self._control, None
        if control is not None:
            control.close()
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)

    def passes(self, wanted: StructuredOutputs) -> bool:
        """Whether ``wanted`` compiles, or fails to, within the limit. Blocks until it is known."""
        job = msgspec.json.encode(wanted)
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._hand_over(theirs)
            ours.settimeout(self._limit_s * PATIENCE)
            try:
                ours.sendall(len(job).to_bytes(LENGTH) + job)
                return ours.recv(1) == PASSED
            except (ConnectionError, TimeoutError):
                return False

    def _hand_over(self, end: socket.socket) -> None:
        """Give the waiting process its end of a connection; one that is gone (out of memory) is replaced."""
        with self._lock:
            if self._control is None:
                self.open()
            try:
                self._send(end)
            except OSError:
                self.close()
                self.open()
                self._send(end)

    def _send(self, end: socket.socket) -> None:
        assert self._control is not None
        socket.send_fds(self._control, [PASSED], [end.fileno()])


def _leave_behind(control: socket.socket) -> None:
    """Drop what the server has given its child: open files but this one, and its ways with signals."""
    kept = control.fileno()
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def _wait(control: socket.socket, compile: Callable[[StructuredOutputs], Any], limit_s: float) -> None:
    """The waiting process: a child for each connection, until the server closes its end or is gone."""
    while True:
        told, ends, *_ = socket.recv_fds(control, 1, 1)
        if not told:
            return
        if os.fork() == 0:
            try:
                control.close()
                _try(socket.socket(fileno=ends[0]), compile, limit_s)
            finally:
                os._exit(0)
        os.close(ends[0])


def _try(connection: socket.socket, compile: Callable[[StructuredOutputs], Any], limit_s: float) -> None:
    """The child: reads a constraint, compiles it, says so."""
    os.nice(NICENESS)
    with connection.makefile("rb") as read:
        length = int.from_bytes(read.read(LENGTH))
        wanted = msgspec.json.decode(read.read(length), type=StructuredOutputs)
    # Its default is to end the process; processor time counts, so that a busy machine refuses nothing.
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    with contextlib.suppress(Exception):
        compile(wanted)
    connection.sendall(PASSED)
