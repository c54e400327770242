"""Rules for BLOOM_FILTER and BLOOM_FILTER_TEST."""

from __future__ import annotations

from query.sql.aggregates import Aggregation, aggregate
from query.sql.bloom import BLOOM_TYPE, bloom_sql, held_sql
from query.sql.frame import Arguments, Frame, function
from query.sql.term import Term


@aggregate("BLOOM_FILTER", least=2)
def _bloom_filter(call: Aggregation) -> Term:
    entries = call.constant(1, 0)
    return Term(bloom_sql(call.rows.session, call.term(0), entries, call.suffix, call.name), BLOOM_TYPE)


@function("BLOOM_FILTER_TEST", least=2)
def _bloom_filter_test(frame: Frame, arguments: Arguments) -> Term:
    operand, filter_ = (frame.term(argument) for argument in arguments)
    return held_sql(frame.session, operand, filter_.value, "BLOOM_FILTER_TEST")
