"""Histograms as aggregators and what post-aggregators ask of them; exact, where Druid's extension approximates.

Behind the answer of ``approxHistogram`` and ``fixedBucketsHistogram`` stand the values of the group, which is what
their post-aggregators and queries around this one see.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from query.errors import InvalidQuery
from query.native import expressions
from query.native.request import Part
from query.native.rows import Rows
from query.sql import term as t
from query.sql.casts import as_number, cast_to
from query.sql.frame import Session
from query.sql.term import Term
from query.sql.types import DOUBLE, JSON, Family, SqlType, array_of

_MOST_BUCKETS = 1_000


def number_of(rows: Rows, part: Part) -> Term:
    """What an aggregator counts, as a double.

    Raises:
        InvalidQuery: it holds several values or none that is a number.
    """
    name = part.text_or("", "expression")
    found = expressions.compiled(rows, name) if name else rows.column(part.text("fieldName"))
    if found.type.multi or found.family in (Family.ARRAY, Family.COMPLEX):
        raise InvalidQuery(f"{part.path}: {part.type} of a column of {found.type.druid} is not possible")
    return cast_to(as_number(found), DOUBLE)


def of_breaks(rows: Rows, part: Part, suffix: str) -> tuple[str, SqlType]:
    """How many values lie between each two breaks, the lower one excluded, and the least and largest of all.

    Raises:
        InvalidQuery: fewer than two breaks, or breaks that do not grow.
    """
    given = part.items("breaks", "breaksList")
    if len(given) < 2 or not all(isinstance(one, int | float) and not isinstance(one, bool) for one in given):
        raise InvalidQuery(f"{part.at('breaks')}: two numbers or more are needed")
    # Druid holds breaks as floats of 32 bits.
    breaks = [float(struct.unpack("f", struct.pack("f", one))[0]) for one in given]
    if not all(map(math.isfinite, breaks)):
        raise InvalidQuery(f"{part.at('breaks')}: a number is beyond 32 bits")
    if any(one >= other for one, other in zip(breaks, breaks[1:], strict=False)):
        raise InvalidQuery(f"{part.at('breaks')}: each must be larger than the one before it")
    number = number_of(rows, part).sql
    counts = [
        f"CAST({_count(f'{number} > {low!r} AND {number} <= {high!r}', suffix)} AS DOUBLE)"
        for low, high in zip(breaks, breaks[1:], strict=False)
    ]
    ends = [
        f"coalesce(to_json({name}({number}){suffix}), to_json({t.text_sql(nothing)}))"
        for name, nothing in (("min", "Infinity"), ("max", "-Infinity"))
    ]
    members = f"'breaks', [{_listed(breaks)}], 'counts', [{', '.join(counts)}], 'quantiles', [{', '.join(ends)}]"
    return f"CAST(json_object({members}) AS VARCHAR)", JSON


HELD = array_of(DOUBLE)
"""The values behind a histogram."""
AGGREGATORS = ("approxHistogram", "approxHistogramFold", "fixedBucketsHistogram")
POST_AGGREGATORS = ("quantile", "quantiles", "min", "max", "buckets", "equalBuckets", "customBuckets")
_MODES = ("ignore", "overflow", "clip")


def histogram(rows: Rows, part: Part, suffix: str) -> tuple[str, str]:
    """An aggregator as JSON, and the values behind it.

    Raises:
        InvalidQuery: its sizes or limits cannot be, or the column holds no numbers.
    """
    if part.type == "fixedBucketsHistogram":
        return _fixed(rows, part, suffix)
    buckets = part.whole("numBuckets", 7, 2) or 7
    part.whole("resolution", 50, 1)
    if (
        part.has("lowerLimit")
        and part.has("upperLimit")
        and part.number("lowerLimit", 0) >= part.number("upperLimit", 0)
    ):
        raise InvalidQuery(f"{part.at('upperLimit')}: must be above lowerLimit")
    stored = rows.column(part.text_or("", "fieldName"))
    if stored.type == HELD:
        held = f"flatten(list({stored.sql}){suffix})"
    else:
        held = f"list({number_of(rows, part).sql}){suffix}"
    return f"{rows.session.kernel('histogram_even')}({held}, CAST({buckets} AS BIGINT))", held


def _fixed(rows: Rows, part: Part, suffix: str) -> tuple[str, str]:
    """Buckets of one width between two limits, the lower one included; what lies outside by the mode."""
    buckets, mode = part.whole("numBuckets", None, 1), part.text("outlierHandlingMode").lower()
    if buckets is None or not part.has("lowerLimit") or not part.has("upperLimit"):
        raise InvalidQuery(f"{part.path}: numBuckets, lowerLimit and upperLimit are needed")
    low, high = part.number("lowerLimit", 0.0), part.number("upperLimit", 0.0)
    if buckets > _MOST_BUCKETS or low >= high or mode not in _MODES:
        told = f"at most {_MOST_BUCKETS} numBuckets, an upperLimit above lowerLimit, outlierHandlingMode one of"
        raise InvalidQuery(f"{part.path}: {told} {', '.join(_MODES)}")
    number, width = number_of(rows, part).sql, (high - low) / buckets
    inside = f"{number} >= {low!r} AND {number} < {high!r}"
    kept = (
        f"least(greatest({number}, {low!r}), {high!r})" if mode == "clip" else f"CASE WHEN {inside} THEN {number} END"
    )
    place = f"least(greatest(floor(({number} - {low!r}) / {width!r}), 0), {buckets - 1})"
    counts = [
        _count(f"{place} = {at}" if mode == "clip" else f"{inside} AND {place} = {at}", suffix) for at in range(buckets)
    ]
    outside = [
        _count(f"{number} {test}", suffix) if mode == "overflow" else "0" for test in (f"< {low!r}", f">= {high!r}")
    ]
    members = {
        "lowerLimit": repr(low), "upperLimit": repr(high), "numBuckets": str(buckets),
        "upperOutlierCount": outside[1], "lowerOutlierCount": outside[0],
        "missingValueCount": _count(f"{number} IS NULL", suffix), "histogram": f"[{', '.join(counts)}]",
        "bucketSize": repr(width), "outlierHandlingMode": t.text_sql(mode), "count": f"count({kept}){suffix}",
        "max": f"max({kept}){suffix}", "min": f"min({kept}){suffix}",
    }  # fmt: skip
    told = ", ".join(f"{t.text_sql(name)}, {sql}" for name, sql in members.items())
    return f"CAST(json_object({told}) AS VARCHAR)", f"list({kept}){suffix}"


def asked(session: Session, part: Part, held: Term) -> Term:
    """A post-aggregator over the values behind a histogram.

    Raises:
        InvalidQuery: there are none, or what is asked cannot be.
    """
    if held.type != HELD:
        raise InvalidQuery(f"{part.at('fieldName')}: {part.type} needs a histogram, not {held.type.druid}")
    if part.type in ("min", "max"):
        return t.call(f"list_{part.type}", DOUBLE, held.sql)
    kernel, *arguments = _ARGUMENTS[part.type](part)
    told = f"{session.kernel(kernel)}({held.sql}, {', '.join(arguments)})"
    if part.type == "quantile":
        return Term(f"CAST(json_extract({told}, '$.quantiles[0]') AS DOUBLE)", DOUBLE)
    return Term(told, JSON)


def _shares(part: Part, given: list[Any]) -> str:
    if not given or not all(_is_number(one) and 0 <= one <= 1 for one in given):
        raise InvalidQuery(f"{part.path}: a probability is a number from 0 to 1")
    return f"[{_listed([float(one) for one in given])}]"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _one_quantile(part: Part) -> tuple[str, ...]:
    return "histogram_quantiles", _shares(part, [part.get("probability")])


def _quantiles(part: Part) -> tuple[str, ...]:
    return "histogram_quantiles", _shares(part, part.items("probabilities"))


def _buckets(part: Part) -> tuple[str, ...]:
    size, offset = part.number("bucketSize", 0.0), part.number("offset", 0.0)
    if size <= 0:
        raise InvalidQuery(f"{part.at('bucketSize')}: must be above 0")
    return "histogram_stepped", *(f"CAST({one!r} AS DOUBLE)" for one in (size, offset))


def _equal_buckets(part: Part) -> tuple[str, ...]:
    return "histogram_even", f"CAST({part.whole('numBuckets', 7, 2)} AS BIGINT)"


def _custom_buckets(part: Part) -> tuple[str, ...]:
    breaks = part.items("breaks")
    if len(breaks) < 2 or not all(map(_is_number, breaks)) or breaks != sorted(breaks):
        raise InvalidQuery(f"{part.at('breaks')}: two numbers or more are needed, each no less than the one before")
    return "histogram_broken", f"[{_listed([float(one) for one in breaks])}]"


_ARGUMENTS: dict[str, Callable[[Part], tuple[str, ...]]] = {
    "quantile": _one_quantile,
    "quantiles": _quantiles,
    "buckets": _buckets,
    "equalBuckets": _equal_buckets,
    "customBuckets": _custom_buckets,
}


def _listed(numbers: list[float]) -> str:
    return ", ".join(f"CAST({one!r} AS DOUBLE)" for one in numbers)


def _count(test: str, suffix: str) -> str:
    return f"count(CASE WHEN {test} THEN 1 END){suffix}"


def only_value(rows: Rows, part: Part, suffix: str) -> tuple[str, SqlType]:
    """The value of the only row; the query fails where there are more."""
    type_ = expressions.named_type(part.text("columnType"))
    value = cast_to(rows.column(part.text("fieldName")), type_)
    more = t.text_sql(f"{part.path}: singleValue of more than one row")
    sql = f"CASE WHEN count(*){suffix} > 1 THEN error({more}) ELSE any_value({value.sql}){suffix} END"
    return f"CAST({sql} AS {type_.duckdb})", type_
