"""Turns an expression's tree into a function of one row; what it gives decides, however columns are computed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from segments.errors import InvalidExpression
from segments.expression import (
    functions_address,
    functions_choice,
    functions_json,
    functions_list,
    functions_math,
    functions_text,
    functions_time,
)
from segments.expression.functions import ARITIES, QUERY_ONLY
from segments.expression.operators import binary, inverted, negated
from segments.expression.parser import parse_expression
from segments.expression.tree import (
    ArrayConstant,
    Binary,
    Call,
    Constant,
    Expression,
    Identifier,
    Lambda,
    Unary,
    columns_of,
)
from segments.expression.values import Evaluator, ExpressionFailed, Function, Row, Value, truth_of

_FUNCTIONS: dict[str, Function] = {
    **functions_address.FUNCTIONS,
    **functions_choice.FUNCTIONS,
    **functions_json.FUNCTIONS,
    **functions_list.FUNCTIONS,
    **functions_math.FUNCTIONS,
    **functions_text.FUNCTIONS,
    **functions_time.FUNCTIONS,
}
_LAMBDAS = functions_list.LAMBDAS


@lru_cache(maxsize=1_000)
def evaluator_of(text: str) -> tuple[Evaluator, tuple[str, ...]]:
    """The function of a row that an expression's text means, and the columns it reads.

    The function raises ``ExpressionFailed`` where a row has no value, and nothing else.

    Raises:
        InvalidExpression: it is none, or uses a function that only queries have.
    """
    tree = parse_expression(text)
    return checked(compile_tree(tree)), tuple(dict.fromkeys(columns_of(tree)))


def checked(evaluator: Evaluator) -> Evaluator:
    """The same function, that raises nothing but ``ExpressionFailed``."""

    def evaluate(row: Row) -> Value:
        try:
            return evaluator(row)
        except ExpressionFailed:
            raise
        except (ArithmeticError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            # An argument of a type that its function does not take.
            raise ExpressionFailed(f"no value: {error}") from error

    return evaluate


def compile_tree(tree: Expression) -> Evaluator:
    """The function of a row of one tree.

    Raises:
        InvalidExpression: it uses a function that only queries have.
    """
    if isinstance(tree, Constant):
        constant = tree.value
        return lambda row: constant
    if isinstance(tree, ArrayConstant):
        members = list(tree.values)
        return lambda row: members
    if isinstance(tree, Identifier):
        name = tree.name
        return lambda row: row.get(name)
    if isinstance(tree, Unary):
        operand, apply = compile_tree(tree.operand), negated if tree.operator == "-" else inverted
        return lambda row: apply(operand(row))
    if isinstance(tree, Binary):
        return _binary(tree)
    if isinstance(tree, Call):
        return _call(tree)
    raise InvalidExpression("a lambda stands only as the first argument of a function that takes one")


def _binary(tree: Binary) -> Evaluator:
    left, right = compile_tree(tree.left), compile_tree(tree.right)
    if tree.operator in ("&&", "||"):
        return _logic(tree.operator == "&&", left, right)
    apply = binary(tree.operator)
    return lambda row: apply(left(row), right(row))


def _logic(conjunction: bool, left: Evaluator, right: Evaluator) -> Evaluator:
    """Three-valued, and the right is not asked where the left decides."""

    def evaluate(row: Row) -> Value:
        one = truth_of(left(row))
        if one is (not conjunction):
            return int(one)
        other = truth_of(right(row))
        if other is (not conjunction):
            return int(other)
        return None if one is None or other is None else int(conjunction)

    return evaluate


def _call(tree: Call) -> Evaluator:
    if tree.name in QUERY_ONLY:
        raise InvalidExpression(f"function {tree.name!r} works in queries, not at ingestion")
    if tree.name in _LAMBDAS:
        first, *others = tree.arguments
        assert isinstance(first, Lambda), "the parser takes nothing else there"
        return _with_lambda(_LAMBDAS[tree.name], first, [compile_tree(argument) for argument in others])
    arguments = [compile_tree(argument) for argument in tree.arguments]
    special = functions_choice.LAZY.get(tree.name)
    if special is not None:
        return special(arguments)
    function = _FUNCTIONS[tree.name]
    if len(arguments) == 1:
        (only,) = arguments
        return lambda row: function((only(row),))
    return lambda row: function([argument(row) for argument in arguments])


def _with_lambda(function: Any, item: Lambda, arguments: list[Evaluator]) -> Evaluator:
    body, names = compile_tree(item.body), item.parameters

    def evaluate(row: Row) -> Value:
        def apply(*values: Value) -> Value:
            return body(_Scope(row, dict(zip(names, values, strict=True))))

        return function(apply, len(names), [argument(row) for argument in arguments])

    return evaluate


class _Scope(Mapping[str, Value]):
    """A row with a lambda's parameters before it."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, outer: Row, inner: dict[str, Value]) -> None:
        self._outer = outer
        self._inner = inner

    def get(self, key: str, default: Any = None) -> Value:
        return self._inner[key] if key in self._inner else self._outer.get(key, default)

    def __getitem__(self, key: str) -> Value:
        return self._inner[key] if key in self._inner else self._outer[key]

    def __iter__(self) -> Any:
        return iter({**self._outer, **self._inner})

    def __len__(self) -> int:
        return len({**self._outer, **self._inner})


def unknown_functions() -> list[str]:
    """Names of the grammar that are neither built nor named as a query's own."""
    known = {*_FUNCTIONS, *_LAMBDAS, *functions_choice.LAZY, *QUERY_ONLY}
    return sorted(set(ARITIES) - known)
