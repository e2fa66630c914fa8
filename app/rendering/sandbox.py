"""Jinja in Hugging Face's immutable sandbox, compiled so that every render keeps to a budget.

The environment is the one chat templates are written for (``transformers.utils.chat_template_utils``): ``trim_blocks``,
``lstrip_blocks``, loop controls, ``{% generation %}``, ``tojson`` that leaves text readable, ``raise_exception`` and
``strftime_now``. What can run long or grow goes through the render's :class:`app.rendering.budget.Budget`, as
:mod:`app.rendering.template_code` compiles it.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, missing

from app.rendering.budget import Budget
from app.rendering.filters import BUILTIN_METHOD, guard_filters, method_cost
from app.rendering.template_code import CHEAP_METHODS, DICT_ATTRIBUTES, LOOP_ATTRIBUTES, BudgetedCode

__all__ = ("BudgetContext", "ChatEnvironment", "RaisedByTemplate")

MAX_WIDTH = 10_000
"""Columns that a format may pad to."""
STR_METHODS = frozenset(name for name in dir(str) if not name.startswith("_")) - {"format", "format_map"}
WIDTHS = re.compile(r"\d{5,}|\*|:[^{}]*\{")


class RaisedByTemplate(TemplateError):
    """The template itself refused the conversation (``raise_exception``)."""


class BudgetContext(Context):
    """A render's variables with its budget, which the compiled code finds here."""

    budget: Budget


class Variables(Namespace):
    """``namespace()``, as jinja's own, its entries where :meth:`ChatEnvironment.getattr` finds them at once."""

    __getattribute__ = object.__getattribute__

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *given = args
        self.__dict__.update(*given, **kwargs)

    def __setitem__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __repr__(self) -> str:
        return f"<Namespace {self.__dict__!r}>"


class Generation(Extension):
    """``{% generation %}`` marks what the model said, for training; rendering passes it through."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The body stands where the tag stood."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return [nodes.Scope(body).set_lineno(line)]


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as Hugging Face's filter of this name writes it: no HTML escapes, keys in their own order.

    Stand-ins of :mod:`app.rendering.provenance` (lone surrogates) are never escaped.
    """
    if indent is not None and isinstance(indent, int) and indent > 64:
        raise TemplateError("tojson indents by at most 64")
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    if ensure_ascii and "\\ud" in text:
        text = re.sub(r"(?<!\\ud[89ab][0-9a-f]{2})\\ud([c-f][0-9a-f]{2})", lambda m: chr(int("d" + m[1], 16)), text)
    return text


def raise_exception(message: str) -> None:
    """End the render with ``message``."""
    raise RaisedByTemplate(message)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The environment of chat templates; ``now`` gives the time that ``strftime_now`` writes."""

    code_generator_class = BudgetedCode
    context_class = BudgetContext
    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self, now: Callable[[], datetime] = datetime.now) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        self.filters["tojson"] = tojson
        guard_filters(self.filters)
        self.globals["namespace"] = Variables
        self.globals["raise_exception"] = raise_exception
        self.globals["strftime_now"] = lambda format: now().strftime(format)
        self.globals.pop("lipsum")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """``*``, ``**`` and ``%``, which build large values from small ones."""
        budget: Budget = context.budget  # type: ignore[attr-defined]
        if operator == "*":
            return budget.times(left, right)
        if operator == "**":
            return budget.power(left, right)
        if isinstance(left, str) and WIDTHS.search(left):
            raise TemplateError("a format pads too far")
        return budget.built(left % right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """``obj.attribute``; what is sure to be safe goes without the sandbox's search."""
        kind = type(obj)
        if kind is Variables or (kind is dict and attribute not in DICT_ATTRIBUTES):
            value = (obj if kind is dict else obj.__dict__).get(attribute, missing)
            return Undefined(obj=obj, name=attribute) if value is missing else value
        if (kind is str and attribute in STR_METHODS) or (kind is LoopContext and attribute in LOOP_ATTRIBUTES):
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """``str.format``, without widths that fill the memory."""
        if type(value) is BUILTIN_METHOD and value.__name__ in ("format", "format_map"):
            owner = value.__self__
            if isinstance(owner, str) and WIDTHS.search(owner):
                raise TemplateError("a format pads too far")
            return super().wrap_str_format(value)
        return None

    def call(  # type: ignore[override]
        __self,
        __context: BudgetContext,
        __obj: Any,
        *args: Any,
        _loop_vars: Mapping[str, Any] | None = None,
        _block_vars: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call a method or function; methods of built-in types are counted before and after."""
        budget = __context.budget
        if __obj is Variables:
            return Variables(*args, **kwargs)
        if type(__obj) is BUILTIN_METHOD:
            if __obj.__name__ in CHEAP_METHODS:
                return __obj(*args, **kwargs)
            args = method_cost(budget, __obj, args, kwargs)
            return budget.built(__obj(*args, **kwargs))
        if _loop_vars:
            kwargs["_loop_vars"] = _loop_vars
        if _block_vars:
            kwargs["_block_vars"] = _block_vars
        return budget.built(super().call(__context, __obj, *args, **kwargs))
