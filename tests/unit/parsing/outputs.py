"""Short ways to run a format over an output in tests of the machine."""

from importlib.metadata import entry_points

from app.parsing.binding import reasoning_literals, tool_literals
from app.parsing.compose import make_parser
from app.parsing.conformance import fold
from app.parsing.sample_tokenizer import MARKER_TEXT, SampleTokenizer

FORMATS = {point.name: point for point in entry_points(group="isthmus.formats")}
ANY_TOOL = ({"type": "function", "function": {"name": "any_tool", "parameters": {"type": "object"}}},)


def load(kind, name):
    return FORMATS[f"{kind}.{name}"].load() if name else None


def parser(tool=None, reasoning=None, *, markers=True, tools=ANY_TOOL, **options):
    """The parser and tokenizer of two formats, by name."""
    tool, reasoning = load("tool", tool), load("reasoning", reasoning)
    literals = [*(tool_literals(tool) if tool else ()), *reasoning_literals(reasoning)]
    found = [mark[0] for literal in literals for mark in MARKER_TEXT.finditer(literal)]
    tokenizer = SampleTokenizer(["<|im_start|>", *found] if markers else ["<|im_start|>"])
    return make_parser(tool, reasoning, tokenizer, tools=tools, **options), tokenizer


def read(text, tool=None, reasoning=None, *, size=None, prompt="", kwargs=None, **options):
    """The message of an output, fed whole or in chunks of ``size`` tokens."""
    machine, tokenizer = parser(tool, reasoning, **options)
    state = machine.start(tokenizer.encode(prompt).ids, kwargs or {})
    pieces = tokenizer.pieces(text)
    deltas = []
    for at in range(0, len(pieces), size or len(pieces) or 1):
        deltas += machine.feed(state, pieces[at : at + (size or len(pieces))])
        state = machine.load(machine.dump(state))
    return fold([*deltas, *machine.finish(state)])


def calls(message):
    """(name, arguments) of a message's calls."""
    return [(name, arguments) for name, arguments, _, _ in message.calls]
