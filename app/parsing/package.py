"""A name to a plugin package: a folder with an output format, its samples, its test and what pip needs to build it."""

import keyword
import re
import sys
from pathlib import Path

from app.errors import InvalidRequest

__all__ = ("write_package",)

NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
TAKEN = frozenset({"app", "plugins", "tests", *keyword.kwlist, *sys.stdlib_module_names})
"""Modules that a package can't be."""

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{distribution}"
version = "0.1.0"
description = "The {format} output format for Isthmus."
readme = "README.md"
requires-python = ">=3.11"
# Isthmus is the host: it is there wherever this package is of use, so pip need not look for it.
dependencies = []

[project.optional-dependencies]
test = ["pytest"]

[project.entry-points."isthmus.formats"]
"tool.{format}" = "{module}.formats:{constant}"

[tool.setuptools]
packages = ["{module}"]
"""

INIT = '''\
"""Output formats for Isthmus."""
'''

FORMATS = '''\
"""How {format} models write tool calls."""

from app.parsing.format import JsonCalls, Sample, Section, ToolFormat

__all__ = ("{constant}",)

{constant} = ToolFormat(
    name="{format}",
    sections=(Section(open="<{format}_call>", close=("</{format}_call>",), body=JsonCalls()),),
    signature=("<{format}_call>", "</{format}_call>"),
    samples=(
        Sample(
            text='Let me see.<{format}_call>{{"name": "add", "arguments": {{"a": 1}}}}</{format}_call>',
            content="Let me see.",
            calls=(("add", '{{"a": 1}}'),),
        ),
        Sample(text="No call here.", content="No call here."),
        Sample(text='<{format}_call>{{"name": "now", "arguments": {{', calls=(("now", "{{"),), complete=False),
    ),
)
'''

TEST = '''\
"""The format keeps the laws; ``conforms`` comes with Isthmus, as a pytest plugin."""

from {module}.formats import {constant}


def test_{format}(conforms):
    conforms({constant})
'''

README = """\
# {distribution}

The `{format}` output format for Isthmus.

```sh
pip install {distribution}
litestar plugins
```

The first beside Isthmus; the second then lists `tool.{format}`. Serve a model with it:

```toml
[[models]]
name = "{format}"
source = "/models/{format}"
tool_format = "{format}"
```

`{module}/formats.py` holds the format as data; `pytest` puts its samples to the laws that every format keeps.
"""


def write_package(name: str, into: Path) -> Path:
    """Write a package ``name`` (``acme-format``) into a new folder of that name in ``into``; returns the folder.

    Raises:
        InvalidRequest: the name is none that pip and Python take, or the folder is there already.
    """
    if not NAME.fullmatch(name):
        raise InvalidRequest(f"{name!r} is no package name: small letters, digits and single hyphens.", param="name")
    module = name.replace("-", "_")
    if module in TAKEN:
        raise InvalidRequest(f"A Python module can't be called {module}; try {name}-format.", param="name")
    format = module.removesuffix("_format")
    names = {
        "distribution": name.replace("_", "-"),
        "module": module,
        "format": format,
        "constant": format.upper(),
    }
    folder = into / name
    if folder.exists():
        raise InvalidRequest(f"{folder} is there already.", param="name")
    files = {
        "pyproject.toml": PYPROJECT,
        "README.md": README,
        f"{module}/__init__.py": INIT,
        f"{module}/formats.py": FORMATS,
        "tests/test_formats.py": TEST,
    }
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.format(**names), encoding="utf-8")
    return folder
