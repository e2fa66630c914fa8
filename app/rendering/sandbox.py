"""Jinja in Hugging Face's immutable sandbox, compiled so that every render keeps to a budget.

The environment is the one chat templates are written for (``transformers.utils.chat_template_utils``): ``trim_blocks``,
``lstrip_blocks``, loop controls, ``{% generation %}``, ``tojson`` that leaves text readable, ``raise_exception`` and
``strftime_now``. The code generator adds one call to each loop turn and macro, and routes what can grow (``+``, ``~``,
``*``, ``**``, ``%``, slices, filters, methods) through the render's :class:`app.rendering.budget.Budget`.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.compiler import CodeGenerator, Frame, optimizeconst
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from app.rendering.budget import Budget
from app.rendering.filters import BUILTIN_METHOD, guard_filters, method_cost

__all__ = ("BudgetContext", "ChatEnvironment", "RaisedByTemplate")

TICK = "\0tick"
MAX_WIDTH = 10_000
"""Columns that a format may pad to."""
DICT_ATTRIBUTES = frozenset(dir(dict))
STR_METHODS = frozenset(name for name in dir(str) if not name.startswith("_")) - {"format", "format_map"}
LOOP_ATTRIBUTES = frozenset(
    ("index", "index0", "first", "last", "length", "depth", "depth0", "revindex", "revindex0", "previtem", "nextitem")
)
CHEAP_METHODS = frozenset(
    ("startswith", "endswith", "strip", "lstrip", "rstrip", "get", "items", "keys", "values", "lower", "upper", "find")
)
"""Methods that build nothing larger than what they got."""
WIDTHS = re.compile(r"\d{5,}|\*|:[^{}]*\{")


class RaisedByTemplate(TemplateError):
    """The template itself refused the conversation (``raise_exception``)."""


class BudgetContext(Context):
    """A render's variables with its budget, which the compiled code finds here."""

    budget: Budget


class Generation(Extension):
    """``{% generation %}`` marks what the model said, for training; rendering passes it through."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The body stands where the tag stood."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return [nodes.Scope(body).set_lineno(line)]


class BudgetedCode(CodeGenerator):
    """Jinja's code generator with a budget call where a template can run long or build much."""

    def write_commons(self) -> None:
        super().write_commons()
        for line in (
            "budget = context.budget",
            "tick = budget.tick",
            "add = budget.add",
            "built = budget.built",
            "concat = budget.concat",
            "str_join = budget.str_join",
        ):
            self.writeline(line)

    def visit_ExprStmt(self, node: nodes.ExprStmt, frame: Frame) -> None:
        if isinstance(node.node, nodes.Const) and node.node.value == TICK:
            self.writeline("tick()")
        else:
            super().visit_ExprStmt(node, frame)

    @optimizeconst
    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        if node.attr in DICT_ATTRIBUTES:
            super().visit_Getattr(node, frame)
        else:
            self.entry(node.node, node.attr, frame, "getattr")

    @optimizeconst
    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if isinstance(node.arg, nodes.Slice):
            self.write("built(")
            super().visit_Getitem(node, frame)
            self.write(")")
        elif isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            self.entry(node.node, node.arg.value, frame, "getitem")
        else:
            super().visit_Getitem(node, frame)

    def entry(self, of: nodes.Expr, key: str, frame: Frame, otherwise: str) -> None:
        """A mapping's entry, which messages and tools are, read in place; all else through the environment."""
        self.write(f"(_of[{key!r}] if type((_of := ")
        self.visit(of, frame)
        self.write(f")) is dict and {key!r} in _of else environment.{otherwise}(_of, {key!r}))")

    @optimizeconst
    def visit_Add(self, node: nodes.BinExpr, frame: Frame) -> None:
        terms: list[nodes.Expr] = []
        left: nodes.Expr = node
        while isinstance(left, nodes.Add):
            terms.append(left.right)
            left = left.left
        terms.append(left)
        self.write("add((")
        for term in reversed(terms):
            self.visit(term, frame)
            self.write(", ")
        self.write("))")


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
        if type(obj) is dict and attribute not in DICT_ATTRIBUTES:
            try:
                return obj[attribute]
            except KeyError:
                return Undefined(obj=obj, name=attribute)
        if (
            (type(obj) is str and attribute in STR_METHODS)
            or type(obj) is Namespace
            or (type(obj) is LoopContext and attribute in LOOP_ATTRIBUTES)
        ):
            try:
                return getattr(obj, attribute)
            except AttributeError:
                return Undefined(obj=obj, name=attribute)
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
