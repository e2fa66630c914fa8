"""A folder through which encode servers hand embeddings to prefill servers, bounded in bytes."""

import os
import tempfile
from pathlib import Path

from app.errors import StartupError

__all__ = ("TransferFolder",)


class TransferFolder:
    """Files by digest. Several processes may write and read at once; what was used longest ago goes first.

    Args:
        path: of the folder, on a file system that all of them see; made where it is missing.
        max_bytes: of all files together, after which old ones go.

    Raises:
        StartupError: the folder can't be written.
    """

    def __init__(self, path: str, max_bytes: int) -> None:
        self._path = Path(path)
        self._max_bytes = max_bytes
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StartupError(f"transfer_path {path}: {error.strerror}") from error
        if not os.access(self._path, os.W_OK):
            raise StartupError(f"transfer_path {path}: this folder can't be written")

    def publish(self, digest: str, data: bytes) -> None:
        """Make ``data`` readable under ``digest``; a reader sees all of it or nothing."""
        with tempfile.NamedTemporaryFile(dir=self._path, prefix=".", delete=False) as file:
            file.write(data)
        Path(file.name).replace(self._path / digest)
        self._shrink()

    def fetch(self, digest: str) -> bytes | None:
        """What was published under ``digest``, which counts as used now; None where nothing is."""
        path = self._path / digest
        try:
            data = path.read_bytes()
            os.utime(path)
        except FileNotFoundError:
            return None
        return data

    def _shrink(self) -> None:
        files = []
        for path in self._path.iterdir():
            try:
                facts = path.stat()
            except FileNotFoundError:
                continue
            if not path.name.startswith("."):
                files.append((facts.st_mtime_ns, facts.st_size, path))
        held = sum(size for _, size, _ in files)
        for _, size, path in sorted(files)[:-1]:
            if held <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            held -= size
