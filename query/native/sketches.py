"""Aggregators that make sketches, and post-aggregators that ask them, by Druid's names."""

from __future__ import annotations

from collections.abc import Callable

from query.errors import InvalidQuery
from query.native.request import Part
from query.sql import sketches as s
from query.sql import term as t
from query.sql.frame import Session
from query.sql.functions_sketch import JSON
from query.sql.term import Term
from query.sql.types import BIGINT, DOUBLE, VARCHAR, SqlType, array_of
from segments.sketch.shape import SketchKind, SketchShape

HLL, THETA, QUANTILES, TUPLE = SketchKind.HLL, SketchKind.THETA, SketchKind.QUANTILES, SketchKind.TUPLE
AGGREGATORS = {
    "HLLSketchBuild": HLL,
    "HLLSketchMerge": HLL,
    "HLLSketch": HLL,
    "hyperUnique": HLL,
    "thetaSketch": THETA,
    "quantilesDoublesSketch": QUANTILES,
    "quantilesDoublesSketchMerge": QUANTILES,
    "arrayOfDoublesSketch": TUPLE,
    "sketchBuild": THETA,
    "sketchMerge": THETA,
    "KllDoublesSketch": QUANTILES,
    "KllDoublesSketchMerge": QUANTILES,
    "KllFloatsSketch": QUANTILES,
    "KllFloatsSketchMerge": QUANTILES,
}
_SIZES = {HLL: "lgK", THETA: "size", QUANTILES: "k", TUPLE: "nominalEntries"}
_DOUBLES = array_of(DOUBLE)
_LARGEST_QUANTILES = 32_768

Column = Callable[[str], Term]
Field = Callable[[Part], Term]
"""Translates the ``field`` of a post-aggregator to the sketch that it means."""


def shape_of_part(part: Part, kind: SketchKind, values: int = 1) -> SketchShape:
    """The shape that an aggregator or post-aggregator asks for.

    Raises:
        InvalidQuery: there is no such size.
    """
    hll_type = part.text_or("HLL_4", "tgtHllType")
    size = part.whole(_SIZES[kind])
    if size is not None and part.type.startswith("Kll"):
        # A quantiles sketch answers for a KLL sketch; its sizes are powers of two.
        size = min(1 << max(size - 1, 1).bit_length(), _LARGEST_QUANTILES)
    return s.shaped(kind, part.path or part.type, size, hll_type, values)


def sketch_sql(session: Session, part: Part, kind: SketchKind, column: Column, suffix: str) -> str:
    """The aggregate that makes the sketch.

    Raises:
        QueryError: it does not fit.
    """
    operand = column(part.text("fieldName"))
    metrics = part.texts("metricColumns")
    if kind is TUPLE and metrics:
        shape = shape_of_part(part, kind, len(metrics))
        return s.collected_pairs(session, shape, operand, [column(name) for name in metrics], suffix)
    return s.collected(session, shape_of_part(part, kind), operand, suffix, part.type)


def finalized(session: Session, part: Part, kind: SketchKind, sketch: str) -> tuple[str, SqlType]:
    """What the answer tells of a sketch: its estimate; of quantiles how many values there are."""
    if kind is QUANTILES or part.flag("round"):
        count = s.estimated_count(session, kind, sketch)
        return count.sql, count.type
    return s.estimated(session, kind, sketch), DOUBLE


# ---------------------------------------------------------------- post-aggregators


def _sketch(part: Part, field: Field, kind: SketchKind) -> str:
    return s.sketch_argument(field(part.part("field")), kind, part.type)


def _called(session: Session, kernel: str, type_: SqlType, *arguments: str) -> Term:
    return t.call(session.kernel(kernel), type_, *arguments)


def _spec(kind: SketchKind) -> str:
    return s.spec_of(SketchShape.default(kind))


