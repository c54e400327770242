"""Computes whole columns by Arrow where that surely gives what the function of one row gives; else says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from segments.arrow_arrays import ArrowArray, nulls
from segments.civil import MAX_ROW_TIME_MS, MIN_ROW_TIME_MS
from segments.errors import InvalidInterval
from segments.expression.functions_time import granularity_of, zone_name
from segments.expression.tree import Binary, Call, Constant, Expression, Identifier, Unary
from segments.expression.values import ExpressionFailed
from segments.filter.parse import like_to_pattern
from segments.truncation import truncate_array

Columns = Mapping[str, ArrowArray]

_REPEAT: Final[Any] = pa.repeat
_STRING, _LONG, _DOUBLE, _TRUTH = pa.string(), pa.int64(), pa.float64(), pa.bool_()


class NotByColumn(Exception):
    """The expression, or these columns, need the function of one row."""


def by_column(tree: Expression, columns: Columns, rows: int) -> ArrowArray:
    """The column of an expression over columns of texts, 64-bit integers and doubles: one of these types.

    Raises:
        NotByColumn: a value might differ from the function of one row, or raise there.
    """
    try:
        result = _Vector(columns, rows).of(tree)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, InvalidInterval, ExpressionFailed) as error:
        # Overflow, division by zero, a time outside of the calendar: row by row the reason is found.
        raise NotByColumn from error
    return result.cast(_LONG) if result.type == _TRUTH else result


class _Vector:
    def __init__(self, columns: Columns, rows: int) -> None:
        self._columns = columns
        self._rows = rows

    def of(self, tree: Expression) -> ArrowArray:
        if isinstance(tree, Constant) and tree.value is not None:
            kind = _STRING if isinstance(tree.value, str) else _LONG if isinstance(tree.value, int) else _DOUBLE
            return _REPEAT(pa.scalar(tree.value, kind), self._rows)
        if isinstance(tree, Identifier):
            found = self._columns.get(tree.name)
            return nulls(self._rows, _STRING) if found is None else found
        if isinstance(tree, Unary):
            operand = self.of(tree.operand)
            if tree.operator == "!":
                return pc.invert(_truth(operand))
            if operand.type not in (_LONG, _DOUBLE):
                raise NotByColumn
            return pc.negate_checked(operand)
        if isinstance(tree, Binary):
            return self._binary(tree)
        if isinstance(tree, Call) and tree.name in _CALLS:
            return _CALLS[tree.name](self, tree)
        raise NotByColumn

    def _binary(self, tree: Binary) -> ArrowArray:
        left, right = self.of(tree.left), self.of(tree.right)
        if tree.operator in ("&&", "||"):
            combine: Any = pc.and_kleene if tree.operator == "&&" else pc.or_kleene
            return combine(_truth(left), _truth(right))
        left, right = _paired(_number(left), _number(right))
        if tree.operator in _COMPARISONS:
            return _COMPARISONS[tree.operator](left, right)
        if left.type == _STRING:
            if tree.operator != "+":
                raise NotByColumn
            return pc.binary_join_element_wise(left, right, "")
        if tree.operator not in _ARITHMETIC:
            raise NotByColumn
        if tree.operator == "/" and left.type == _DOUBLE:
            # By zero a double has an infinity, which the checked division refuses.
            return pc.divide(left, right)
        return _ARITHMETIC[tree.operator](left, right)

    # ------------------------------------------------------------ functions

    def upper(self, tree: Call) -> ArrowArray:
        return pc.ascii_upper(_plain(self._text(tree.arguments[0])))

    def lower(self, tree: Call) -> ArrowArray:
        return pc.ascii_lower(_plain(self._text(tree.arguments[0])))

    def strlen(self, tree: Call) -> ArrowArray:
        return pc.utf8_length(self._text(tree.arguments[0])).cast(_LONG)

    def concat(self, tree: Call) -> ArrowArray:
        if not tree.arguments:
            raise NotByColumn
        parts = [self._text(argument) for argument in tree.arguments]
        joined: ArrowArray = pc.binary_join_element_wise(*parts, "")
        return joined

    def isnull(self, tree: Call) -> ArrowArray:
        return pc.is_null(self.of(tree.arguments[0]))

    def notnull(self, tree: Call) -> ArrowArray:
        return pc.is_valid(self.of(tree.arguments[0]))

    def coalesce(self, tree: Call) -> ArrowArray:
        parts = [self.of(argument) for argument in tree.arguments]
        if len({part.type for part in parts}) > 1:
            raise NotByColumn
        return pc.coalesce(*parts)

    def choice(self, tree: Call) -> ArrowArray:
        test, then, otherwise = tree.arguments
        return self._chosen(test, self.of(then), self.of(otherwise))

    def case_searched(self, tree: Call) -> ArrowArray:
        *pairs, last = tree.arguments
        if len(pairs) % 2:
            raise NotByColumn
        result = self.of(last)
        for at in range(len(pairs) - 2, -1, -2):
            result = self._chosen(pairs[at], self.of(pairs[at + 1]), result)
        return result

    def _chosen(self, test: Expression, then: ArrowArray, otherwise: ArrowArray) -> ArrowArray:
        if then.type != otherwise.type or then.type == _TRUTH:
            raise NotByColumn
        return pc.if_else(pc.fill_null(_truth(self.of(test)), False), then, otherwise)

    def like(self, tree: Call) -> ArrowArray:
        escape = _constant(tree, 2) if len(tree.arguments) > 2 else None
        if escape is not None and len(escape) != 1:
            raise NotByColumn
        return pc.match_substring_regex(self._text(tree.arguments[0]), like_to_pattern(_constant(tree, 1), escape))

    def contains(self, tree: Call) -> ArrowArray:
        return pc.match_substring(self._text(tree.arguments[0]), _constant(tree, 1))

    def timestamp_floor(self, tree: Call) -> ArrowArray:
        given = [a for a in tree.arguments[2:] if not (isinstance(a, Constant) and a.value is None)]
        zone = "UTC"
        if len(tree.arguments) == 4 and len(given) == 1:
            zone = zone_name(_constant(tree, 3))
        elif given:
            raise NotByColumn
        return truncate_array(granularity_of(_constant(tree, 1), None, zone), self._times(tree))

    def timestamp_extract(self, tree: Call) -> ArrowArray:
        unit = _constant(tree, 1).upper()
        if unit not in _UNITS or (len(tree.arguments) > 2 and _constant(tree, 2) not in ("UTC", "Z")):
            raise NotByColumn
        return _UNITS[unit](self._times(tree).cast(pa.timestamp("ms"))).cast(_LONG)

    def _times(self, tree: Call) -> ArrowArray:
        times = self.of(tree.arguments[0])
        if times.type != _LONG:
            raise NotByColumn
        bounds: Any = pc.min_max(times).as_py()
        if bounds["min"] is not None and not MIN_ROW_TIME_MS <= bounds["min"] <= bounds["max"] <= MAX_ROW_TIME_MS:
            raise NotByColumn
        return times

    def cast(self, tree: Call) -> ArrowArray:
        operand, kind = self.of(tree.arguments[0]), _constant(tree, 1).upper()
        if operand.type == _TRUTH:
            operand = operand.cast(_LONG)
        wanted = {"STRING": _STRING, "LONG": _LONG, "DOUBLE": _DOUBLE}.get(kind)
        if operand.type == wanted:
            return operand
        if operand.type == _LONG and wanted is not None:
            return operand.cast(wanted, safe=False)
        raise NotByColumn

    def absolute(self, tree: Call) -> ArrowArray:
        operand = self.of(tree.arguments[0])
        if operand.type not in (_LONG, _DOUBLE):
            raise NotByColumn
        return pc.abs_checked(operand)

    def _text(self, tree: Expression) -> ArrowArray:
        column = self.of(tree)
        if column.type == _DOUBLE:
            # Java's spelling is not Arrow's.
            raise NotByColumn
        return _number(column).cast(_STRING)


def _constant(tree: Call, at: int) -> str:
    argument = tree.arguments[at]
    if isinstance(argument, Constant) and isinstance(argument.value, str):
        return argument.value
    raise NotByColumn


def _truth(column: ArrowArray) -> ArrowArray:
    if column.type == _TRUTH:
        return column
    if column.type == _STRING:
        return pc.equal(pc.ascii_lower(_plain(column)), pa.scalar("true"))
    return pc.greater(column, pa.scalar(0, column.type))


def _number(column: ArrowArray) -> ArrowArray:
    return column.cast(_LONG) if column.type == _TRUTH else column


def _paired(left: ArrowArray, right: ArrowArray) -> tuple[ArrowArray, ArrowArray]:
    """Both as texts, as whole numbers or as doubles; a text beside a number needs its row."""
    if left.type == right.type:
        return left, right
    if _STRING in (left.type, right.type):
        if left.null_count == len(left) or right.null_count == len(right):
            # What is null everywhere has no type of its own.
            kind = right.type if left.null_count == len(left) else left.type
            empty = nulls(len(left), kind)
            return (empty, right) if left.null_count == len(left) else (left, empty)
        raise NotByColumn
    return left.cast(_DOUBLE, safe=False), right.cast(_DOUBLE, safe=False)


def _plain(column: ArrowArray) -> ArrowArray:
    """The texts, if all are ASCII: Arrow changes the case of others in its own way."""
    if pc.any(pc.invert(pc.string_is_ascii(column))).as_py():
        raise NotByColumn
    return column


_COMPARISONS: Final[Mapping[str, Callable[[ArrowArray, ArrowArray], ArrowArray]]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "==": pc.equal,
    "!=": pc.not_equal,
}
_ARITHMETIC: Final[Mapping[str, Callable[[ArrowArray, ArrowArray], ArrowArray]]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
}
_UNITS: Final[Mapping[str, Callable[[ArrowArray], ArrowArray]]] = {
    "SECOND": pc.second,
    "MINUTE": pc.minute,
    "HOUR": pc.hour,
    "DAY": pc.day,
    "DOY": pc.day_of_year,
    "WEEK": pc.iso_week,
    "MONTH": pc.month,
    "QUARTER": pc.quarter,
    "YEAR": pc.year,
}
_CALLS: Final[Mapping[str, Callable[[_Vector, Call], ArrowArray]]] = {
    "abs": _Vector.absolute,
    "case_searched": _Vector.case_searched,
    "cast": _Vector.cast,
    "coalesce": _Vector.coalesce,
    "concat": _Vector.concat,
    "contains_string": _Vector.contains,
    "if": _Vector.choice,
    "isnull": _Vector.isnull,
    "like": _Vector.like,
    "lower": _Vector.lower,
    "notnull": _Vector.notnull,
    "nvl": _Vector.coalesce,
    "strlen": _Vector.strlen,
    "timestamp_extract": _Vector.timestamp_extract,
    "timestamp_floor": _Vector.timestamp_floor,
    "upper": _Vector.upper,
}


def arrow_of(values: list[Any]) -> ArrowArray:
    """The values as a column of one type: texts, 64-bit integers (truth as 1 and 0) or doubles.

    Raises:
        NotByColumn: they are of several types, or of none of these.
    """
    kinds = set(map(type, values)) - {type(None)}
    try:
        if not kinds or kinds == {str}:
            return pa.array(values, _STRING)
        if kinds == {int}:
            return pa.array(values, _LONG)
        if kinds == {float}:
            return pa.array(values, _DOUBLE)
        if kinds == {bool}:
            return pa.array(values, _TRUTH).cast(_LONG)
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid) as error:
        raise NotByColumn from error
    raise NotByColumn
