"""A stranger's package, from its first line to a served model: written, built, installed beside ours, tested, used."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.parsing.package import write_package
from tests.http.live import ROOT, running
from tests.models import BUILT, model_directory

pytestmark = pytest.mark.slow

CALL = 'Let me see.<acme_call>{"name": "add", "arguments": {"a": 1, "b": "<&>"}}</acme_call>'
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


class Environment:
    """A fresh environment that sees ours, as a server's does, and whatever is installed into it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "env", with_pip=False)
        self.folder = folder
        self.python = folder / "env" / "bin" / "python"
        (self.site,) = (folder / "env").glob("lib/python*/site-packages")
        ours = sysconfig.get_paths()["purelib"]
        (self.site / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")

    def run(self, *command: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        known = {"PATH": os.environ["PATH"], "ISTHMUS_CONFIG": os.devnull, "ISTHMUS_DATABASE_URL": ""}
        return subprocess.run(
            [str(self.python), "-m", *command],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=known | environ,
            timeout=120,
        )

    def litestar(self, *command: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        return self.run("litestar", "--app-dir", str(ROOT), *command, **environ)

    def install(self, package: Path) -> None:
        """Build the wheel with the back end that is here, and install that wheel alone."""
        wheels = package / "wheels"
        quiet = ("-q", "--disable-pip-version-check", "--no-deps", "--no-index")
        built = subprocess.run(
            [sys.executable, "-m", "pip", "wheel", *quiet, "--no-build-isolation", "-w", str(wheels), str(package)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert built.returncode == 0, built.stderr
        (wheel,) = wheels.glob("*.whl")
        done = self.run("pip", "install", *quiet, str(wheel))
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_package("acme-format", tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("beside"))
    environment.install(package)
    return environment


def test_its_own_test_passes_on_the_installed_wheel(environment: Environment, package: Path) -> None:
    assert (environment.site / "acme_format").is_dir()
    done = environment.run("pytest", "-q", "-p", "no:cacheprovider", str(package / "tests"))
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_it_is_listed_with_its_distribution(environment: Environment) -> None:
    done = environment.litestar("plugins")
    (row,) = [line.split() for line in done.stdout.splitlines() if "acme" in line]
    assert row == ["tool.acme", "isthmus.formats", "acme-format", "0.1.0", "loaded"]


def post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


@pytest.mark.skipif(not BUILT, reason="no tokenizer data packages")
def test_a_model_is_served_with_it(environment: Environment, tmp_path: Path) -> None:
    settings = {
        "ISTHMUS_MODEL": str(model_directory("qwen3")),
        "ISTHMUS_MODELS__0__NAME": "m",
        "ISTHMUS_MODELS__0__TOOL_FORMAT": "acme",
        "ISTHMUS_MODELS__0__REASONING_FORMAT": "none",
        "ISTHMUS_CACHE": str(tmp_path),
    }
    chat = {"model": "m", "messages": [{"role": "user", "content": "1 + 2?"}], "tools": TOOLS}
    command: Sequence[str] = (str(environment.python), "-m", "litestar")
    with running(settings, litestar=command) as server:
        with urllib.request.urlopen(f"{server.url}/version", timeout=30) as reply:
            plugins = json.load(reply)["plugins"]
        (line,) = [plugin for plugin in plugins if plugin["name"] == "tool.acme"]
        assert (line["distribution"], line["version"], line["state"]) == ("acme-format", "0.1.0", "loaded")
        prompt = post(f"{server.url}/v1/chat/completions/render", chat)
        assert prompt["token_ids"]
        ids = post(f"{server.url}/tokenize", {"model": "m", "prompt": CALL, "add_special_tokens": False})["tokens"]
        reply = post(
            f"{server.url}/v1/chat/completions/derender",
            {
                "model": "m",
                "chat_request": chat,
                "prompt_token_ids": prompt["token_ids"],
                "generate_response": {
                    "request_id": "r",
                    "choices": [{"index": 0, "token_ids": ids, "finish_reason": "stop"}],
                },
            },
        )
        (choice,) = reply["choices"]
        (call,) = choice["message"]["tool_calls"]
        assert choice["message"]["content"] == "Let me see." and choice["finish_reason"] == "tool_calls"
        assert call["function"] == {"name": "add", "arguments": '{"a": 1, "b": "<&>"}'}


def test_a_rival_is_refused_and_an_override_decides(environment: Environment, tmp_path: Path) -> None:
    environment.install(write_package("acme", tmp_path))
    try:
        refused = environment.litestar("plugins")
        assert refused.returncode == 1
        assert "'tool.acme' is brought by" in refused.stderr and "plugin_overrides" in refused.stderr
        assert re.search(r"by acme and by acme-format|by acme-format and by acme;", refused.stderr)
        decided = environment.litestar(
            "plugins", ISTHMUS_PLUGIN_OVERRIDES='{"isthmus.formats:tool.acme": "acme-format"}'
        )
        rows = [line.split() for line in decided.stdout.splitlines() if "tool.acme" in line]
        assert sorted((row[2], row[4]) for row in rows) == [("acme", "overridden"), ("acme-format", "loaded")]
    finally:
        environment.run("pip", "uninstall", "-q", "-y", "acme")


@pytest.mark.skipif(not BUILT, reason="no tokenizer data packages")
def test_a_broken_one_is_listed_and_fails_only_where_it_is_selected(environment: Environment, tmp_path: Path) -> None:
    module = environment.site / "acme_format" / "formats.py"
    sound = module.read_text(encoding="utf-8")
    module.write_text("raise ImportError('no moon')\n", encoding="utf-8")
    settings = {"ISTHMUS_CACHE": str(tmp_path)}
    for number, format in enumerate(("acme", "hermes")):
        settings[f"ISTHMUS_MODELS__{number}__NAME"] = format
        settings[f"ISTHMUS_MODELS__{number}__SOURCE"] = str(model_directory("qwen3"))
        settings[f"ISTHMUS_MODELS__{number}__TOOL_FORMAT"] = format
    try:
        listed = environment.litestar("plugins")
        (row,) = [line for line in listed.stdout.splitlines() if "tool.acme" in line]
        assert listed.returncode == 0 and "broken: ImportError: no moon" in row
        models = environment.litestar("models", **settings)
        fails, loads = sorted(models.stdout.splitlines())
        assert models.returncode == 1 and "acme-format 0.1.0" in fails and "no moon" in fails
        assert loads.startswith("loads: hermes")
    finally:
        module.write_text(sound, encoding="utf-8")
