"""Stop strings: nothing that was given out is cut, and how the pieces arrive changes nothing."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from app.tokenizing.stop_strings import NO_TOKEN, StopState, StopStrings

texts = st.lists(st.text("abE ND", max_size=3), max_size=14)
stops = st.lists(st.text("abEND", min_size=1, max_size=4), max_size=3)


def run(stop, pieces, sizes, announced=None):
    """Released pieces, match, and how many pieces were taken; the state travels between chunks."""
    state, released, taken, at = StopState(), [], 0, 0
    for size in [*sizes, len(pieces)]:
        part = pieces[at : at + size]
        out, match = stop.feed(state, part, announced)
        released += out
        if match is not None:
            return released, match.stop, taken + match.taken
        at += len(part)
        taken += len(part)
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=StopState)
    return released + stop.flush(state), None, taken


def naive(texts, stops, min_tokens):
    """The text up to the stop string that ends first, in a token after the first ``min_tokens``."""
    text = "".join(texts)
    ends = [sum(map(len, texts[: i + 1])) for i in range(len(texts))]
    found = [
        (at + len(s), at, s)
        for s in stops
        for at in range(len(text))
        if text.startswith(s, at) and sum(e < at + len(s) for e in ends) >= min_tokens
    ]
    return min(found, default=None), text


@given(
    texts=texts,
    stops=stops,
    sizes=st.lists(st.integers(1, 4), max_size=6),
    least=st.integers(0, 4),
    include=st.booleans(),
)
def test_any_cut_gives_the_text_before_the_first_match(texts, stops, sizes, least, include):
    pieces = list(enumerate(texts))
    found, whole = naive(texts, stops, least)
    released, stop, taken = run(StopStrings(stops, min_tokens=least, include=include), pieces, sizes)
    text = "".join(t for _, t in released)
    if found is None:
        assert (text, stop, released) == (whole, None, pieces)
    else:
        end, at, which = found
        assert text == whole[: end if include else at]
        assert stop == which
        assert sum(map(len, texts[: taken - 1])) < end <= sum(map(len, texts[:taken]))


@given(texts=texts, stops=stops)
def test_what_is_released_can_no_longer_begin_a_stop_string(texts, stops):
    state, seen = StopState(), ""
    machine = StopStrings(stops)
    for piece in enumerate(texts):
        out, match = machine.feed(state, [piece])
        seen += "".join(t for _, t in out)
        if match is not None:
            return
        held = "".join(t for _, t in state.held)
        assert not any((seen + held).endswith(s[:n]) for s in stops for n in range(len(held) + 1, len(s)))


def test_stop_spanning_two_tokens():
    """B37: the text is cut, the id of the cut piece is gone."""
    pieces = [(1, "a "), (2, "xEN"), (3, "D b"), (4, "c")]
    released, stop, taken = run(StopStrings(["END"]), pieces, [1, 1, 1, 1])
    assert (released, stop, taken) == ([(1, "a "), (NO_TOKEN, "x")], "END", 3)
    released, _, _ = run(StopStrings(["END"], include=True), pieces, [1, 1, 1, 1])
    assert released == [(1, "a "), (2, "xEN"), (NO_TOKEN, "D")]


def test_the_engines_word_decides_between_matches_that_end_together():
    assert run(StopStrings(["b", "ab"]), [(1, "ab")], [1])[1] == "ab"
    assert run(StopStrings(["b", "ab"]), [(1, "ab")], [1], announced="b")[1] == "b"
