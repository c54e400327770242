"""A translated expression: DuckDB text with the Druid type and, where it is known, the value behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from query.sql.types import (
    BIGINT,
    BOOLEAN,
    CHAR,
    DECIMAL,
    DOUBLE,
    INTEGER,
    NULL,
    TIMESTAMP,
    Family,
    SqlType,
)
from segments.civil import MAX_ROW_TIME_MS, MIN_ROW_TIME_MS, format_iso_ms

if TYPE_CHECKING:
    from query.sql.scope import OpenTable

INTEGER_MAX = 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Term:
    """``sql`` is self-contained and safe to place anywhere an operand may stand.

    ``is_constant`` says that ``value`` is its value: text, integer (also milliseconds of a time), float,
    boolean or None. ``time_column`` is the bare zoned column when the term is the milliseconds of one, and
    ``table`` where that column stands: comparisons use it so that files can be pruned. Of a multi-value string that
    was computed member by member ``lists`` are the strings it was computed from, each with the name of its member,
    and ``member`` is what becomes of one member of each.
    """

    sql: str
    type: SqlType
    value: object = None
    is_constant: bool = False
    time_column: str = ""
    table: OpenTable | None = None
    lists: tuple[tuple[str, str], ...] = ()
    member: str = ""

    @property
    def family(self) -> Family:
        """How its type behaves."""
        return self.type.family

    @property
    def is_null(self) -> bool:
        """True for the constant NULL."""
        return self.is_constant and self.value is None

    def typed(self, type_: SqlType) -> Term:
        """The same expression called by another type of the same storage."""
        return replace(self, type=type_)


def text_sql(text: str) -> str:
    """A text as a DuckDB expression."""
    quoted = "'" + text.replace("'", "''") + "'"
    # DuckDB's parser ends a statement at a NUL.
    return quoted if "\0" not in quoted else "(" + quoted.replace("\0", "' || chr(0) || '") + ")"


def text(value: str) -> Term:
    """A text constant."""
    return Term(text_sql(value), CHAR, value, True)


def long(value: int, type_: SqlType | None = None) -> Term:
    """An integer constant; the cast keeps DuckDB from 32-bit arithmetic and from reading an ordinal."""
    kind = type_ or (INTEGER if abs(value) <= INTEGER_MAX else BIGINT)
    return Term(f"CAST({value} AS BIGINT)", kind, value, True)


def double(value: float, type_: SqlType = DOUBLE) -> Term:
    """A floating-point constant."""
    spelled = repr(value) if math.isfinite(value) else text_sql(str(value))
    return Term(f"CAST({spelled} AS DOUBLE)", type_, value, True)


def decimal(spelled: str) -> Term:
    """A number with a point or an exponent."""
    return double(float(spelled), DECIMAL)


def boolean(value: bool) -> Term:
    """TRUE or FALSE."""
    return Term("TRUE" if value else "FALSE", BOOLEAN, value, True)


def null(type_: SqlType = NULL) -> Term:
    """NULL of a type."""
    sql = "NULL" if type_ == NULL else f"CAST(NULL AS {type_.duckdb})"
    return Term(sql, type_, None, True)


def time(value_ms: int, type_: SqlType = TIMESTAMP) -> Term:
    """A constant point in time."""
    return Term(f"CAST({value_ms} AS BIGINT)", type_, value_ms, True)


def zoned_sql(value_ms: int) -> str:
    """A constant of DuckDB's zoned type, to compare a bare time column with."""
    clamped_ms = min(max(value_ms, MIN_ROW_TIME_MS), MAX_ROW_TIME_MS)
    return f"TIMESTAMPTZ '{format_iso_ms(clamped_ms)[:-1].replace('T', ' ')}+00'"


def expression(sql: str, type_: SqlType) -> Term:
    """A computed term; brackets make it one operand."""
    return Term(f"({sql})", type_)


def call(function: str, type_: SqlType, *arguments: str) -> Term:
    """A call of a DuckDB function."""
    return Term(f"{function}({', '.join(arguments)})", type_)


def extreme_sql(name: str, operand: Term, suffix: str) -> str:
    """``min`` or ``max`` of rows; ``suffix`` is the call's FILTER or OVER, or nothing.

    Without one the engine answers from a file's statistics alone when it can. They say nothing about NaN, which it
    therefore takes to be there: the largest of any doubles would be NaN. It does not do so where there is a FILTER.
    """
    reads_rows = " FILTER (WHERE TRUE)" if operand.family is Family.DOUBLE and not suffix else suffix
    return one_zero(Term(f"{name}({operand.sql}){reads_rows}", operand.type)).sql


def one_zero(number: Term) -> Term:
    """A value as groups tell it. The engine's -0.0 and 0.0 are equal, so that either would stand for both of them by
    chance; the sum with 0.0 is 0.0. What is no double stays as it is."""
    if number.family is not Family.DOUBLE or number.is_constant or number.type.multi:
        return number
    return expression(f"{number.sql} + CAST(0.0 AS {number.type.duckdb})", number.type)


def constant(value: object) -> Term:
    """The term of a Python value."""
    if value is None:
        return null()
    if isinstance(value, bool):
        return boolean(value)
    if isinstance(value, int):
        return long(value)
    if isinstance(value, float):
        return double(value)
    return text(str(value))
