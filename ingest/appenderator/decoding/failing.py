"""Values that a flattening program has not for some record: null, and the record is counted as bad in that field."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.appenderator.decoding.plan import Source, value_at
from ingest.spec.json_path import is_program
from ingest.spec.json_path_program import Failed
from segments.expression.values import ExpressionFailed


def marked(values: list[Any], source: Source, bad: npt.NDArray[np.bool_]) -> list[Any]:
    """The values with null in place of those that a program failed for, whose rows are marked as bad."""
    if not is_program(source.rest):
        return values
    failed = [at for at, value in enumerate(values) if isinstance(value, Failed)]
    if not failed:
        return values
    bad[failed] = True
    return [None if isinstance(value, Failed) else value for value in values]


def value_of(source: Source, document: dict[str, Any]) -> Any:
    """``value_at`` for what cannot go without the value.

    Raises:
        ExpressionFailed: a program failed for this record.
    """
    value = value_at(source, document)
    if isinstance(value, Failed):
        raise ExpressionFailed(value.reason)
    return value
