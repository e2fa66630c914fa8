"""The conformance kit is light, and comes through its entry point alone; packages are written ready for it."""

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import plugins
from app.errors import InvalidRequest
from app.parsing.conformance import check_format
from app.parsing.format import JsonCalls, Sample, Section, ToolFormat
from app.parsing.package import write_package

APP = Path(__file__).parents[2] / "app"
HEAVY = {"aiohttp", "httpx", "litestar", "numpy", "sqlalchemy", "tokenizers", "torch", "transformers"}


def test_it_imports_nothing_heavy() -> None:
    code = "import sys, app.parsing.conformance; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=APP.parent, timeout=60)
    assert "msgspec" in done.stdout.split() and not HEAVY & set(done.stdout.split()), done.stderr


def test_pytest_finds_it_by_its_entry_point_and_nothing_of_the_server_imports_it() -> None:
    assert [point.value for point in entry_points(group="pytest11", name="isthmus")] == ["app.parsing.conformance"]
    importers = {
        path.relative_to(APP).as_posix()
        for path in APP.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.lstrip().startswith(("import", "from")) and ("import pytest" in line or "parsing.conformance" in line)
    }
    assert importers == {"parsing/conformance.py"}


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ("<x>ok", "something else", ()),
        ('<x>{"name": "f", "arguments": {}}</x>', "", (("f", '{"a": 1}'),)),
        ('<x>{"name": "f", "arguments": {"a"', "", (("f", '{"a"'),)),
    ],
)
def test_a_sample_that_is_wrong_fails(text: str, content: str, calls: tuple[tuple[str, str], ...]) -> None:
    section = Section(open="<x>", close=("</x>",), body=JsonCalls())
    samples = (Sample(text=text, content=content, calls=calls),)
    with pytest.raises(AssertionError):
        check_format(ToolFormat(name="x", sections=(section,), samples=samples))


def test_a_format_without_samples_fails() -> None:
    with pytest.raises(AssertionError, match="no samples"):
        check_format(ToolFormat(name="x", sections=()))


@pytest.mark.parametrize(
    ("name", "module", "format"),
    [("acme", "acme", "acme"), ("acme-format", "acme_format", "acme"), ("acme_9-b", "acme_9_b", "acme_9_b")],
)
def test_a_package_is_ready_to_build(tmp_path: Path, name: str, module: str, format: str) -> None:
    folder = write_package(name, tmp_path)
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    (point,) = project["project"]["entry-points"]["isthmus.formats"].items()
    assert point == (f"tool.{format}", f"{module}.formats:{format.upper()}")
    known: dict[str, object] = {}
    exec((folder / module / "formats.py").read_text(encoding="utf-8"), known)
    made = known[format.upper()]
    assert isinstance(made, ToolFormat)
    check_format(made)


@pytest.mark.parametrize("name", ["", "Acme", "9lives", "a b", "../up", "json", "class", "app", "plugins", "a--b"])
def test_names_that_python_or_pip_refuse_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        write_package(name, tmp_path)
    assert caught.value.param == "name" and not list(tmp_path.iterdir())


def test_the_command_writes_one_and_never_over_another(tmp_path: Path) -> None:
    written = CliRunner().invoke(plugins, ["new", "acme", "--into", str(tmp_path)])
    assert written.exit_code == 0 and (tmp_path / "acme" / "tests" / "test_formats.py").is_file()
    again = CliRunner().invoke(plugins, ["new", "acme", "--into", str(tmp_path)])
    assert again.exit_code == 1 and "is there already" in again.output
