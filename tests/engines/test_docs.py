"""Every option of an engine stands in docs/engines.md with its default."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.engines.fleet.options import FleetOptions
from app.engines.local.engine import LocalOptions

TEXT = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()


@pytest.mark.parametrize(("kind", "options"), [("local", LocalOptions), ("vllm", FleetOptions)], ids=["local", "vllm"])
def test_every_option_is_documented(kind: str, options: Any) -> None:
    section = TEXT.partition(f'## `kind = "{kind}"`')[2].partition("\n## ")[0]
    rows = {name: row for row in section.splitlines() if row.startswith("| `") for name in re.findall(r"`(\w+)`", row)}
    for field in msgspec.structs.fields(options):
        assert field.name in rows
        if isinstance(field.default, bool | int | float) and field.default is not msgspec.NODEFAULT:
            assert f"| {str(field.default).lower()} |" in rows[field.name]
