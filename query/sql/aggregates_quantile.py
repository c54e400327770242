"""Rules for quantiles of values, exact where Druid estimates, and of stored sketches."""

from __future__ import annotations

from query.errors import InvalidQuery
from query.sql.aggregates import Aggregation, aggregate
from query.sql.casts import as_number, cast_to
from query.sql.term import Term
from query.sql.types import BIGINT, DOUBLE, Family


@aggregate("APPROX_QUANTILE", "APPROX_QUANTILE_DS", least=2, most=3)
def _quantile(call: Aggregation) -> Term:
    share = _share(call)
    if len(call.arguments) > 2 and call.constant(2, 1) < 1:
        raise InvalidQuery(f"argument 3 of {call.name} is a whole number above 0")
    if call.term(0).family is Family.COMPLEX:
        from query.sql.aggregates_sketch import quantile_of_stored

        return quantile_of_stored(call, share)
    number = as_number(call.single())
    return Term(call.sql("quantile_disc", cast_to(number, DOUBLE).sql, repr(share)), DOUBLE)


@aggregate("TDIGEST_QUANTILE", least=2, most=3)
def _interpolated(call: Aggregation) -> Term:
    """Between two values, as a digest answers; exact."""
    share = _share(call)
    number = cast_to(as_number(call.single()), DOUBLE)
    return Term(call.sql("quantile_cont", number.sql, repr(share)), DOUBLE)


@aggregate("SPECTATOR_COUNT")
def _observations(call: Aggregation) -> Term:
    """How many numbers there are; histograms of that extension are not stored here."""
    return Term(call.sql("count", as_number(call.single()).sql), BIGINT)


@aggregate("SPECTATOR_PERCENTILE", least=2)
def _percentile(call: Aggregation) -> Term:
    percentile = _number(call, 1)
    if not 0 <= percentile <= 100:
        raise InvalidQuery(f"argument 2 of {call.name} is a constant from 0 to 100")
    number = cast_to(as_number(call.single()), DOUBLE)
    return Term(call.sql("quantile_cont", number.sql, repr(percentile / 100)), DOUBLE)


@aggregate("APPROX_QUANTILE_FIXED_BUCKETS", least=5, most=6)
def _within_bounds(call: Aggregation) -> Term:
    """Exact among the values from the lower bound up to the upper one; ``clip`` moves others to the nearer bound."""
    share, low, high = _share(call), _number(call, 3), _number(call, 4)
    if call.constant(2, 1) < 1 or low >= high:
        raise InvalidQuery(f"{call.name} takes a number of buckets above 0 and an upper limit above the lower one")
    mode = str(call.term(5).value).lower() if len(call.arguments) > 5 else "ignore"
    if mode not in ("ignore", "clip", "overflow"):
        raise InvalidQuery(f"argument 6 of {call.name} is ignore, overflow or clip")
    number = cast_to(as_number(call.single()), DOUBLE).sql
    kept = f"CASE WHEN {number} >= {low!r} AND {number} < {high!r} THEN {number} END"
    kept = f"least(greatest({number}, {low!r}), {high!r})" if mode == "clip" else kept
    return Term(call.sql("quantile_disc", f"CAST({kept} AS DOUBLE)", repr(share)), DOUBLE)


def _share(call: Aggregation) -> float:
    share = _number(call, 1)
    if not 0 <= share <= 1:
        raise InvalidQuery(f"the quantile of {call.name} is a constant from 0 to 1")
    return share


def _number(call: Aggregation, at: int) -> float:
    value = call.term(at).value
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidQuery(f"argument {at + 1} of {call.name} is a constant number")
    return float(value)
