"""Says how the stored values of a metric unite: Druid's combining aggregators, as segments tell them (pure)."""

from __future__ import annotations

import json
from typing import Any

from segments.schema import TIME_COLUMN
from segments.sketch.shape import HYPER_UNIQUE, SketchKind, SketchShape

_MAX_STREAM_LENGTH = 1_000_000_000
"""Druid's default of a quantiles sketch, which nothing here reads."""


def combining(type_: str, sketch: SketchShape | None, max_bytes: int, time_field: str) -> str:
    """The combining aggregator of a metric without its ``name`` and ``fieldName``, as JSON.

    ``type_`` is the aggregator of the spec, by Druid's name; ``time_field`` and ``max_bytes`` count for first and last.
    """
    return json.dumps(_aggregator(type_, sketch, max_bytes, time_field), separators=(",", ":"))


def _aggregator(type_: str, sketch: SketchShape | None, max_bytes: int, time_field: str) -> dict[str, Any]:
    if sketch is not None:
        return _of_sketch(type_, sketch)
    if type_ == "count":
        return {"type": "longSum"}
    found: dict[str, Any] = {"type": type_}
    if type_.endswith(("First", "Last")):
        found["timeColumn"] = time_field or TIME_COLUMN
    if type_.startswith("string"):
        found["maxStringBytes"] = max_bytes
    return found


def _of_sketch(type_: str, sketch: SketchShape) -> dict[str, Any]:
    if type_ == HYPER_UNIQUE:
        return {"type": HYPER_UNIQUE, "isInputHyperUnique": False, "round": False}
    if sketch.kind is SketchKind.HLL:
        return {"type": "HLLSketchMerge", "lgK": sketch.size, "tgtHllType": sketch.hll_type}
    if sketch.kind is SketchKind.THETA:
        return {"type": "thetaSketch", "size": sketch.size}
    if sketch.kind is SketchKind.QUANTILES:
        return {"type": "quantilesDoublesSketchMerge", "k": sketch.size, "maxStreamLength": _MAX_STREAM_LENGTH}
    return {"type": sketch.kind.value, "nominalEntries": sketch.size, "numberOfValues": sketch.values}
