"""A chat template and a vocabulary to the output format that a model writes, and why; none rather than a guess."""

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from app.parsing.format import ReasoningFormat, ToolFormat

__all__ = ("Recognised", "recognise")

AnyFormat = TypeVar("AnyFormat", ToolFormat, ReasoningFormat)


class Recognised(Struct, frozen=True):
    """What was found: a format's registered name ("" for none) and one sentence that says why."""

    name: str
    why: str


def recognise(
    formats: Mapping[str, AnyFormat], templates: Iterable[str], added_tokens: Collection[str]
) -> tuple[AnyFormat | None, Recognised]:
    """The format whose signature a model shows.

    A signature counts where each of its literals stands in a template or is an added token, and at least one stands in
    a template: a vocabulary alone may hold the tokens of relatives. Of several, the one with the most literals wins,
    then the one with the longest; where two different syntaxes are left, neither does.

    Args:
        formats: candidates by registered name.
        templates: the model's chat templates.
        added_tokens: contents of the vocabulary's added tokens.
    """
    text = "\0".join(templates)
    text += "\0" + text.replace('\\"', '"')  # as it stands in a string of the template
    ranked: list[tuple[tuple[int, int], str, AnyFormat]] = []
    for name, format in sorted(formats.items()):
        signature = format.signature
        if not signature or not all(literal in text or literal in added_tokens for literal in signature):
            continue
        if any(literal in text for literal in signature):
            ranked.append(((len(signature), sum(map(len, signature))), name, format))
    if not ranked:
        return None, Recognised("", "no format's signature stands in the chat template and vocabulary")
    best = max(rank for rank, _, _ in ranked)
    winners = [(name, format) for rank, name, format in ranked if rank == best]
    winner = next((format for name, format in winners if format.name == name), winners[0][1])
    rivals: set[str] = {other.name for _, other in winners if not _same_syntax(other, winner)}
    if rivals:
        either = " or ".join(sorted({winner.name, *rivals}))
        return None, Recognised("", f"the chat template could be that of {either}; name one in the settings")
    shown = " ".join(winner.signature)
    return winner, Recognised(winner.name, f"the chat template and vocabulary show {shown}")


def _same_syntax(one: AnyFormat, other: AnyFormat) -> bool:
    if isinstance(one, ToolFormat) and isinstance(other, ToolFormat):
        return one.sections == other.sections
    if isinstance(one, ReasoningFormat) and isinstance(other, ReasoningFormat):
        return (one.open, one.close, one.starts) == (other.open, other.close, other.starts)
    return False
