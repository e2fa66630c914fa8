"""Laws 1 and 4 over every registered format: hypothesis chooses the output, its cuts and where the state travels."""

from importlib.metadata import entry_points

from hypothesis import given
from hypothesis import strategies as st

from app.parsing.binding import reasoning_literals, tool_literals
from app.parsing.compose import make_parser
from app.parsing.conformance import fold, message_of
from app.parsing.format import ToolFormat
from app.parsing.sample_tokenizer import MARKER_TEXT, SampleTokenizer

FORMATS = [point.load() for point in sorted(entry_points(group="isthmus.formats"), key=lambda point: point.name)]
TOOLS = ({"name": "f", "parameters": {"properties": {"x": {"type": "string"}, "n": {"type": "integer"}}}},)


@st.composite
def outputs(draw):
    format = draw(st.sampled_from(FORMATS))
    tool, reasoning = (format, None) if isinstance(format, ToolFormat) else (None, format)
    literals = [*(tool_literals(tool) if tool else ()), *reasoning_literals(reasoning)]
    markers = [found[0] for literal in literals for found in MARKER_TEXT.finditer(literal)]
    tokenizer = SampleTokenizer(markers if draw(st.booleans()) else ())
    parts = st.sampled_from([sample.text for sample in format.samples]) | st.text("a {}[]<>\"'\\\n:,é", max_size=8)
    text = "".join(draw(st.lists(parts, min_size=1, max_size=3)))
    return make_parser(tool, reasoning, tokenizer, tools=TOOLS if tool else ()), tokenizer.pieces(text)


@given(outputs(), st.data())
def test_cuts_do_not_matter(output, data):
    parser, pieces = output
    cuts = sorted(data.draw(st.lists(st.integers(0, len(pieces)), max_size=8)))
    chunks = [pieces[a:b] for a, b in zip([0, *cuts], [*cuts, len(pieces)], strict=True)]
    assert message_of(parser, chunks, {}) == message_of(parser, [pieces], {})


@given(outputs())
def test_arguments_only_grow_and_calls_stay(output):
    parser, pieces = output
    whole = message_of(parser, [pieces], {})
    state = parser.start((), {})
    streamed = []
    for piece in pieces:
        streamed += parser.feed(state, [piece])
    for end in range(len(streamed)):
        calls = fold(streamed[:end]).calls
        for (name, arguments, _, _), (full_name, full, _, _) in zip(calls, whole.calls, strict=False):
            assert name == full_name and full.startswith(arguments)
