"""Sketch functions of SQL and sketch aggregators of native queries, over raw columns and over stored sketches."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest

from query.errors import QueryError
from segments.sketch import theta
from segments.sketch.build import column_sketch
from segments.sketch.shape import SketchKind, SketchShape
from tests.conformance.engine import answered_rows
from tests.conformance.native import answered
from tests.unit.query.rows import ask, planned, table


def column(sql: str) -> list[Any]:
    return [row[0] for row in answered_rows(sql)]


# ---------------------------------------------------------------- made of values


@pytest.mark.parametrize("expression", ["user", "id", "price", "tags"])
def test_small_sketches_count_exactly_whatever_the_column_holds(expression: str) -> None:
    hll, theta_, counted = answered_rows(
        f"SELECT HLL_SKETCH_ESTIMATE(DS_HLL({expression}), TRUE), THETA_SKETCH_ESTIMATE(DS_THETA({expression})),"
        f" APPROX_COUNT_DISTINCT_DS_HLL({expression}) FROM events"
    )[0]
    # Sketches leave empty texts out, as Druid's do; no row of ``user`` has one.
    assert theta_ == counted and abs(hll - counted) <= 1


def test_a_group_has_its_own_sketch_and_none_is_one_of_nothing() -> None:
    rows = table(s=["a", "a", "b", "c"], n=[1, 2, 2, None], d=[1.0, 2.0, 3.0, None])
    median = "DS_GET_QUANTILE(DS_QUANTILES_SKETCH(d), 0.5)"
    sql = f"SELECT s, THETA_SKETCH_ESTIMATE(DS_THETA(n)), {median} FROM t GROUP BY s ORDER BY s"
    assert ask(sql, rows) == [["a", 2.0, 1.0], ["b", 1.0, 3.0], ["c", 0.0, None]]
    assert ask("SELECT HLL_SKETCH_ESTIMATE(DS_HLL(n)) FROM t WHERE n > 9", rows) == [[0.0]]


def test_numbers_and_their_texts_are_different_values_and_integers_are_not_doubles() -> None:
    rows = table(n=[1, 2], s=["1", "2"], d=[1.0, 2.0])
    for pair, wanted in (("DS_THETA(n), DS_THETA(s)", 4.0), ("DS_THETA(n), DS_THETA(n)", 2.0)):
        assert ask(f"SELECT THETA_SKETCH_ESTIMATE(THETA_SKETCH_UNION({pair})) FROM t", rows) == [[wanted]]


def test_long_lists_and_many_groups_give_the_same_sketches() -> None:
    count = 5_000
    rows = table(n=list(range(count)), d=[at / 7 for at in range(count)], s=[str(at % 2500) for at in range(count)])
    whole = ask("SELECT THETA_SKETCH_ESTIMATE(DS_THETA(n, 1024)), APPROX_QUANTILE_DS(d, 0.5) FROM t", rows)[0]
    assert whole[0] == pytest.approx(count, rel=0.1)
    kept = column_sketch(SketchShape(SketchKind.THETA, 1024), pa.array(range(count), pa.int64()))
    assert kept is not None and whole[0] == theta.estimate(kept)
    grouped = ask("SELECT SUM(e) FROM (SELECT s, THETA_SKETCH_ESTIMATE(DS_THETA(n)) AS e FROM t GROUP BY s)", rows)
    assert grouped == [[float(count)]]


def test_filters_and_windows_stand_behind_sketch_aggregates() -> None:
    rows = table(s=["a", "a", "b"], n=[1, 2, 3])
    assert ask("SELECT THETA_SKETCH_ESTIMATE(DS_THETA(n) FILTER (WHERE n > 1)) FROM t", rows) == [[2.0]]
    over = "SELECT n, THETA_SKETCH_ESTIMATE(DS_THETA(n) OVER (PARTITION BY s)) FROM t ORDER BY n"
    assert ask(over, rows) == [[1, 2.0], [2, 2.0], [3, 1.0]]


# ---------------------------------------------------------------- set operations


def test_sets_unite_intersect_and_subtract() -> None:
    rows = table(n=[1, 2, 3, 4])
    low, high = "DS_THETA(n) FILTER (WHERE n <= 3)", "DS_THETA(n) FILTER (WHERE n >= 3)"
    for name, wanted in (("UNION", 4.0), ("INTERSECT", 1.0), ("NOT", 2.0)):
        assert ask(f"SELECT THETA_SKETCH_ESTIMATE(THETA_SKETCH_{name}({low}, {high})) FROM t", rows) == [[wanted]]
    nothing = "DS_THETA(n) FILTER (WHERE n > 9)"
    for name, wanted in (("UNION", 3.0), ("INTERSECT", 0.0), ("NOT", 3.0)):
        assert ask(f"SELECT THETA_SKETCH_ESTIMATE(THETA_SKETCH_{name}({low}, {nothing})) FROM t", rows) == [[wanted]]


def test_hll_sketches_of_two_columns_unite() -> None:
    rows = table(s=["a", "b"], S=["b", "c"])
    sql = "SELECT HLL_SKETCH_ESTIMATE(HLL_SKETCH_UNION({}DS_HLL(s), DS_HLL(S)), TRUE) FROM t"
    for leading in ("", "12, ", "12, 'HLL_8', "):
        assert ask(sql.format(leading), rows) == [[3.0]]


def test_tuple_sketches_add_numbers_per_key() -> None:
    rows = table(s=["a", "a", "b"], n=[1, 2, 3], d=[0.5, 0.5, 1.0])
    made = "DS_TUPLE_DOUBLES(s, n, d)"
    sql = f"SELECT DS_TUPLE_DOUBLES_METRICS_SUM_ESTIMATE({made}), DS_TUPLE_DOUBLES_METRICS_SUM_ESTIMATE(" \
          f"DS_TUPLE_DOUBLES_INTERSECT({made}, DS_TUPLE_DOUBLES(s, n, d) FILTER (WHERE s = 'b'))) FROM t"  # fmt: skip
    assert ask(sql, rows, sqlStringifyArrays=False) == [[[6.0, 2.0], [6.0, 2.0]]]


# ---------------------------------------------------------------- quantiles


def test_quantiles_ranks_and_histograms_are_those_of_the_values() -> None:
    rows = table(n=list(range(1, 101)))
    made = "DS_QUANTILES_SKETCH(n, 128)"
    sql = (
        f"SELECT DS_GET_QUANTILES({made}, 0, 0.5, 1), DS_RANK({made}, 50), DS_CDF({made}, 25, 75),"
        f" DS_HISTOGRAM({made}, 25, 75) FROM t"
    )
    assert ask(sql, rows, sqlStringifyArrays=False) == [
        [[1.0, 50.0, 100.0], 0.5, [0.25, 0.75, 1.0], [25.0, 50.0, 25.0]]
    ]


def test_descriptions_are_for_people() -> None:
    rows = table(s=["a"], n=[1])
    told = ask("SELECT HLL_SKETCH_TO_STRING(DS_HLL(s)), DS_QUANTILE_SUMMARY(DS_QUANTILES_SKETCH(n)) FROM t", rows)[0]
    assert "HLL" in told[0] and "Quantiles" in told[1]


# ---------------------------------------------------------------- stored


def test_stored_sketches_are_told_in_base64_and_read_back() -> None:
    (quoted,) = column("SELECT DS_THETA(users_theta) FROM hourly")
    text = json.loads(quoted)
    assert theta.estimate(base64.b64decode(text)) == 43.0
    sql = f"SELECT THETA_SKETCH_ESTIMATE(DECODE_BASE64_COMPLEX('thetaSketch', '{text}'))"
    assert answered_rows(sql) == [[43.0]]
    assert answered_rows("SELECT DECODE_BASE64_COMPLEX('thetaSketch', '%%')") == [[None]]


def test_stored_sketches_count_and_rank_like_the_rows_they_were_made_of() -> None:
    sql = (
        "SELECT device, APPROX_COUNT_DISTINCT_DS_HLL(users_hll), COUNT(DISTINCT users_theta),"
        " THETA_SKETCH_ESTIMATE(DS_THETA(users_theta)), DS_RANK(DS_QUANTILES_SKETCH(price_q), 5)"
        " FROM hourly GROUP BY 1 ORDER BY 1"
    )
    share = "AVG(CASE WHEN price <= 5 THEN 1.0 WHEN price > 5 THEN 0.0 END)"
    raw = f"SELECT device, COUNT(DISTINCT user), {share} FROM events GROUP BY 1 ORDER BY 1"
    for stored, (device, users, below) in zip(answered_rows(sql), answered_rows(raw), strict=True):
        assert stored == [device, users, users, float(users), pytest.approx(below)]


def test_bounds_of_an_estimate_surround_it() -> None:
    sql = (
        "SELECT HLL_SKETCH_ESTIMATE_WITH_ERROR_BOUNDS(DS_HLL(users_hll), 2),"
        " THETA_SKETCH_ESTIMATE_WITH_ERROR_BOUNDS(DS_THETA(users_theta), 2) FROM hourly"
    )
    hll, told = answered_rows(sql)[0]
    estimate, low, high = json.loads(hll)
    assert low <= estimate <= high and round(estimate) == 43
    assert json.loads(told) == {"estimate": 43.0, "highBound": 43.0, "lowBound": 43.0, "numStdDev": 2}


# ---------------------------------------------------------------- native


def grouped(aggregations: Any, posts: Any = (), source: Any = "events", **changes: Any) -> Any:
    answer = answered(
        queryType="groupBy", dataSource=source, granularity="all", intervals="2000/3000", dimensions=[],
        aggregations=aggregations, postAggregations=list(posts), **changes,
    )  # fmt: skip
    return answer[0]["event"]


def access(name: str) -> Any:
    return {"type": "fieldAccess", "fieldName": name}


def test_native_sketches_are_told_as_estimates_and_asked_as_sketches() -> None:
    phones = {"type": "selector", "dimension": "device", "value": "phone"}
    some = {
        "type": "filtered",
        "filter": phones,
        "aggregator": {"type": "thetaSketch", "name": "p", "fieldName": "user"},
    }
    all_ = {"type": "thetaSketch", "name": "u", "fieldName": "user"}
    left = {"type": "thetaSketchSetOp", "func": "NOT", "fields": [access("u"), access("p")]}
    posts = [
        {"type": "thetaSketchEstimate", "name": "left", "field": left},
        {"type": "arithmetic", "name": "share", "fn": "/", "fields": [
            {"type": "finalizingFieldAccess", "fieldName": "p"}, {"type": "finalizingFieldAccess", "fieldName": "u"}]},
    ]  # fmt: skip
    assert grouped([some, all_], posts) == {"p": 38.0, "u": 43.0, "left": 5.0, "share": 38 / 43}


def test_native_hll_and_quantiles_over_stored_sketches() -> None:
    aggregations = [
        {"type": "HLLSketchMerge", "name": "h", "fieldName": "users_hll", "round": True},
        {"type": "quantilesDoublesSketch", "name": "q", "fieldName": "price_q"},
    ]
    posts = [
        {"type": "HLLSketchEstimateWithBounds", "name": "b", "field": access("h"), "numStdDev": 2},
        {"type": "quantilesDoublesSketchToQuantiles", "name": "qs", "field": access("q"), "fractions": [0, 1]},
        {"type": "quantilesDoublesSketchToHistogram", "name": "bins", "field": access("q"), "numBins": 4},
    ]
    told = grouped(aggregations, posts, "hourly")
    low, high, rows = answered_rows("SELECT MIN(price), MAX(price), COUNT(price) FROM events")[0]
    assert told["h"] == 43 and told["q"] == rows and told["qs"] == [low, high]
    assert len(told["b"]) == 3 and sum(told["bins"]) == pytest.approx(rows)


def test_a_query_around_another_merges_its_sketches() -> None:
    inner = {
        "queryType": "groupBy", "dataSource": "events", "granularity": "all", "intervals": "2000/3000",
        "dimensions": ["device"], "aggregations": [{"type": "HLLSketchBuild", "name": "h", "fieldName": "user"}],
    }  # fmt: skip
    outer = [{"type": "HLLSketchMerge", "name": "all", "fieldName": "h", "round": True}]
    assert grouped(outer, source={"type": "query", "query": inner}) == {"all": 43}


def test_an_unfinished_sketch_is_told_in_base64() -> None:
    raw = {"type": "thetaSketch", "name": "u", "fieldName": "user", "shouldFinalize": False}
    assert theta.estimate(base64.b64decode(grouped([raw])["u"])) == 43.0


def test_native_tuple_sketches_answer_by_number() -> None:
    made = {"type": "arrayOfDoublesSketch", "name": "t", "fieldName": "device", "metricColumns": ["quantity", "id"]}
    posts = [
        {"type": "arrayOfDoublesSketchToMetricsSumEstimate", "name": "sums", "field": access("t")},
        {"type": "arrayOfDoublesSketchToNumEntries", "name": "n", "field": access("t")},
    ]
    quantity, ids = answered_rows("SELECT SUM(quantity), SUM(id) FROM events WHERE device <> ''")[0]
    told = grouped([made], posts)
    assert told["t"] == told["n"] == 4 and told["sums"] == [quantity, ids]


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("DS_HLL(n, 30)", "from 4 to 21"),
        ("DS_THETA(n, 1000)", "a power of two"),
        ("DS_HLL(n, 12, 'HLL_5')", "HLL_5"),
        ("THETA_SKETCH_ESTIMATE(DS_HLL(n))", "needs COMPLEX<thetaSketch>, not COMPLEX<HLLSketch>"),
        ("DS_GET_QUANTILE(DS_QUANTILES_SKETCH(n), 2)", "from 0 to 1"),
        ("DS_QUANTILES_SKETCH(mv)", "several values"),
        ("HLL_SKETCH_ESTIMATE(MAX(s))", "not VARCHAR"),
        ("SUM(DS_THETA(n))", "aggregate"),
    ],
)
def test_what_does_not_fit_says_why(expression: str, told: str) -> None:
    with pytest.raises(QueryError) as refused:
        planned(f"SELECT {expression} FROM t")
    assert told in refused.value.message


def test_only_statements_that_need_kernels_name_them() -> None:
    assert planned("SELECT COUNT(*) FROM t").functions == ()
    names = [use.name for use in planned("SELECT HLL_SKETCH_ESTIMATE(DS_HLL(n)) FROM t").functions]
    assert sorted(names) == ["sketch_estimate", "sketch_marks_of_longs", "sketch_of_marks"]
