"""A real server in processes of its own, for what a test client cannot show."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ("Running", "running")

ROOT = Path(__file__).parents[2]


@dataclass
class Running:
    """A server that answers; ``process`` is the parent of its workers."""

    url: str
    port: int
    process: "subprocess.Popen[bytes]"

    def workers(self) -> list[int]:
        """Process ids of everything below the parent."""
        found: list[int] = []
        waiting = [self.process.pid]
        while waiting:
            for children in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    born = [int(pid) for pid in children.read_text().split()]
                    found += born
                    waiting += born
        return found


@contextlib.contextmanager
def running(
    environ: dict[str, str], *options: str, ready_within_s: float = 90, litestar: Sequence[str] = ()
) -> Iterator[Running]:
    """`litestar run` with these settings on a free port, ready; killed with its group on leaving.

    ``litestar`` is the command of another environment; ours without it.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(litestar or (str(Path(sys.executable).with_name("litestar")),)),
        "--app-dir",
        str(ROOT),
        "run",
        "--port",
        str(port),
        *options,
    ]
    settings = {"ISTHMUS_CONFIG": os.devnull, "ISTHMUS_DATABASE_URL": "", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            command,
            env={**os.environ, **settings, **environ},
            stdout=said,
            stderr=said,
            cwd=folder,
            start_new_session=True,
        )
        try:
            server = Running(f"http://127.0.0.1:{port}", port, process)
            ends = time.monotonic() + ready_within_s
            while not _ready(server):
                if process.poll() is not None or time.monotonic() > ends:
                    said.seek(0)
                    raise RuntimeError(f"the server did not start:\n{said.read().decode()[-3000:]}")
                time.sleep(0.05)
            yield server
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ready(server: Running) -> bool:
    try:
        with urllib.request.urlopen(f"{server.url}/ready", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
