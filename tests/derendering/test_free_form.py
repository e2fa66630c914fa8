"""Free-form tools: the input streams out of a JSON string, and never takes anything back."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.dialects.responses.free_form import free_form_input


@given(st.text(max_size=30), st.booleans(), st.sampled_from(["", " ", "\n"]))
def test_every_prefix_tells_a_prefix(value, ascii_, space):
    text = f'{space}{{{space}"input":{space}' + json.dumps(value, ensure_ascii=ascii_) + f"{space}}}"
    told = [free_form_input(text[:at], final=False) for at in range(len(text) + 1)]
    assert all(later.startswith(earlier) for earlier, later in pairwise(told))
    assert told[-1] == free_form_input(text, final=True) == value
    for at in range(len(text)):
        assert free_form_input(text[:at], final=True).startswith(told[at])


@given(st.text('{}"input:\\u0d8 \n1', max_size=40))
def test_nothing_raises_and_nothing_is_taken_back(text):
    told = [free_form_input(text[:at], final=False) for at in range(len(text) + 1)]
    assert all(later.startswith(earlier) for earlier, later in pairwise(told))
    assert free_form_input(text, final=True).startswith(told[-1])


def test_half_a_surrogate_pair_is_no_character():
    assert free_form_input('{"input": "a\\ud83d b\\ude00"}', final=True) == "a\ufffd b\ufffd"
    assert free_form_input('{"input": "a\\ud83d\\ude00', final=False) == "a\U0001f600"


def test_what_is_no_such_call_is_passed_on():
    for text in ("", "plain", '{"input": 1}', '{"other": "x"}', "[]"):
        assert free_form_input(text, final=True) == text
    assert free_form_input('{"a": 1, "input": "x"}', final=True) == "x"
    assert free_form_input('{"input": "cut\\', final=True) == "cut"