def _estimate(kind: SketchKind) -> Callable[[Session, Part, Field], Term]:
    def rule(session: Session, part: Part, field: Field) -> Term:
        if part.has("errorBoundsStdDev"):
            return _theta_bounds(session, part, field)
        estimate = s.estimated(session, kind, _sketch(part, field, kind))
        return Term(f"round({estimate})" if part.flag("round") else estimate, DOUBLE)

    return rule


def _bounds(kind: SketchKind, name: str) -> Callable[[Session, Part, Field], Term]:
    def rule(session: Session, part: Part, field: Field) -> Term:
        deviations = part.whole(name, 1, 1)
        if deviations not in (1, 2, 3):
            raise InvalidQuery(f"{part.at(name)}: 1, 2 or 3 standard deviations")
        return _called(session, "sketch_bounds", _DOUBLES, _spec(kind), _sketch(part, field, kind), str(deviations))

    return rule


def _theta_bounds(session: Session, part: Part, field: Field) -> Term:
    deviations = part.whole("errorBoundsStdDev", 1, 1)
    found = _bounds(THETA, "errorBoundsStdDev")(session, part, field).sql
    members = f"'estimate', ({found})[1], 'highBound', ({found})[3], 'lowBound', ({found})[2]"
    return Term(f"CAST(json_object({members}, 'numStdDev', {deviations}) AS VARCHAR)", JSON)


def _summary(kind: SketchKind) -> Callable[[Session, Part, Field], Term]:
    return lambda session, part, field: _called(
        session, "sketch_summary", VARCHAR, _spec(kind), _sketch(part, field, kind)
    )


def _combined(kind: SketchKind, name: str) -> Callable[[Session, Part, Field], Term]:
    def rule(session: Session, part: Part, field: Field) -> Term:
        operation = part.text_or("UNION", name).upper()
        if operation not in ("UNION", "INTERSECT", "NOT"):
            raise InvalidQuery(f"{part.at(name)}: {operation!r} is none of UNION, INTERSECT, NOT")
        fields = [s.sketch_argument(field(one), kind, part.type) for one in part.parts("fields")]
        if not fields:
            raise InvalidQuery(f"{part.at('fields')}: at least one is needed")
        return s.combined(session, shape_of_part(part, kind), operation, fields)

    return rule


def _constant(kind: SketchKind) -> Callable[[Session, Part, Field], Term]:
    return lambda session, part, field: Term(f"TRY(from_base64({t.text_sql(part.text('value'))}))", s.sketch_type(kind))


def _numbers(part: Part, name: str) -> list[Term]:
    found = part.items(name)
    if not found or not all(isinstance(one, int | float) and not isinstance(one, bool) for one in found):
        raise InvalidQuery(f"{part.at(name)}: a list of numbers is needed")
    return [t.double(float(one)) for one in found]


def _check_shares(part: Part, name: str, kernel: str, points: list[Term]) -> None:
    if kernel == "sketch_quantiles" and not all(isinstance(one.value, float) and 0 <= one.value <= 1 for one in points):
        raise InvalidQuery(f"{part.at(name)}: a fraction is a number from 0 to 1")


def _one_point(kernel: str, name: str) -> Callable[[Session, Part, Field], Term]:
    def rule(session: Session, part: Part, field: Field) -> Term:
        if not part.has(name):
            raise InvalidQuery(f"{part.at(name)}: a number is needed")
        points = [t.double(part.number(name, 0.0))]
        _check_shares(part, name, kernel, points)
        return Term(f"({s.numbers_at(session, kernel, _sketch(part, field, QUANTILES), points)})[1]", DOUBLE)

    return rule


def _points(kernel: str, name: str) -> Callable[[Session, Part, Field], Term]:
    def rule(session: Session, part: Part, field: Field) -> Term:
        sketch, points = _sketch(part, field, QUANTILES), _numbers(part, name)
        _check_shares(part, name, kernel, points)
        return Term(s.numbers_at(session, kernel, sketch, points), _DOUBLES)

    return rule


