"""A row filter as a frozen tree; columns are input field names (pure data).

Logic is SQL's: a comparison with null is unknown, ``not`` of unknown is unknown, and only rows for
which the whole filter is true pass. A multi-value row matches when any of its values does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from segments.expression.tree import Expression


@dataclass(frozen=True, slots=True)
class Constant:
    """Every row or none."""

    passes: bool


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Filter


class Ordering(Enum):
    """How values are compared: as text in code point order, as 64-bit integers or as doubles.

    ``COLUMN`` is the column's own: numbers as numbers, text as text.
    """

    TEXT = "text"
    LONG = "long"
    DOUBLE = "double"
    COLUMN = "column"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The value is one of ``values``; None among them matches null rows."""

    column: str
    values: tuple[str | int | float | None, ...]
    ordering: Ordering = Ordering.COLUMN


@dataclass(frozen=True, slots=True)
class Between:
    """Lower and upper bounds, either may be None for "open"; strict bounds exclude their value."""

    column: str
    lower: str | int | float | None
    upper: str | int | float | None
    lower_strict: bool = False
    upper_strict: bool = False
    ordering: Ordering = Ordering.TEXT


@dataclass(frozen=True, slots=True)
class IsNull:
    column: str


@dataclass(frozen=True, slots=True)
class Matches:
    """The text contains a match of an RE2 pattern (``like`` patterns arrive here anchored)."""

    column: str
    pattern: str


@dataclass(frozen=True, slots=True)
class InIntervals:
    """The column, a time in ms, lies in one of the half-open intervals."""

    column: str
    intervals: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SameValue:
    """All columns hold the same value; compared as text; two nulls are the same."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Holds:
    """An expression is true: a number above 0 or the text ``true``. Whoever evaluates the filter gives its values
    (1, 0 or null) under the name ``column``."""

    expression: Expression

    @property
    def column(self) -> str:
        # No column of a table has such a name.
        return f"\0{self.expression!r}"


@dataclass(frozen=True, slots=True)
class ContainsElement:
    """A list, or a single value, holds the value; None is held by lists with a null in them."""

    column: str
    value: str | int | float | None


@dataclass(frozen=True, slots=True)
class IsTrue:
    """The filter inside is known to be true (``wanted``) or known to be false."""

    part: Filter
    wanted: bool


Filter = (
    Constant
    | And
    | Or
    | Not
    | OneOf
    | Between
    | IsNull
    | Matches
    | InIntervals
    | SameValue
    | Holds
    | ContainsElement
    | IsTrue
)


def columns_of(item: Filter) -> frozenset[str]:
    """Every input field the filter reads; of an expression the name of its own column."""
    if isinstance(item, Constant):
        return frozenset()
    if isinstance(item, And | Or):
        return frozenset().union(*(columns_of(part) for part in item.parts))
    if isinstance(item, Not | IsTrue):
        return columns_of(item.part)
    if isinstance(item, SameValue):
        return frozenset(item.columns)
    return frozenset((item.column,))


def expressions_of(item: Filter) -> Iterator[Holds]:
    """Every expression in a filter."""
    if isinstance(item, Holds):
        yield item
    elif isinstance(item, And | Or):
        for part in item.parts:
            yield from expressions_of(part)
    elif isinstance(item, Not | IsTrue):
        yield from expressions_of(item.part)
