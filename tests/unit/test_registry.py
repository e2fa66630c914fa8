"""Entry points to plugins: duplicates refused with both owners, broken ones isolated and listed."""

import sys
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

import pytest

from app.errors import StartupError
from app.registry import GROUPS, Registry


class Owner(Distribution):
    """A distribution that exists only here."""

    def __init__(self, name: str, version: str = "1.0") -> None:
        self.text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        return self.text if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


def point(name: str, owner: str, value: str = "json:loads", group: str = "isthmus.formats") -> EntryPoint:
    found = EntryPoint(name, value, group)
    vars(found).update(dist=Owner(owner))
    return found


def test_a_duplicate_is_refused_and_both_owners_are_named() -> None:
    with pytest.raises(StartupError, match="isthmus-fork") as caught:
        Registry(found=[point("tool.hermes", "isthmus"), point("tool.hermes", "isthmus-fork")])
    assert "isthmus and" in caught.value.message and "tool.hermes" in caught.value.message


def test_an_override_decides_and_the_loser_is_listed() -> None:
    found = [point("tool.hermes", "isthmus"), point("tool.hermes", "fork", "json:dumps")]
    registry = Registry({"isthmus.formats:tool.hermes": "fork"}, found=found)
    assert registry.get("isthmus.formats", "tool.hermes").__name__ == "dumps"
    assert [(line.distribution, line.state) for line in registry.listing()] == [
        ("fork", "loaded"),
        ("isthmus", "overridden"),
    ]


@pytest.mark.parametrize(
    "override", [{"isthmus.formats:tool.hermes": "nobody"}, {"isthmus.formats:tool.absent": "isthmus"}]
)
def test_an_override_that_names_nothing_is_refused(override: dict[str, str]) -> None:
    with pytest.raises(StartupError, match="plugin_overrides"):
        Registry(override, found=[point("tool.hermes", "isthmus"), point("tool.hermes", "fork")])


def test_the_same_entry_point_found_twice_is_one() -> None:
    assert Registry(found=[point("a", "isthmus"), point("a", "isthmus")]).names("isthmus.formats") == ["a"]


def test_a_broken_plugin_fails_only_where_it_is_selected() -> None:
    registry = Registry(found=[point("broken", "third", "no_such_module:X"), point("good", "isthmus")])
    assert list(registry.find("isthmus.formats")) == ["good"]
    with pytest.raises(StartupError, match=r"broken of third 1\.0 does not load: ModuleNotFoundError"):
        registry.get("isthmus.formats", "broken")
    lines = {line.name: line for line in registry.listing()}
    assert lines["broken"].state == "broken" and "no_such_module" in lines["broken"].error
    assert lines["good"].state == "loaded" and lines["good"].version == "1.0"


def test_loading_is_lazy() -> None:
    sys.modules.pop("this", None)
    registry = Registry(found=[point("a", "isthmus", "antigravity_of_tests:X")])
    assert registry.names("isthmus.formats") == ["a"]
    assert registry.listing()[0].state == "available"


def test_an_absent_name_suggests_the_nearest() -> None:
    with pytest.raises(StartupError, match=r"did you mean tool\.hermes"):
        Registry(found=[point("tool.hermes", "isthmus")]).get("isthmus.formats", "tool.herms")


def test_a_checkout_that_was_never_installed_says_so() -> None:
    with pytest.raises(StartupError, match="pip install -e"):
        Registry(found=[]).get("isthmus.formats", "tool.hermes")


def test_in_tree_plugins_come_through_the_same_door() -> None:
    registry = Registry()
    assert "local" in registry.names("isthmus.engines")
    assert all(line.group in GROUPS and line.version for line in registry.listing())
