"""Hunts for outputs that break the parsing machine: ``python -m tests.fuzz.parsing --seconds 300``.

Samples of all registered formats are cut, spliced and littered with the formats' own markers, brackets, quotes and
escapes. Whatever comes of it: nothing raises, no word is lost, every partition gives the same message, the state stays
bounded. A finding is printed with all that is needed to repeat it.
"""

import argparse
import random
import re
import time
from importlib.metadata import entry_points

from app.parsing.binding import reasoning_literals, tool_literals
from app.parsing.compose import make_parser
from app.parsing.conformance import lost_words, message_of, syntax_words
from app.parsing.format import ReasoningFormat, ToolFormat
from app.parsing.sample_tokenizer import MARKER_TEXT, SampleTokenizer

LITTER = [
    "{", "}", "[", "]", "(", ")", '"', "'", "\\", "\\u00e9", "\\ud83d", "\\ud83d\\ude00", "\\n", ",", ";", ":", "=",
    "\n", " ", "\t", "\n\n", "<", ">", "</", "<|", "|>", "🙂", "上海", "é", "\u2028", "null", "true", "None", "1e5",
    '{"name": "f", "arguments": ', '{"name": "f", "parameters": {}}', '"arguments": "{', "[f(", "x=", "'''", '"""',
    "to=functions.f", "assistant", "```json\n", "```", "word", "another", "x" * 300, " " * 1100,
    "[" * 600, '{"a":' * 40,
]  # fmt: skip
HARMONY_HEADER = re.compile(r"<\|(?:start|channel|constrain)\|>[^<]*")
TOOLS = (
    {"name": "f", "parameters": {"properties": {"x": {"type": "string"}, "n": {"type": "integer"}}}},
    {"name": "g", "parameters": {"properties": {"t": {"type": "array"}, "b": {"type": ["boolean", "null"]}}}},
)
STATE_LIMIT = 400_000
"""Bytes: an attempt holds 65,536 characters, each up to four bytes, and what one chunk of these tests adds."""


def formats():
    """All registered formats once: tool formats and reasoning formats by name."""
    found = {point.name: point.load() for point in entry_points(group="isthmus.formats")}
    tools = {f.name: f for f in found.values() if isinstance(f, ToolFormat)}
    reasoning = {f.name: f for f in found.values() if isinstance(f, ReasoningFormat)}
    return tools, reasoning


def output(rng, seeds, literals):
    """An output that some model might write on its worst day."""
    text = rng.choice(seeds)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
        at, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        match rng.randrange(6):
            case 0:
                text = text[:at]
            case 1:
                text = text[:at] + text[min(end, at + 20) :]
            case 2:
                text = text[:at] + rng.choice(LITTER) + text[at:]
            case 3:
                text = text[:at] + rng.choice(literals) + text[at:]
            case 4:
                text = text[:at] + text[at:end] * rng.choice((2, 2, 3)) + text[end:]
            case 5:
                text = text[:at] + rng.choice(seeds) + text[at:]
    return text[:4000]


def partition(rng, pieces):
    """Random chunks, some of them empty."""
    cuts = sorted(rng.randrange(len(pieces) + 1) for _ in range(rng.choice((1, 2, 5, 20))))
    return [pieces[a:b] for a, b in zip([0, *cuts], [*cuts, len(pieces)], strict=True)]


class Hunt:
    """One format pair's fuzzing."""

    def __init__(self, tool, reasoning, rng):
        self.literals = [*(tool_literals(tool) if tool else ()), *reasoning_literals(reasoning)] or ["<x>"]
        self.pieces_of_literals = [
            part for literal in self.literals for part in literal.replace("}", "{").split("{")[::2]
        ]
        markers = [found[0] for literal in self.literals for found in MARKER_TEXT.finditer(literal)]
        self.tokenizer = SampleTokenizer(
            rng.sample(markers, rng.randrange(len(markers) + 1)) if rng.random() < 0.3 else markers
        )
        self.seeds = [s.text for f in (tool, reasoning) if f for s in f.samples] or ["word"]
        self.kwargs = rng.choice(({}, {"enable_thinking": False}, {"thinking": True}))
        self.parser = make_parser(tool, reasoning, self.tokenizer, tools=TOOLS, template_kwargs=self.kwargs)
        self.syntax = syntax_words(self.literals, tool)
        self.harmony = bool(tool and tool.name == "openai") or bool(reasoning and reasoning.harmony)

    def check(self, rng, text):
        """Raises AssertionError where ``text`` breaks a law."""
        pieces = self.tokenizer.pieces(text)
        whole = message_of(self.parser, [pieces], self.kwargs)
        chunks = partition(rng, pieces)
        cut = message_of(self.parser, chunks, self.kwargs)
        assert cut == whole, f"cut in {[len(chunk) for chunk in chunks]}: {cut} but whole: {whole}"
        single = message_of(self.parser, [[piece] for piece in pieces], self.kwargs) if len(pieces) < 400 else whole
        assert single == whole, f"token by token: {single} but whole: {whole}"
        if not whole.calls:
            lost = lost_words(HARMONY_HEADER.sub(" ", text) if self.harmony else text, whole, self.syntax)
            assert not lost, f"lost {lost}: {whole}"
        state = self.parser.start((), self.kwargs)
        self.parser.feed(state, pieces)
        size = len(self.parser.dump(state))
        assert size <= STATE_LIMIT, f"{size} bytes of state"


def hunt(seconds=None, rounds=None, seed=0):
    """Fuzz for a time or a number of outputs; the number done and the findings."""
    tools, reasoning = formats()
    pairs = [*((t, None) for t in tools.values()), *((None, r) for r in reasoning.values())]
    pairs += [(t, r) for t in tools.values() for r in reasoning.values() if (r.harmony is None) == (t.name != "openai")]
    rng = random.Random(seed)
    done, findings, end = 0, [], time.monotonic() + (seconds or 1e9)
    while time.monotonic() < end and (rounds is None or done < rounds) and len(findings) < 10:
        tool, thought = rng.choice(pairs)
        found = Hunt(tool, thought, rng)
        for _ in range(20):
            text = output(rng, found.seeds, found.pieces_of_literals)
            done += 1
            try:
                found.check(rng, text)
            except Exception as error:
                pair = f"{tool and tool.name} + {thought and thought.name}"
                where = f"{pair}, {found.kwargs}, {len(found.tokenizer.markers)} markers"
                findings.append(f"{where}\n  {text!r}\n  {type(error).__name__}: {error}")
    return done, findings


def main():
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=300)
    options.add_argument("--seed", type=int, default=None, help="drawn and printed where not given")
    args = options.parse_args()
    seed = args.seed if args.seed is not None else random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    done, findings = hunt(seconds=args.seconds, seed=seed)
    print(*findings, f"{done} outputs, {len(findings)} findings", sep="\n")
    raise SystemExit(bool(findings))


if __name__ == "__main__":
    main()