def _histogram(session: Session, part: Part, field: Field) -> Term:
    if part.has("splitPoints"):
        return _points("sketch_histogram", "splitPoints")(session, part, field)
    bins = [t.double(float(part.whole("numBins", 10, 2) or 10))]
    return Term(s.numbers_at(session, "sketch_even_histogram", _sketch(part, field, QUANTILES), bins), _DOUBLES)


def _of_tuple(kernel: str) -> Callable[[Session, Part, Field], Term]:
    return lambda session, part, field: _called(session, kernel, _DOUBLES, _sketch(part, field, TUPLE))


def _entries(session: Session, part: Part, field: Field) -> Term:
    return _called(session, "sketch_entries", BIGINT, _sketch(part, field, TUPLE))


def _tuple_quantiles(session: Session, part: Part, field: Field) -> Term:
    column, size = str(part.whole("column", 1, 1)), str(part.whole("k", 128, 2))
    sketch = _sketch(part, field, TUPLE)
    return _called(session, "sketch_tuple_quantiles", s.sketch_type(QUANTILES), sketch, column, size)


def _base64(session: Session, part: Part, field: Field) -> Term:
    return t.call("to_base64", VARCHAR, _sketch(part, field, TUPLE))


def _t_test(session: Session, part: Part, field: Field) -> Term:
    sketches = [s.sketch_argument(field(one), TUPLE, part.type) for one in part.parts("fields")]
    if len(sketches) != 2:
        raise InvalidQuery(f"{part.at('fields')}: two sketches are needed, not {len(sketches)}")
    return _called(session, "sketch_t_test", _DOUBLES, *sketches)


_OF_QUANTILES = {
    "Quantile": _one_point("sketch_quantiles", "fraction"),
    "Quantiles": _points("sketch_quantiles", "fractions"),
    "Rank": _one_point("sketch_ranks", "value"),
    "CDF": _points("sketch_cdf", "splitPoints"),
    "Histogram": _histogram,
    "String": _summary(QUANTILES),
}
POST_AGGREGATORS: dict[str, Callable[[Session, Part, Field], Term]] = {
    "thetaSketchEstimate": _estimate(THETA),
    "thetaSketchSetOp": _combined(THETA, "func"),
    "thetaSketchConstant": _constant(THETA),
    "thetaSketchToString": _summary(THETA),
    "HLLSketchEstimate": _estimate(HLL),
    "HLLSketchEstimateWithBounds": _bounds(HLL, "numStdDev"),
    "HLLSketchUnion": _combined(HLL, "func"),
    "HLLSketchToString": _summary(HLL),
    "arrayOfDoublesSketchToEstimate": _estimate(TUPLE),
    "arrayOfDoublesSketchToEstimateAndBounds": _bounds(TUPLE, "numStdDevs"),
    "arrayOfDoublesSketchToNumEntries": _entries,
    "arrayOfDoublesSketchToMeans": _of_tuple("sketch_means"),
    "arrayOfDoublesSketchToVariances": _of_tuple("sketch_variances"),
    "arrayOfDoublesSketchToMetricsSumEstimate": _of_tuple("sketch_sums"),
    "arrayOfDoublesSketchToQuantilesSketch": _tuple_quantiles,
    "arrayOfDoublesSketchSetOp": _combined(TUPLE, "operation"),
    "arrayOfDoublesSketchConstant": _constant(TUPLE),
    "arrayOfDoublesSketchToBase64String": _base64,
    "arrayOfDoublesSketchToString": _summary(TUPLE),
    "arrayOfDoublesSketchTTest": _t_test,
    "sketchEstimate": _estimate(THETA),
    "sketchSetOper": _combined(THETA, "func"),
    **{
        f"{kind}SketchTo{name}": rule
        for kind in ("quantilesDoubles", "KllDoubles", "KllFloats")
        for name, rule in _OF_QUANTILES.items()
    },
}
