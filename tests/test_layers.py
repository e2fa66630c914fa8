"""Imports point one way, and a text server never imports what only engines and pictures need."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models import BUILT, model_directory

ROOT = Path(__file__).parents[1]
LAYERS = (
    "asgi",
    "cli",
    "http",
    "runs",
    "models",
    "registry",
    "engines",
    "dialects",
    "rendering",
    "derendering",
    "multimodal",
    "parsing",
    "tokenizing",
    "store",
    "settings",
    "errors",
    "protocol",
)
"""Top to bottom: nothing imports a row above its own (``design.md``, section 3)."""
PURE = ("dialects", "rendering", "derendering", "parsing")
NOT_IN_PURE = ("litestar", "sqlalchemy", "torch", "transformers", "httpx", "aiohttp", "uvicorn", "starlette")
LAZY = ("torch", "transformers")
CONTRACTS = (
    "app.parsing.format",
    "app.multimodal",
    "app.rendering",
    "app.engines.engine",
    "app.errors",
    "app.tokenizing",
)
SOURCES = sorted((ROOT / "app").rglob("*.py"))
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))


def room(module: str) -> str:
    return module.split(".")[1] if module.startswith("app.") else ""


def imports(path: Path, *, top_level_only: bool = False) -> list[tuple[str, int]]:
    """Modules that a file imports, with their lines; ``if TYPE_CHECKING`` and functions count unless told otherwise."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    found = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.append((node.module, node.lineno))
    return found


def own_room(path: Path) -> str:
    return path.relative_to(ROOT / "app").parts[0].removesuffix(".py")


def test_every_room_is_in_the_list() -> None:
    rooms = {own_room(path) for path in SOURCES} - {"__init__"}
    assert rooms <= set(LAYERS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = own_room(path)
    if own == "__init__":
        return
    upward = [
        f"line {line}: {module}"
        for module, line in imports(path)
        if room(module) and LAYERS.index(room(module)) < LAYERS.index(own)
    ]
    assert not upward


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_centre_is_pure_and_the_heavy_is_lazy(path: Path) -> None:
    if own_room(path) in PURE:
        assert not [module for module, _ in imports(path) if module.split(".")[0] in NOT_IN_PURE]
    if "engines/local" not in path.as_posix():
        assert not [module for module, _ in imports(path, top_level_only=True) if module.split(".")[0] in LAZY]


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: str(path.relative_to(ROOT)))
def test_plugins_know_only_the_contracts(path: Path) -> None:
    foreign = [module for module, _ in imports(path) if module.startswith("app.") and not module.startswith(CONTRACTS)]
    assert not foreign


SERVE = """
import sys
import anyio
from app.asgi import create_app

async def main():
    app = create_app()
    async with app.lifespan():
        pass
    print(sorted({name.split(".")[0] for name in sys.modules} & set(%r)))

anyio.run(main)
"""


@pytest.mark.skipif(not BUILT, reason="no tokenizer data packages")
def test_a_text_server_imports_nothing_heavy(tmp_path: Path) -> None:
    stores = ("sqlalchemy", "alembic", "aiosqlite", "asyncpg")
    heavy = ("torch", "transformers", "pandas", "scipy", "xgrammar", "numpy", "PIL", "httpx", "aiohttp", *stores)
    environ = {
        "ISTHMUS_MODEL": str(model_directory("qwen3")),
        "ISTHMUS_DATABASE_URL": "",
        "ISTHMUS_CACHE": str(tmp_path / "cache"),
        "PATH": "",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", SERVE % (heavy,)], capture_output=True, text=True, env=environ, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_the_app_package_is_light() -> None:
    code = "import sys, app.parsing.format; print('litestar' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_commands_import_what_they_need_when_they_run() -> None:
    code = "import sys, app.cli as c; c.Commands().on_cli_init(c.click.Group()); print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.split() == ["False"], done.stderr
