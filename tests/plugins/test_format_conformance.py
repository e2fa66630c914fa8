"""Every registered output format keeps the laws on its own samples."""

from importlib.metadata import entry_points

import pytest

from app.parsing.conformance import check_format
from app.parsing.format import ReasoningFormat, ToolFormat

FORMATS = {point.name: point.load() for point in entry_points(group="isthmus.formats") if point.dist.name == "isthmus"}
DISTINCT = {f"{name.split('.')[0]}.{format.name}": format for name, format in FORMATS.items()}
REASONING = {format.name: format for format in FORMATS.values() if isinstance(format, ReasoningFormat)}


@pytest.mark.parametrize("name", sorted(DISTINCT))
def test_keeps_the_laws(name):
    check_format(DISTINCT[name], reasoning=REASONING)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_name_says_what_it_is(name):
    kind = ToolFormat if name.startswith("tool.") else ReasoningFormat
    assert isinstance(FORMATS[name], kind)
