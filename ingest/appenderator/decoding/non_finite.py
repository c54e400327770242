"""Which formats hold NaN and infinities as values, and how columns keep them exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ingest.appenderator.decoding.plan import Kind
from ingest.spec.formats import AvroFileFormat, AvroFormat, KafkaFormat, ProtobufFormat
from ingest.spec.model import InputFormat, JsonFormat
from segments.coercion import java_double

_FLOATS = frozenset({Kind.DOUBLE, Kind.FLOAT, Kind.METRIC_DOUBLE, Kind.METRIC_FLOAT, Kind.AUTO})


def holds_non_finite(form: InputFormat) -> bool:
    """Whether a float of this format may be NaN or infinite by itself, not for being too large to read."""
    if isinstance(form, KafkaFormat):
        return holds_non_finite(form.value) or (form.key is not None and holds_non_finite(form.key))
    if isinstance(form, JsonFormat):
        return "ALLOW_NON_NUMERIC_NUMBERS" in form.features
    return isinstance(form, AvroFormat | AvroFileFormat | ProtobufFormat)


def keeping(kind: Kind, coerce: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The coercion of a column that takes such floats as they are; a text is Java's spelling, a long has none."""
    if kind is Kind.STRING:
        return lambda value: coerce(_with_texts(value))
    if kind in (Kind.AUTO, Kind.DOUBLE_ARRAY):
        return lambda value: _with_members(value, coerce, is_array=kind is Kind.DOUBLE_ARRAY)
    if kind in _FLOATS:
        return lambda value: value if _is_non_finite(value) else coerce(value)
    return coerce


def _with_members(value: Any, coerce: Callable[[Any], Any], *, is_array: bool) -> Any:
    """The value with such floats as they are, alone or in a list; the rest as ``coerce`` has it."""
    if _is_non_finite(value):
        return [value] if is_array else value
    if not isinstance(value, list) or not any(map(_is_non_finite, value)):
        return coerce(value)
    kept = coerce([0.0 if _is_non_finite(item) else item for item in value])
    if not isinstance(kept, list) or any(isinstance(item, dict | list) for item in value):
        # Nested data has no such numbers.
        return coerce(value)
    return [item if _is_non_finite(item) else one for item, one in zip(value, kept, strict=True)]


def _is_non_finite(value: Any) -> bool:
    return type(value) is float and not math.isfinite(value)


def _with_texts(value: Any) -> Any:
    if isinstance(value, list):
        return [java_double(item) if _is_non_finite(item) else item for item in value]
    return java_double(value) if _is_non_finite(value) else value
