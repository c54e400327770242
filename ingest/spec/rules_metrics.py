"""The rules of a spec's metricsSpec: which aggregators work at ingestion, and what those hold that do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from ingest.spec.edge import MetricEdge
from ingest.spec.model import Metric
from ingest.spec.notes import PLACEHOLDER, Notes, read_block
from ingest.spec.rules_transform import read_expression
from segments.filter.model import And, Filter
from segments.filter.parse import parse_filter
from segments.schema import RESERVED_PREFIX, TIME_COLUMN, is_column_name
from segments.sketch.shape import HLL_TYPES, HYPER_UNIQUE, SketchKind, SketchShape

_NAME_RULE: Final = f" that holds no NUL character and does not begin with {RESERVED_PREFIX}"
_NUMBERS: Final = tuple(
    f"{kind}{how}" for kind in ("long", "double", "float") for how in ("Sum", "Min", "Max", "First", "Last", "Any")
)
_TEXTS: Final = ("stringFirst", "stringLast", "stringAny")
_SKETCHES: Final = {
    HYPER_UNIQUE: SketchKind.HLL,
    "HLLSketchBuild": SketchKind.HLL,
    "HLLSketchMerge": SketchKind.HLL,
    "thetaSketch": SketchKind.THETA,
    "quantilesDoublesSketch": SketchKind.QUANTILES,
    "arrayOfDoublesSketch": SketchKind.TUPLE,
}
METRIC_TYPES: Final = ("count", *_NUMBERS, *_TEXTS, *_SKETCHES)
# As in Druid these aggregate at query time only.
_QUERY_ONLY: Final = {"cardinality": "use hyperUnique or HLLSketchBuild", "doubleMean": "use doubleSum and count"}
_DEEPEST: Final = 32


def read_metrics(blocks: list[MetricEdge], path: str, notes: Notes) -> Iterator[Metric]:
    """The aggregators that have no fault."""
    for at, block in enumerate(blocks):
        metric = _metric(block, f"{path}[{at}]", notes)
        if metric is not None:
            yield metric


def _metric(block: MetricEdge, where: str, notes: Notes, depth: int = 0) -> Metric | None:
    if block.type == "filtered":
        return _filtered(block, where, notes, depth)
    if block.type in _QUERY_ONLY:
        rule = "aggregates at query time only, as in Druid"
        notes.problem(f"{where}.type", block.type, rule, _QUERY_ONLY[block.type])
        return None
    if block.type not in METRIC_TYPES:
        cure = (
            "use count; long, double or float with Sum, Min, Max, First, Last or Any; string with First, Last or Any; "
        )
        notes.refused(f"{where}.type", block.type, "this aggregator", cure + f"filtered; {', '.join(_SKETCHES)}")
        return None
    if block.name is None or block.name == TIME_COLUMN or not is_column_name(block.name):
        rule = f"must be a name other than {TIME_COLUMN}{_NAME_RULE}"
        notes.problem(f"{where}.name", block.name, rule, "name the metric")
        return None
    if block.type == "count":
        return Metric(block.name, block.type)
    if block.expression is not None:
        return _computed(block, where, notes)
    if not block.field_name:
        notes.problem(f"{where}.fieldName", block.field_name, "is required", "name the input field")
        return None
    metric = Metric(block.name, block.type, block.field_name)
    if block.type in _SKETCHES:
        return _sketched(metric, block, where, notes)
    return _ordered(metric, block, where, notes)


def _computed(block: MetricEdge, where: str, notes: Notes) -> Metric | None:
    """An aggregator over an expression in the place of a field."""
    path = f"{where}.expression"
    if block.field_name:
        notes.problem(path, block.expression, "stands beside fieldName", "keep one of them")
        return None
    if block.type not in _NUMBERS:
        notes.refused(path, block.expression, f"an expression of {block.type}", "name a transform in fieldName")
        return None
    if not isinstance(block.expression, str):
        notes.problem(path, block.expression, "must be an expression as text", "write one, such as a + b")
        return None
    tree = read_expression(block.expression, path, notes)
    if tree is None:
        return None
    return _ordered(Metric(str(block.name), str(block.type), expression=tree), block, where, notes)


def _ordered(metric: Metric, block: MetricEdge, where: str, notes: Notes) -> Metric:
    """What first, last and texts add."""
    by_time = metric.type.endswith(("First", "Last"))
    if block.time_column not in (None, TIME_COLUMN):
        if by_time:
            metric = replace(metric, time_field=block.time_column)
        else:
            notes.warn(f"{where}.timeColumn has no effect on {metric.type}")
    if block.max_string_bytes is not None and metric.type in _TEXTS:
        if block.max_string_bytes < 0:
            notes.problem(f"{where}.maxStringBytes", block.max_string_bytes, "must not be negative", "use 1024")
        metric = replace(metric, max_bytes=block.max_string_bytes)
    return metric


def _sketched(metric: Metric, block: MetricEdge, where: str, notes: Notes) -> Metric | None:
    kind = _SKETCHES[metric.type]
    if block.is_input_hyper_unique:
        what = "reading Druid's own hyperUnique values"
        notes.refused(
            f"{where}.isInputHyperUnique", True, what, "send the values themselves, or HLLSketchMerge's sketches"
        )
        return None
    numbers = tuple(block.metric_columns or ()) if kind is SketchKind.TUPLE else ()
    field, size = _size(metric.type, block)
    tgt_type, encoding = block.tgt_hll_type or "HLL_4", (block.string_encoding or "utf16le").lower()
    if kind is SketchKind.HLL and tgt_type not in HLL_TYPES:
        notes.problem(f"{where}.tgtHllType", tgt_type, "is not known", f"use one of {', '.join(HLL_TYPES)}")
        return None
    if kind is SketchKind.HLL and encoding not in ("utf16le", "utf8"):
        notes.problem(f"{where}.stringEncoding", encoding, "is not known", "use utf16le or utf8")
        return None
    values = block.number_of_values if block.number_of_values is not None else len(numbers) or 1
    if numbers and values != len(numbers):
        rule = f"is not the number of metricColumns, {len(numbers)}"
        notes.problem(f"{where}.numberOfValues", values, rule, "leave it out")
        return None
    if kind is SketchKind.TUPLE and not 1 <= values <= 255:
        notes.problem(f"{where}.numberOfValues", values, "must be from 1 to 255", "correct it, or leave it out")
        return None
    default = SketchShape.default(kind)
    try:
        shape = SketchShape(
            kind,
            default.size if size is None else size,
            hll_type=tgt_type,
            encoding=encoding,
            values=values if kind is SketchKind.TUPLE else 0,
        )
    except ValueError as error:
        notes.problem(f"{where}.{field}", size, str(error), "leave it out")
        return None
    stored = metric.type == "HLLSketchMerge" or block.is_input_theta_sketch
    stored = stored or (kind is SketchKind.TUPLE and not numbers)
    return replace(metric, sketch=shape, stored_input=stored, numbers=numbers)


def _size(kind: str, block: MetricEdge) -> tuple[str, int | None]:
    """The field that sizes a sketch, and what it says."""
    if kind == "quantilesDoublesSketch":
        return "k", block.k
    if kind == "thetaSketch":
        return "size", block.size
    if kind == "arrayOfDoublesSketch":
        return "nominalEntries", block.nominal_entries
    return "lgK", None if kind == HYPER_UNIQUE else block.lg_k


def _filtered(block: MetricEdge, where: str, notes: Notes, depth: int) -> Metric | None:
    if block.aggregator is None or depth > _DEEPEST:
        rule = "is required" if block.aggregator is None else "is nested too deeply"
        notes.problem(f"{where}.aggregator", block.aggregator, rule, "put an aggregator into it")
        return None
    row_filter, problems = parse_filter(block.filter, f"{where}.filter")
    for problem in problems:
        notes.problem(*problem)
    inside: dict[str, Any] = dict(block.aggregator)
    if block.name and block.name != PLACEHOLDER:
        # As in Druid the outer name counts, if there is one.
        inside["name"] = block.name
    path = f"{where}.aggregator"
    metric = _metric(read_block(MetricEdge, inside, path, notes), path, notes, depth + 1)
    if metric is None or row_filter is None:
        return None
    both: Filter = row_filter if metric.filter is None else And((row_filter, metric.filter))
    return replace(metric, filter=both)
