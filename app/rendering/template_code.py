"""A chat template's syntax tree to Python code that keeps to a budget, and reads mappings, loops and texts in place.

Jinja's code generator with three differences. Each loop turn and macro is counted. What can grow (``+``, ``~``,
slices) goes through the render's :class:`app.rendering.budget.Budget`. And what nearly every line of a chat template
does, ``message.role``, ``loop.first``, ``content.startswith("…")``, ``x is defined``, is written out as Python where
the value's type makes it safe; any other type goes through the sandbox as ever.
"""

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, optimizeconst

__all__ = ("CHEAP_METHODS", "DICT_ATTRIBUTES", "LOOP_ATTRIBUTES", "BudgetedCode", "turns")

DICT_ATTRIBUTES = frozenset(dir(dict))
LOOP_ATTRIBUTES = frozenset(
    ("index", "index0", "first", "last", "length", "depth", "depth0", "revindex", "revindex0", "previtem", "nextitem")
)
METHOD_TYPES = {
    **dict.fromkeys(("startswith", "endswith", "strip", "lstrip", "rstrip", "lower", "upper", "find"), "str"),
    **dict.fromkeys(("get", "items", "keys", "values"), "dict"),
}
CHEAP_METHODS = frozenset(METHOD_TYPES)
"""Methods that build nothing larger than what they got."""
PLAIN_TESTS = {
    "defined": ("not isinstance(", ", Undefined)"),
    "undefined": ("isinstance(", ", Undefined)"),
    "string": ("isinstance(", ", str)"),
    "none": ("", " is None"),
    "true": ("", " is True"),
    "false": ("", " is False"),
}
"""Jinja's own tests as what they are in Python."""
TURNS = "\0turns"


def turns(count: int, lineno: int) -> nodes.Stmt:
    """A statement that counts ``count`` turns."""
    return nodes.ExprStmt(nodes.Const((TURNS, count)), lineno=lineno)


class BudgetedCode(CodeGenerator):
    """Writes the code; the budget is found in the render's context."""

    def write_commons(self) -> None:
        """What every function of the template begins with."""
        super().write_commons()
        for line in (
            "budget = context.budget",
            "add = budget.add",
            "built = budget.built",
            "concat = budget.concat",
            "str_join = budget.str_join",
        ):
            self.writeline(line)

    def visit_ExprStmt(self, node: nodes.ExprStmt, frame: Frame) -> None:
        """Turns are counted where they are taken, without a call."""
        match node.node:
            case nodes.Const(value=(str(word), int(count))) if word == TURNS:
                self.writeline(f"budget.left -= {count}")
                self.writeline("if budget.left < 0: budget.look()")
            case _:
                super().visit_ExprStmt(node, frame)

    @optimizeconst
    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        """``a.b``."""
        if node.attr in DICT_ATTRIBUTES:
            super().visit_Getattr(node, frame)
        elif node.attr in LOOP_ATTRIBUTES and isinstance(node.node, nodes.Name) and node.node.name == "loop":
            self.write(f"(_of.{node.attr} if type((_of := ")
            self.visit(node.node, frame)
            self.write(f")) is LoopContext else environment.getattr(_of, {node.attr!r}))")
        else:
            self.entry(node.node, node.attr, frame, "getattr")

    @optimizeconst
    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        """``a['b']`` and slices."""
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
    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:
        """``a.b(…)``."""
        method = node.node
        if forward_caller or not isinstance(method, nodes.Getattr) or not is_plain(node):
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        arguments = [repr(argument.as_const()) for argument in node.args]
        self.write(f"(_of.{method.attr}({', '.join(arguments)}) if type((_of := ")
        self.visit(method.node, frame)
        called = ["context", f"environment.getattr(_of, {method.attr!r})", *arguments]
        if frame.loop_frame:
            called.append("_loop_vars=_loop_vars")
        self.write(f")) is {METHOD_TYPES[method.attr]} else environment.call({', '.join(called)}))")

    @optimizeconst
    def visit_Test(self, node: nodes.Test, frame: Frame) -> None:
        """``a is b``."""
        if node.name not in PLAIN_TESTS or node.args or node.kwargs or node.dyn_args or node.dyn_kwargs:
            super().visit_Test(node, frame)
            return
        before, after = PLAIN_TESTS[node.name]
        self.write(f"({before}")
        self.visit(node.node, frame)
        self.write(f"{after})")

    @optimizeconst
    def visit_Add(self, node: nodes.BinExpr, frame: Frame) -> None:
        """``a + b + c``, in one step."""
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


def is_plain(call: nodes.Call) -> bool:
    """Whether a call is of a method that needs no budget, with nothing but constants for arguments."""
    method = call.node
    return (
        isinstance(method, nodes.Getattr)
        and method.attr in METHOD_TYPES
        and not (call.kwargs or call.dyn_args or call.dyn_kwargs)
        and all(isinstance(argument, nodes.Const) for argument in call.args)
    )
