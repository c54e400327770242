"""Makes a row's sketch of the JSON value in the field of a sketch aggregator."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from segments.arrow_arrays import ArrowArray
from segments.coercion import LONG_MAX, LONG_MIN, BadValue, metric_double_of, shown, text_of
from segments.sketch.answers import is_sketch
from segments.sketch.build import row_sketches
from segments.sketch.merge import merge_values
from segments.sketch.shape import SketchKind, SketchShape

_NONE: Final = type(None)


class SketchInput:
    """``stored``: values are sketches in base64. Else a value is hashed as what it is: texts as texts, whole numbers
    as 64-bit integers, others as doubles, booleans and objects as their text; a list counts each of its values.

    A quantiles sketch takes numbers, their texts, and sketches in base64.
    """

    def __init__(self, shape: SketchShape, stored: bool) -> None:
        self._shape = shape
        self._stored = stored

    def at_once(self, values: list[Any]) -> ArrowArray | None:
        """The column where all values are of one simple type; else None.

        Raises:
            OverflowError, pa.ArrowInvalid: an integer beyond 64 bits.
        """
        kinds = set(map(type, values)) - {_NONE}
        if self._stored or len(kinds) > 1:
            return None
        if not kinds:
            return pa.array([None] * len(values), pa.binary())
        kind = kinds.pop()
        if kind is str:
            texts: ArrowArray = pa.array(values, pa.string())
            return (
                row_sketches(self._shape, texts)
                if self._shape.kind is not SketchKind.QUANTILES
                else self._of_texts(texts)
            )
        if kind is int:
            return row_sketches(self._shape, pa.array(values, pa.int64()))
        if kind is float and not np.isinf(np.array(values, dtype=np.float64)).any():
            return row_sketches(self._shape, pa.array(values, pa.float64()))
        return None

    def _of_texts(self, texts: ArrowArray) -> ArrowArray | None:
        """Quantiles of texts that are plain numbers; any other is looked at by itself."""
        plain: ArrowArray = pc.match_substring_regex(texts, r"^[+-]?[0-9]+(?:\.[0-9]+)?$")
        if not pc.all(pc.fill_null(plain, True)).as_py():
            return None
        return row_sketches(self._shape, texts.cast(pa.float64()))

    def coerce(self, value: Any) -> bytes | None:
        """The sketch of one value; None of nothing.

        Raises:
            BadValue: no number, or no sketch, where one is needed.
        """
        if value is None:
            return None
        if isinstance(value, list):
            parts = [part for item in value if (part := self.coerce(item)) is not None]
            return merge_values(self._shape, parts) if parts else None
        if self._stored:
            return self._decoded(value)
        if self._shape.kind is SketchKind.QUANTILES:
            return self._quantiles(value)
        if isinstance(value, bool | dict):
            value = text_of(value)
        elif isinstance(value, int) and not LONG_MIN <= value <= LONG_MAX:
            value = float(value) if abs(value) < 1 << 1023 else text_of(value)
        elif isinstance(value, float) and np.isinf(value):
            raise BadValue("the number is beyond the range of doubles")
        if isinstance(value, str):
            value = text_of(value)
        return self._of(pa.array([value]))

    def _quantiles(self, value: Any) -> bytes | None:
        if value == "":
            return None
        try:
            return self._of(pa.array([metric_double_of(value)], pa.float64()))
        except BadValue:
            if not isinstance(value, str):
                raise
        return self._decoded(value)

    def _of(self, column: ArrowArray) -> bytes | None:
        made: bytes | None = row_sketches(self._shape, column)[0].as_py()
        return made

    def _decoded(self, value: Any) -> bytes | None:
        if value == "":
            return None
        try:
            sketch = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
            if is_sketch(self._shape.kind, sketch):
                # United with nothing it has this column's size, whoever made it.
                return merge_values(self._shape, [sketch])
        except (binascii.Error, ValueError):
            pass
        raise BadValue(f"{shown(value)} is not a {self._shape.kind} in base64")
