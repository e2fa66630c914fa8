"""A plugin can bring a kind of body of its own, and the kit holds it to the same laws."""

from msgspec import Struct

from app.parsing.body import CLOSED, FAILED, LEFT, MORE
from app.parsing.conformance import check_format
from app.parsing.format import Sample, Section, ToolFormat
from app.parsing.heads import Heads, Literals


class Shouts(Struct, frozen=True):
    """``CALL name!``: calls without arguments."""

    literals: tuple[str, ...] = ("CALL {name}!",)

    def bind(self, close, repeat, encode):
        return ShoutsMachine(Heads(self.literals, encode), close)


class ShoutsMachine:
    settled = 0

    def __init__(self, heads, closes):
        self.heads, self.closes, self.close = heads, closes, Literals(closes)

    def step(self, run):
        state = run.state
        while True:
            head = self.heads.match(state.pending, state.cursor)
            if isinstance(head, tuple):
                state.cursor, fields = head
                run.start_call(fields["name"])
                run.arguments("{}")
                run.end_call(True)
                continue
            end = self.close.match(state.pending, state.cursor)
            if head == "partial" or end is None:
                return MORE
            if end >= 0:
                state.cursor = end
                return CLOSED
            return LEFT if state.done else FAILED

    def flush(self, run):
        return False


def test_a_body_of_ones_own_keeps_the_laws():
    check_format(
        ToolFormat(
            name="shouts",
            sections=(Section(open="<shouts>", close=("</shouts>",), body=Shouts()),),
            samples=(
                Sample(
                    text="ok<shouts>CALL now!CALL later!</shouts>Done.",
                    content="okDone.",
                    calls=(("now", "{}"), ("later", "{}")),
                ),
                Sample(text="<shouts>hello", content="<shouts>hello"),
            ),
        )
    )
