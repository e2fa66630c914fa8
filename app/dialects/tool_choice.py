"""Tool choices of all dialects to one resolved choice, checked against the tools."""

from collections.abc import Sequence
from typing import Literal

from app.dialects.model import DialectModel
from app.errors import InvalidRequest, Unsupported
from app.rendering.conversation import Tool
from app.rendering.request import NamedTool

__all__ = ("ToolChoice", "check_tool_choice")

ToolChoice = Literal["none", "auto", "required"] | NamedTool


def check_tool_choice(
    choice: ToolChoice | None, tools: Sequence[Tool] | None, model: DialectModel, *, param: str = "tool_choice"
) -> None:
    """Refuse a name that is not among the tools, and any call from a model whose calls nothing can read.

    ``choice`` is what the request means: "auto" already where tools are given without a choice.
    """
    if isinstance(choice, NamedTool) and not any(tool.name == choice.name for tool in tools or ()):
        raise InvalidRequest(f"`{param}` names the function '{choice.name}', which `tools` does not have.", param=param)
    if tools and choice != "none" and model.tool_format is None:
        raise Unsupported(
            f"The model '{model.name}' is served without a tool format, so its calls could not be read: "
            'leave out `tools`, or set `tool_choice` to "none".',
            param=param if choice not in (None, "auto") else "tools",
        )
