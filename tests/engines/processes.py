"""Server processes for tests: started on a free port, waited for, ended."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(
    command: list[str],
    port: int,
    log: Path,
    *,
    ready: str = "/ready",
    environ: Mapping[str, str] = {},
    wait_s: int = 240,
) -> Iterator[str]:
    """The base URL of a process that answers ``ready`` with 200."""
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=log.parent, env={**os.environ, **environ})
    try:
        until = time.monotonic() + wait_s
        while True:
            try:
                if httpx.get(url + ready, timeout=2, trust_env=False).status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the server does not get ready: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def isthmus(config: str, folder: Path, name: str, *, wait_s: int = 240) -> Iterator[str]:
    """An Isthmus with this TOML."""
    path = folder / f"{name}.toml"
    path.write_text(config)
    port = free_port()
    command = [str(Path(sys.executable).with_name("litestar")), "--app-dir", str(ROOT), "run", "--port", str(port)]
    environ = {"ISTHMUS_CONFIG": str(path), "OMP_NUM_THREADS": "1"}
    with server(command, port, folder / f"{name}.log", environ=environ, wait_s=wait_s) as url:
        yield url
