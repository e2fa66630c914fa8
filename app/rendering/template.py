"""A chat template's source to a compiled template, and messages to text through it."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from jinja2 import Template, TemplateError, TemplateSyntaxError, meta, nodes

from app.errors import InvalidRequest
from app.rendering.budget import Budget, OutOfBudget, RenderTooLong
from app.rendering.content_format import ContentFormat, content_format
from app.rendering.sandbox import BudgetContext, ChatEnvironment, RaisedByTemplate
from app.rendering.template_code import turns
from app.rendering.template_needs import TemplateNeeds, template_needs

__all__ = ("ChatTemplate", "clock")

MAX_SOURCE = 1 << 20
"""Characters of a template; the longest known have 50,000."""
MACRO_TURNS = 4
"""Loop turns that a macro call counts for."""
SLOW_FILTERS = frozenset({"pprint", "striptags", "urlize", "wordwrap", "xmlattr"})
"""Filters that can run long without a loop turn in the template."""


def clock(now: str) -> Callable[[], datetime]:
    """What ``strftime_now`` reads: the pinned date ``YYYY-MM-DD``, or the time of day where it is empty."""
    if not now:
        return datetime.now
    pinned = datetime.fromisoformat(now)
    return lambda: pinned


class ChatTemplate:
    """One compiled template. Immutable, and safe to render from any thread.

    Attributes:
        source: the template's text.
        variables: names that it reads and does not set itself; only these reach it.
        needs: how it wants tool arguments, absent content and the like.
        content_format: whether it loops over content parts ("openai") or takes a string.
        inline: whether a short render may run on the event loop.

    Raises:
        InvalidRequest: the source is no template; the message is Jinja's, with the line.
    """

    def __init__(self, source: str, *, now: Callable[[], datetime] = datetime.now) -> None:
        if len(source) > MAX_SOURCE:
            raise InvalidRequest(f"A chat template may have {MAX_SOURCE} characters.", param="chat_template")
        self.source = source
        self.environment = ChatEnvironment(now)
        try:
            tree = self.environment.parse(source)
            self.variables = frozenset(meta.find_undeclared_variables(tree))
            self.content_format: ContentFormat = content_format(tree)
            self.needs: TemplateNeeds = template_needs(tree, source)
            self.inline = not any(node.name in SLOW_FILTERS for node in tree.find_all(nodes.Filter))
            count_turns(tree)
            code = self.environment.compile(tree)
            compiled = Template.from_code(self.environment, code, dict(self.environment.globals))
        except TemplateSyntaxError as error:
            raise InvalidRequest(
                f"The chat template cannot be read: {error.message} (line {error.lineno}).", param="chat_template"
            ) from error
        except (TemplateError, SyntaxError, RecursionError, MemoryError, ValueError, OverflowError) as error:
            raise InvalidRequest(f"The chat template cannot be compiled: {error}.", param="chat_template") from error
        self.root = compiled.root_render_func
        self.blocks = compiled.blocks
        self.globals = compiled.globals

    @cached_property
    def takes_late_system(self) -> bool:
        """Whether a system message after the first user's stays in its place, tried once."""
        roles = ("user", "assistant", "system", "user")
        words = ("alpha", "beta", "gamma", "delta")
        messages = [{"role": role, "content": word} for role, word in zip(roles, words, strict=True)]
        places = [self.attempt(messages).find(word) for word in words]
        return -1 not in places and places == sorted(places)

    @cached_property
    def honours_no_effort(self) -> bool:
        """Whether ``reasoning_effort="none"`` changes what it writes, tried once."""
        messages = [{"role": "user", "content": "alpha"}]
        off = self.attempt(messages, reasoning_effort="none", enable_thinking=False)
        return off not in ("", self.attempt(messages, reasoning_effort="low", enable_thinking=True))

    def attempt(self, messages: list[dict[str, Any]], **values: Any) -> str:
        """The text for a probe, or "" where the template refuses it."""
        values = {"bos_token": "", "eos_token": "", "tools": None, "documents": None, **values}
        try:
            return self.render({"messages": messages, "add_generation_prompt": True, **values}, Budget(seconds=1))
        except InvalidRequest:
            return ""

    def render(self, values: Mapping[str, Any], budget: Budget) -> str:
        """The text for ``values``.

        Raises:
            InvalidRequest: the template refused (``raise_exception``, its own words), failed, or cost too much.
            RenderTooLong: an inline budget ran out; the render must be done again in a thread.
        """
        context = BudgetContext(self.environment, {**self.globals, **values}, None, self.blocks)
        context.budget = budget
        try:
            return budget.output(list(self.root(context)))
        except RaisedByTemplate as error:
            raise InvalidRequest(str(error.message), param="messages") from error
        except RenderTooLong:
            raise
        except OutOfBudget as error:
            raise InvalidRequest(f"The chat template {error}.", param="chat_template") from error
        except RecursionError as error:
            raise InvalidRequest("The chat template calls itself without end.", param="chat_template") from error
        except MemoryError as error:
            raise InvalidRequest("The chat template builds too large a value.", param="chat_template") from error
        except Exception as error:
            raise InvalidRequest(f"The chat template failed: {error}", param="messages") from error


def count_turns(tree: nodes.Template) -> None:
    """Count turns in front of each loop's, macro's and call block's body."""
    bodies: list[nodes.For | nodes.Macro | nodes.CallBlock] = [
        *tree.find_all(nodes.For),
        *tree.find_all(nodes.Macro),
        *tree.find_all(nodes.CallBlock),
    ]
    for node in bodies:
        node.body[:0] = [turns(1 if isinstance(node, nodes.For) else MACRO_TURNS, node.lineno)]
