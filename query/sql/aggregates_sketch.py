"""Rules for aggregates that make sketches, of values or of stored sketches, and for estimates over stored ones."""

from __future__ import annotations

from query.errors import InvalidQuery
from query.sql import sketches as s
from query.sql.aggregates import Aggregation, aggregate
from query.sql.frame import MANY
from query.sql.term import Term
from query.sql.types import Family
from segments.sketch.shape import SketchKind


def _option(call: Aggregation, at: int) -> object:
    return call.term(at).value if len(call.arguments) > at else None


def _size(call: Aggregation, at: int) -> int | None:
    if len(call.arguments) <= at:
        return None
    value = call.term(at).value
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidQuery(f"argument {at + 1} of {call.name} must be a whole number")
    return value


def _made(call: Aggregation, kind: SketchKind, hll_type: str = "HLL_4") -> Term:
    if call.distinct:
        raise InvalidQuery(f"{call.name} takes no DISTINCT")
    shape = s.shaped(kind, call.name, _size(call, 1), hll_type)
    return Term(s.collected(call.rows.session, shape, call.term(0), call.suffix, call.name), s.sketch_type(kind))


@aggregate("DS_HLL", most=3)
def _hll(call: Aggregation) -> Term:
    hll_type = _option(call, 2)
    if hll_type is not None and not isinstance(hll_type, str):
        raise InvalidQuery("argument 3 of DS_HLL is HLL_4, HLL_6 or HLL_8")
    return _made(call, SketchKind.HLL, hll_type or "HLL_4")


@aggregate("DS_THETA", most=2)
def _theta(call: Aggregation) -> Term:
    return _made(call, SketchKind.THETA)


@aggregate("DS_QUANTILES_SKETCH", most=2)
def _quantiles(call: Aggregation) -> Term:
    return _made(call, SketchKind.QUANTILES)


@aggregate("DS_TUPLE_DOUBLES", most=MANY)
def _tuple(call: Aggregation) -> Term:
    """Of a key and numbers, or of stored sketches; a constant at the end is the nominal number of entries."""
    terms = [call.term(at) for at in range(len(call.arguments))]
    size = terms.pop().value if len(terms) > 1 and isinstance(terms[-1].value, int) else None
    first, *numbers = terms
    if first.family is Family.COMPLEX:
        if numbers:
            raise InvalidQuery("DS_TUPLE_DOUBLES takes either stored sketches or a key with its numbers")
        shape = s.shaped(SketchKind.TUPLE, call.name, size if isinstance(size, int) else None)
        sql = s.collected(call.rows.session, shape, first, call.suffix, call.name)
    else:
        if not numbers:
            raise InvalidQuery("DS_TUPLE_DOUBLES of a key needs one number or more beside it")
        shape = s.shaped(SketchKind.TUPLE, call.name, size if isinstance(size, int) else None, values=len(numbers))
        sql = s.collected_pairs(call.rows.session, shape, first, numbers, call.suffix)
    return Term(sql, s.sketch_type(SketchKind.TUPLE))


def count_of_stored(call: Aggregation, kind: SketchKind | None) -> Term:
    """The number of distinct values that stored sketches have seen together; any kind where ``kind`` is None.

    Raises:
        InvalidQuery: they are of another kind.
    """
    stored = call.term(0)
    found = s.kind_of_type(stored.type)
    if found not in (SketchKind.HLL, SketchKind.THETA, SketchKind.TUPLE) or kind not in (None, found):
        raise InvalidQuery(f"{call.name} of {stored.type.druid} is not possible")
    sketch = s.collected(call.rows.session, s.shaped(found, call.name), stored, call.suffix, call.name)
    return s.estimated_count(call.rows.session, found, sketch)


def quantile_of_stored(call: Aggregation, share: float) -> Term:
    """A quantile of the values that stored sketches have seen together."""
    shape = s.shaped(SketchKind.QUANTILES, call.name, _size(call, 2))
    session = call.rows.session
    sketch = s.collected(session, shape, call.term(0), call.suffix, call.name)
    from query.sql.term import double
    from query.sql.types import DOUBLE

    return Term(f"({s.numbers_at(session, 'sketch_quantiles', sketch, [double(share)])})[1]", DOUBLE)
