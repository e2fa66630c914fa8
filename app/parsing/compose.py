"""A tool format, a reasoning format, a tokenizer and one request to the parser of its outputs."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.parsing.format import ReasoningFormat, ToolFormat
from app.parsing.parser import Parser
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("make_parser",)


def make_parser(
    tool_format: ToolFormat | None,
    reasoning_format: ReasoningFormat | None,
    tokenizer: Tokenizer,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: str | Mapping[str, Any] | None = None,
    parallel_tool_calls: bool = True,
    template_kwargs: Mapping[str, Any] | None = None,
    history_tool_calls: int = 0,
) -> Parser:
    """The parser of one request's outputs.

    Args:
        tools: the request's tools in Chat's shape (``{"type": "function", "function": {"name", "parameters"}}``) or flat
            (``{"name", "parameters"}``); their schemas type arguments of formats whose values are bare text.
        tool_choice: ``"none"``, ``"auto"``, ``"required"``, or a named function; None means auto with tools.
            With none, or without tools, calls are not read: their raw text is content.
        parallel_tool_calls: False keeps the first call and drops later ones.
        template_kwargs: the effective chat template kwargs; :meth:`Parser.start` may be given others.
        history_tool_calls: how many calls the conversation already holds (Kimi counts its ids over them).
    """
    raise NotImplementedError
