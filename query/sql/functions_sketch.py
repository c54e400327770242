"""Rules for functions of sketches: estimates, set operations, quantiles, sums beside keys."""

from __future__ import annotations

from collections.abc import Callable

from query.errors import InvalidQuery
from query.sql import sketches as s
from query.sql import term as t
from query.sql.casts import as_string
from query.sql.frame import MANY, Arguments, Frame, function
from query.sql.functions_time import constant_text
from query.sql.term import Term
from query.sql.types import DOUBLE, VARCHAR, SqlType, array_of
from segments.sketch.shape import SketchKind, kind_of

HLL, THETA, QUANTILES, TUPLE = SketchKind.HLL, SketchKind.THETA, SketchKind.QUANTILES, SketchKind.TUPLE
JSON = SqlType("OTHER", "json")
_DOUBLES = array_of(DOUBLE)


def whole(frame: Frame, arguments: Arguments, at: int, name: str, least: int = 0) -> int:
    """A constant argument that is a whole number.

    Raises:
        InvalidQuery: it is something else.
    """
    value = frame.term(arguments[at]).value
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidQuery(f"argument {at + 1} of {name} must be a whole number, {least} or more")
    return value


def _sketch(frame: Frame, arguments: Arguments, kind: SketchKind, name: str, at: int = 0) -> str:
    return s.sketch_argument(frame.term(arguments[at]), kind, name)


def _estimate(kind: SketchKind, name: str, most: int) -> None:
    @function(name, least=1, most=most)
    def _rule(frame: Frame, arguments: Arguments) -> Term:
        estimate = s.estimated(frame.session, kind, _sketch(frame, arguments, kind, name))
        rounded = len(arguments) > 1 and frame.term(arguments[1]).value in (True, "true")
        return Term(f"round({estimate})" if rounded else estimate, DOUBLE)


_estimate(HLL, "HLL_SKETCH_ESTIMATE", 2)
_estimate(THETA, "THETA_SKETCH_ESTIMATE", 1)


def _bounds(frame: Frame, arguments: Arguments, kind: SketchKind, name: str) -> tuple[str, int]:
    deviations = whole(frame, arguments, 1, name, 1) if len(arguments) > 1 else 1
    if deviations > 3:
        raise InvalidQuery(f"argument 2 of {name} must be 1, 2 or 3 standard deviations")
    sketch = _sketch(frame, arguments, kind, name)
    spec = s.spec_of(s.shaped(kind, name))
    return f"{frame.session.kernel('sketch_bounds')}({spec}, {sketch}, {deviations})", deviations


@function("HLL_SKETCH_ESTIMATE_WITH_ERROR_BOUNDS", least=1, most=2)
def _hll_bounds(frame: Frame, arguments: Arguments) -> Term:
    """Estimate, lower and upper bound."""
    return Term(_bounds(frame, arguments, HLL, "HLL_SKETCH_ESTIMATE_WITH_ERROR_BOUNDS")[0], _DOUBLES)


@function("THETA_SKETCH_ESTIMATE_WITH_ERROR_BOUNDS", least=1, most=2)
def _theta_bounds(frame: Frame, arguments: Arguments) -> Term:
    found, deviations = _bounds(frame, arguments, THETA, "THETA_SKETCH_ESTIMATE_WITH_ERROR_BOUNDS")
    members = f"'estimate', ({found})[1], 'highBound', ({found})[3], 'lowBound', ({found})[2]"
    return Term(f"CAST(json_object({members}, 'numStdDev', {deviations}) AS VARCHAR)", JSON)


def _summary(kind: SketchKind, name: str) -> None:
    @function(name)
    def _rule(frame: Frame, arguments: Arguments) -> Term:
        spec = s.spec_of(s.shaped(kind, name))
        return t.call(frame.session.kernel("sketch_summary"), VARCHAR, spec, _sketch(frame, arguments, kind, name))


_summary(HLL, "HLL_SKETCH_TO_STRING")
_summary(QUANTILES, "DS_QUANTILE_SUMMARY")


@function("HLL_SKETCH_UNION", least=1, most=MANY)
def _hll_union(frame: Frame, arguments: Arguments) -> Term:
    terms = [frame.term(argument) for argument in arguments]
    size = terms.pop(0).value if isinstance(terms[0].value, int) else None
    kind = str(terms.pop(0).value) if terms and isinstance(terms[0].value, str) else "HLL_4"
    shape = s.shaped(HLL, "HLL_SKETCH_UNION", size if isinstance(size, int) else None, kind)
    found = [s.sketch_argument(one, HLL, "HLL_SKETCH_UNION") for one in terms]
    return s.combined(frame.session, shape, "UNION", found)


def _set_operation(kind: SketchKind, name: str, operation: str) -> None:
    @function(name, least=1, most=MANY)
    def _rule(frame: Frame, arguments: Arguments) -> Term:
        terms = [frame.term(argument) for argument in arguments]
        sizes = [terms.pop(at).value for at in (0, -1) if terms and isinstance(terms[at].value, int)]
        size = next((size for size in sizes if isinstance(size, int)), None)
        shape = s.shaped(kind, name, size)
        return s.combined(frame.session, shape, operation, [s.sketch_argument(one, kind, name) for one in terms])


for _operation in ("UNION", "INTERSECT", "NOT"):
    _set_operation(THETA, f"THETA_SKETCH_{_operation}", _operation)
    _set_operation(TUPLE, f"DS_TUPLE_DOUBLES_{_operation}", _operation)


@function("DS_TUPLE_DOUBLES_METRICS_SUM_ESTIMATE")
def _tuple_sums(frame: Frame, arguments: Arguments) -> Term:
    sketch = _sketch(frame, arguments, TUPLE, "DS_TUPLE_DOUBLES_METRICS_SUM_ESTIMATE")
    return t.call(frame.session.kernel("sketch_sums"), _DOUBLES, sketch)


def _at_points(name: str, kernel: str, least: int, most: int, check: Callable[[float], bool] | None = None) -> None:
    @function(name, least=least, most=most)
    def _rule(frame: Frame, arguments: Arguments) -> Term:
        points = [frame.term(argument) for argument in arguments[1:]]
        if check is not None and any(isinstance(one.value, int | float) and not check(one.value) for one in points):
            raise InvalidQuery(f"the fractions of {name} are from 0 to 1")
        found = s.numbers_at(frame.session, kernel, _sketch(frame, arguments, QUANTILES, name), points)
        return Term(f"({found})[1]", DOUBLE) if most == 2 else Term(found, _DOUBLES)


def _is_share(value: float) -> bool:
    return 0 <= value <= 1


_at_points("DS_GET_QUANTILE", "sketch_quantiles", 2, 2, _is_share)
_at_points("DS_GET_QUANTILES", "sketch_quantiles", 2, MANY, _is_share)
_at_points("DS_RANK", "sketch_ranks", 2, 2)
_at_points("DS_CDF", "sketch_cdf", 2, MANY)
_at_points("DS_HISTOGRAM", "sketch_histogram", 2, MANY)


@function("DECODE_BASE64_COMPLEX", "COMPLEX_DECODE_BASE64", least=2)
def _decode(frame: Frame, arguments: Arguments) -> Term:
    name = constant_text(frame.term(arguments[0]), "the type in DECODE_BASE64_COMPLEX")
    kind = kind_of(name)
    if kind is None:
        raise InvalidQuery(f"DECODE_BASE64_COMPLEX: {name!r} is none of {', '.join(one.value for one in SketchKind)}")
    text = as_string(frame.term(arguments[1]), frame.zone).sql
    return Term(f"TRY(from_base64({text}))", s.sketch_type(kind))
