"""Computes the transforms of a plan: whole columns of a batch, or one row where the rules for single rows decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.appenderator.decoding.batch import Ints
from ingest.appenderator.decoding.plan import PlannedTransform, Source
from segments.arrow_arrays import ArrowArray
from segments.civil import MAX_ROW_TIME_MS, MIN_ROW_TIME_MS
from segments.coercion import shown
from segments.expression.columns import ColumnExpression, Computed
from segments.expression.values import ExpressionFailed, Value, from_json, long_of
from segments.schema import TIME_COLUMN


class Transforms:
    """For one thread. A row that some transform has no value for is unparseable; ``of_rows`` names it as bad, and
    ``of_row`` says why."""

    def __init__(self, planned: tuple[PlannedTransform, ...], time_transform: int | None) -> None:
        self._planned = planned
        self._expressions = [ColumnExpression(item.expression) for item in planned]
        self._time_transform = time_transform

    def of_rows(
        self, column_of: Callable[[Source], list[Any]], times_ms: Ints, bad: npt.NDArray[np.bool_]
    ) -> list[Computed]:
        """Every transform for all rows, from the fields that ``column_of`` gives; marks rows without a value as bad."""
        done: list[Computed] = []
        read: dict[Source, list[Any]] = {}
        for item, expression in zip(self._planned, self._expressions, strict=True):
            inputs: dict[str, list[Any] | ArrowArray] = {}
            for name, source in item.fields:
                inputs[name] = read[source] = read[source] if source in read else column_of(source)
            for name, at in item.earlier:
                earlier = done[at].column
                inputs[name] = done[at].to_list() if earlier is None else earlier
            if TIME_COLUMN in expression.columns:
                inputs[TIME_COLUMN] = pa.array(times_ms)
            computed = expression.of_rows(inputs, len(times_ms))
            bad[list(computed.failed)] = True
            done.append(computed)
        return done

    def times_of(self, done: list[Computed], times_ms: Ints, bad: npt.NDArray[np.bool_]) -> Ints:
        """The rows' times after the transform that replaces them, if there is one; marks rows without one as bad."""
        if self._time_transform is None:
            return times_ms
        replaced = times_ms.copy()
        for at, value in enumerate(done[self._time_transform].to_list()):
            number = _time_of(value)
            if number is None:
                bad[at] = True
            else:
                replaced[at] = number
        return replaced

    def of_row(self, value_of: Callable[[Source], Any], time_ms: int) -> tuple[int, list[Value]]:
        """The row's time and every transform's value.

        Raises:
            ExpressionFailed: with the transform's name and why it has no value.
        """
        values: list[Value] = []
        for item, expression in zip(self._planned, self._expressions, strict=True):
            row: dict[str, Value] = {name: from_json(value_of(source)) for name, source in item.fields}
            row |= {name: values[at] for name, at in item.earlier}
            row[TIME_COLUMN] = time_ms
            try:
                values.append(expression.of_row(row))
            except ExpressionFailed as error:
                raise ExpressionFailed(f"{item.label}: {error}") from error
        if self._time_transform is not None:
            number = _time_of(values[self._time_transform])
            if number is None:
                raise ExpressionFailed(f"transform {TIME_COLUMN!r}: {shown(values[self._time_transform])} is no time")
            time_ms = number
        return time_ms, values


def _time_of(value: Value) -> int | None:
    number = long_of(value)
    return number if number is not None and MIN_ROW_TIME_MS <= number <= MAX_ROW_TIME_MS else None
