"""docs/api.md names every public endpoint, and its Python runs."""

import json
import re
from pathlib import Path

import anthropic
import openai

from tests.sdk.live import END, Live

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
PUBLIC = {"chat completions", "completions", "responses", "conversations", "messages"}


def test_every_public_endpoint_is_named() -> None:
    paths = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))["paths"]
    public = [path for path, methods in paths.items() if any(PUBLIC & set(one["tags"]) for one in methods.values())]
    assert len(public) > 10
    for path in public:
        assert path in PAGE or (path.startswith("/v1/conversations/") and "its `/items`" in PAGE), path


def test_the_snippet_runs(server: Live) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    engine = server.says(f"Hello{END}")
    code = snippet.replace("http://127.0.0.1:8000", server.url).replace('"demo"', '"m"').replace('"a-key"', '"key-a"')
    names: dict[str, object] = {}
    exec(compile(code, "docs/api.md", "exec"), names)
    assert len(engine.requests) == 3
    assert isinstance(names["client"], anthropic.Anthropic) and names["OpenAI"] is openai.OpenAI
    names["client"].close()
