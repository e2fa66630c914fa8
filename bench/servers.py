"""Servers for the benchmark: started, timed until they are ready, weighed, and ended with all their processes."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ("Server", "isthmus", "peer", "serving")

ROOT = Path(__file__).parents[1]


@dataclass
class Server:
    """A server to measure; ``model`` is what its requests call the model."""

    name: str
    command: list[str]
    url: str
    model: str
    environ: dict[str, str]
    ready_path: str = "/health"
    ready_s: float = 0.0
    """Seconds from start to its first good answer on ``ready_path``."""
    memory_mb: float = 0.0
    """Memory of all its processes when it is ready, shared pages counted once."""
    process: "subprocess.Popen[bytes] | None" = None

    def cpu_s(self) -> float:
        """Processor time that all its processes have used, in seconds."""
        assert self.process is not None
        return sum(_used(pid) for pid in _tree(self.process.pid))

    def weigh(self) -> float:
        """Memory now, in MB."""
        assert self.process is not None
        return sum(_proportional(pid) for pid in _tree(self.process.pid)) / 1e6


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def isthmus(model: Path, workers: int, port: int, **extra: str) -> Server:
    """Ours, with this model alone, under the name of its directory."""
    settings = {"ISTHMUS_MODEL": str(model), "ISTHMUS_DATABASE_URL": "", "ISTHMUS_CONFIG": os.devnull, **extra}
    command = [str(Path(sys.executable).with_name("litestar")), "--app-dir", str(ROOT), "run"]
    command += ["--port", str(port), "--wc", str(workers)]
    return Server("isthmus", command, f"http://127.0.0.1:{port}", model.name, settings, ready_path="/ready")


def peer(folder: Path, kind: str, model: Path, port: int) -> Server:
    """vLLM's render server: ``kind`` is "python" or "rust"."""
    name = {"python": "vLLM Python", "rust": "vllm-rs"}[kind]
    arguments = [str(model), "--served-model-name", model.name, "--host", "127.0.0.1", "--port", str(port)]
    environ = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_TARGET_DEVICE": "cpu"}
    if kind == "rust":
        command = [str(folder / "v33/vllm/vllm-rs"), "render", *arguments]
    else:
        environ["PYTHONPATH"] = f"{folder / 'tv'}:{folder / 'v33'}"
        command = [str(folder / "env/bin/python"), "-m", "vllm.entrypoints.cli.main", "launch", "render", *arguments]
        command += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    return Server(name, command, f"http://127.0.0.1:{port}", model.name, environ)


@contextlib.contextmanager
def serving(server: Server, timeout_s: float = 180) -> Iterator[Server]:
    """The server, ready; ended with its whole process group on leaving."""
    environ = {**os.environ, **server.environ, "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        server.process = subprocess.Popen(
            server.command, env=environ, stdout=output, stderr=output, start_new_session=True, cwd=folder
        )
        try:
            while not _answers(server.url + server.ready_path):
                if server.process.poll() is not None or time.perf_counter() - began > timeout_s:
                    output.seek(0)
                    said = output.read()[-2000:].decode(errors="replace")
                    raise RuntimeError(f"{server.name} did not start:\n{said}")
                time.sleep(0.02)
            server.ready_s = time.perf_counter() - began
            server.memory_mb = server.weigh()
            yield server
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.process.pid, signal.SIGTERM)
            try:
                server.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.process.pid, signal.SIGKILL)
                server.process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def _tree(pid: int) -> list[int]:
    found = [pid]
    for at in found:
        for children in Path(f"/proc/{at}/task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
    return found


def _used(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _proportional(pid: int) -> float:
    """Bytes of memory that a process has, pages shared with others in their share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
