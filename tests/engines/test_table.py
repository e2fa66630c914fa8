"""What an operator writes into an ``[[engines]]`` table, right and wrong."""

from typing import Any

import pytest

from app.engines.fleet.options import FleetOptions, read_options
from app.engines.local.engine import LocalOptions
from app.engines.table import read_table
from app.errors import StartupError


@pytest.mark.parametrize("urls", [["http://a", "http://b"], "http://a,http://b", " http://a , http://b,"])
def test_words_between_commas_are_a_list(urls: Any) -> None:
    assert read_options({"urls": urls, "retries": 3}) == FleetOptions(urls=["http://a", "http://b"], retries=3)


def test_a_text_may_hold_commas() -> None:
    assert read_table({"source": "a,b"}, LocalOptions).source == "a,b"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "http://a"}, "url: there is no such option; did you mean urls?"),
        ({"xyzzy": 1}, "xyzzy: there is no such option"),
        ({"urls": [1]}, "urls[0]: expected str, got int"),
        ({"urls": ["http://a"], "retries": "many"}, "retries: expected int, got str"),
        ({"urls": ["10.0.0.1"]}, "'10.0.0.1' is no http URL"),
        ({"urls": 3}, "urls: expected array, got int"),
        ({}, "give either urls or, with roles, decode"),
        ({"urls": ["http://a"], "decode": ["http://b"]}, "give either urls or, with roles, decode"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_key(options: dict[str, Any], said: str) -> None:
    with pytest.raises(StartupError) as caught:
        read_options(options)
    assert caught.value.message == said
