"""Names what an expression is made of, once it is parsed (pure data)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal: text, a whole number, a floating-point number or null."""

    value: str | int | float | None


@dataclass(frozen=True, slots=True)
class ArrayConstant:
    """A literal array. ``element`` is STRING, LONG or DOUBLE; values are of that kind or null."""

    values: tuple[str | int | float | None, ...]
    element: str


@dataclass(frozen=True, slots=True)
class Identifier:
    """A column, or the parameter of a lambda around it; the exact name without quotes."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary:
    """``-`` or ``!`` before an operand."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """One of ``^ * / % + - < <= > >= == != && ||`` between two operands."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Lambda:
    """``(x, y) -> body``, the first argument of map, filter and the like."""

    parameters: tuple[str, ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A function of ``functions.ARITIES``; ``name`` in lower case, arguments counted against that table."""

    name: str
    arguments: tuple[Expression, ...]


Expression = Constant | ArrayConstant | Identifier | Unary | Binary | Lambda | Call


def columns_of(tree: Expression, bound: frozenset[str] = frozenset()) -> Iterator[str]:
    """Names of the columns an expression reads, each as often as it stands there; ``bound`` are lambda parameters."""
    if isinstance(tree, Identifier) and tree.name not in bound:
        yield tree.name
    elif isinstance(tree, Unary):
        yield from columns_of(tree.operand, bound)
    elif isinstance(tree, Binary):
        yield from columns_of(tree.left, bound)
        yield from columns_of(tree.right, bound)
    elif isinstance(tree, Lambda):
        yield from columns_of(tree.body, bound | set(tree.parameters))
    elif isinstance(tree, Call):
        for argument in tree.arguments:
            yield from columns_of(argument, bound)


def calls_of(tree: Expression) -> Iterator[Call]:
    """Every call in an expression."""
    if isinstance(tree, Unary):
        yield from calls_of(tree.operand)
    elif isinstance(tree, Binary):
        yield from calls_of(tree.left)
        yield from calls_of(tree.right)
    elif isinstance(tree, Lambda):
        yield from calls_of(tree.body)
    elif isinstance(tree, Call):
        yield tree
        for argument in tree.arguments:
            yield from calls_of(argument)
