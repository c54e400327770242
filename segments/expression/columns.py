"""An expression over many rows: by Arrow where it can be, else row by row, each distinct input once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from segments.arrow_arrays import ArrowArray
from segments.expression.evaluate import checked, compile_tree
from segments.expression.tree import Expression, columns_of
from segments.expression.values import ExpressionFailed, Value, from_json
from segments.expression.vector import NotByColumn, arrow_of, by_column

_NONE: Final = type(None)
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Computed:
    """One value a row: ``column`` of texts, 64-bit integers or doubles, or ``values`` of any kind.

    ``failed`` says why rows have no value; theirs is null.
    """

    column: ArrowArray | None
    values: list[Value] | None
    failed: Mapping[int, str]

    def to_list(self) -> list[Value]:
        """The values row by row."""
        if self.values is not None:
            return self.values
        assert self.column is not None
        listed: list[Value] = self.column.to_pylist()
        return listed


class ColumnExpression:
    """One expression, compiled once. For one thread.

    Raises:
        InvalidExpression: it uses a function that only queries have.
    """

    def __init__(self, tree: Expression) -> None:
        self._tree = tree
        self._evaluate = checked(compile_tree(tree))
        self.columns: tuple[str, ...] = tuple(dict.fromkeys(columns_of(tree)))
        self._by_column = True

    def of_row(self, row: Mapping[str, Value]) -> Value:
        """The value for one row.

        Raises:
            ExpressionFailed: it has none.
        """
        return self._evaluate(row)

    def of_rows(self, inputs: Mapping[str, list[Any] | ArrowArray], rows: int) -> Computed:
        """The values for all rows; ``inputs`` are JSON values or Arrow columns by name, a missing one is null."""
        if self._by_column:
            try:
                columns = {n: arrow_of(v) if isinstance(v, list) else v for n, v in inputs.items()}
                return Computed(by_column(self._tree, columns, rows), None, {})
            except NotByColumn:
                # Most expressions that once needed their rows always do; but a rare text must not decide for ever.
                self._by_column = bool(rows < 100)
        lists = {name: v if isinstance(v, list) else v.to_pylist() for name, v in inputs.items()}
        return self._row_by_row(lists, rows)

    def _row_by_row(self, inputs: Mapping[str, list[Any]], rows: int) -> Computed:
        values: list[Value] = [None] * rows
        failed: dict[int, str] = {}
        if len(inputs) == 1:
            ((name, column),) = inputs.items()
            kinds = set(map(type, column)) - {_NONE}
            if kinds in ({str}, {int}):
                return self._memorised(name, column)
        names = list(inputs)
        for at, row in enumerate(zip(*inputs.values(), strict=True) if inputs else [()] * rows):
            try:
                values[at] = self._evaluate(dict(zip(names, map(from_json, row), strict=True)))
            except ExpressionFailed as error:
                failed[at] = str(error)
        return Computed(None, values, failed)

    def _memorised(self, name: str, column: list[Any]) -> Computed:
        known: dict[Any, Value] = {}
        reasons: dict[Any, str] = {}
        values: list[Value] = []
        failed: dict[int, str] = {}
        for at, item in enumerate(column):
            value = known.get(item, _ABSENT)
            if value is _ABSENT:
                try:
                    value = self._evaluate({name: item})
                except ExpressionFailed as error:
                    value, reasons[item] = None, str(error)
                known[item] = value
            if item in reasons:
                failed[at] = reasons[item]
            values.append(value)
        return Computed(None, values, failed)
