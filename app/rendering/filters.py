"""Jinja's filters and Python's string methods, with their cost counted against a render's budget."""

import functools
import types
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from jinja2.runtime import Context
from jinja2.utils import _PassArg as PassArg
from jinja2.utils import pass_context

from app.rendering.budget import Budget

__all__ = ("BUILTIN_METHOD", "guard_filters", "method_cost")

BUILTIN_METHOD = types.BuiltinMethodType

# fmt: off
CHEAP_FILTERS = frozenset((
    "abs", "attr", "capitalize", "count", "d", "default", "e", "escape", "first", "float", "int", "items",
    "last", "length", "lower", "map", "max", "min", "random", "reject", "rejectattr", "round", "safe",
    "select", "selectattr", "sum", "title", "trim", "upper", "wordcount",
))
# fmt: on
"""Filters whose result is no larger than what they got, or lazy."""


def whole(value: Any) -> int:
    """A count that a filter or method was given."""
    return value if isinstance(value, int) else 0


def lines(text: Any) -> int:
    """Lines of a text, at least one."""
    return 1 + (text.count("\n") if isinstance(text, str) else 0)


def replaced(text: Any, old: Any = "", new: Any = "", *rest: Any) -> int:
    """Length of ``text.replace(old, new)`` at most."""
    if not (isinstance(text, str) and isinstance(old, str) and isinstance(new, str)):
        return 0
    return len(text) + text.count(old) * len(new)


def joined(items: Any, separator: Any = "") -> int:
    """Length of ``separator.join(items)``, of items that are already a list."""
    if not isinstance(items, list | tuple | str):
        return 0
    return sum(len(item) if isinstance(item, str) else 8 for item in items) + len(items) * len(str(separator))


FILTER_COSTS: dict[str, Callable[..., int]] = {
    "batch": lambda value, linecount=0, *_, **__: whole(linecount),
    "center": lambda value, width=80, *_, **__: whole(width),
    "indent": lambda text, width=4, *_, **__: lines(text) * (len(width) if isinstance(width, str) else whole(width)),
    "join": lambda items, d="", *_, **__: joined(items, d),
    "replace": lambda text, *args, **__: replaced(text, *args),
    "slice": lambda value, slices=0, *_, **__: whole(slices) * 64,
}


def guard_filters(filters: MutableMapping[str, Callable[..., Any]]) -> None:
    """Replace every filter that can build much by one that counts."""
    for name, function in list(filters.items()):
        if name not in CHEAP_FILTERS:
            filters[name] = guarded(function, FILTER_COSTS.get(name))


def guarded(function: Callable[..., Any], cost: Callable[..., int] | None) -> Callable[..., Any]:
    """``function`` with its cost counted before the call and its result after."""
    wants = PassArg.from_obj(function)

    @pass_context
    @functools.wraps(function, updated=())
    def call(context: Context, *args: Any, **kwargs: Any) -> Any:
        budget: Budget = context.budget  # type: ignore[attr-defined]
        if cost is not None:
            budget.charge(cost(*args, **kwargs))
        if wants is PassArg.context:
            return budget.built(function(context, *args, **kwargs))
        if wants is PassArg.eval_context:
            return budget.built(function(context.eval_ctx, *args, **kwargs))
        if wants is PassArg.environment:
            return budget.built(function(context.environment, *args, **kwargs))
        return budget.built(function(*args, **kwargs))

    return call


METHOD_COSTS: dict[str, Callable[..., int]] = {
    "ljust": lambda text, width=0, *_: whole(width),
    "rjust": lambda text, width=0, *_: whole(width),
    "center": lambda text, width=0, *_: whole(width),
    "zfill": lambda text, width=0, *_: whole(width),
    "expandtabs": lambda text, tabsize=8: len(text) * whole(tabsize),
    "replace": replaced,
    "to_bytes": lambda number, length=1, *_, **__: whole(length),
    "split": lambda text, *_, **__: len(text),
    "rsplit": lambda text, *_, **__: len(text),
    "splitlines": lambda text, *_, **__: len(text),
    "translate": lambda text, table, *_: len(text) * widest(table),
}


def widest(table: Any) -> int:
    """Length of the longest replacement in a translation table."""
    return max((len(to) for to in table.values() if isinstance(to, str)), default=1) if isinstance(table, dict) else 1


def method_cost(
    budget: Budget, method: types.BuiltinMethodType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Count a call of a built-in method before it is made; gives the arguments to make it with."""
    name = method.__name__
    if name == "join" and args and isinstance(args[0], Iterable):
        items = list(args[0])
        budget.charge(joined(items, method.__self__))
        return (items, *args[1:])
    cost = METHOD_COSTS.get(name)
    if cost is not None:
        budget.charge(cost(method.__self__, *args, **kwargs))
    return args
