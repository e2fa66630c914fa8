"""The state crosses processes as bytes, and what is no state is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidState
from app.parsing.state import State, dump, load

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT)
def test_pending_text_survives_with_its_markers(text):
    state = State(pending=text, channel=1, spaces=["\n", ""], calls=2)
    assert load(dump(state)) == state


@pytest.mark.parametrize("data", [b"", b"\x00", b"not a state", b"\x91\xa1a"])
def test_foreign_bytes_are_refused(data):
    with pytest.raises(InvalidState):
        load(data)


def test_a_state_is_small():
    assert len(dump(State())) < 60
