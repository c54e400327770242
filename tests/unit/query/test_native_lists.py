"""Lists in native queries: lambdas over several, several multi-value strings at once; versions in order; sketches.

What an expression makes of a list is what the same expression makes of it at ingestion.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from query.errors import InvalidQuery
from query.kernels.versions import version_key
from segments.expression.evaluate import evaluator_of
from tests.conformance.engine import answered_rows
from tests.conformance.native import answered
from tests.unit.query.rows import ask, table

TIME = "2000/3000"
COUNT = [{"type": "count", "name": "n"}]
VERSIONS: list[list[str]] = [
    ["alpha"],
    ["beta"],
    ["", "0"],
    ["v1.2"],
    ["v1.10"],
    ["x"],
    ["0.0.1"],
    ["1.alpha"],
    ["1", "1.0", "1.0.0"],
    ["1-1"],
    ["1.0.0.1"],
    ["1.0.1"],
    ["1..2"],
    ["1.1"],
    ["1.2"],
    ["1.9.9"],
    ["1.10"],
    ["2.0-alpha"],
    ["2.0-alpha-1", "2.0a1"],
    ["2.0-beta-2"],
    ["2.0m3"],
    ["2.0-rc"],
    ["2.0-rc1"],
    ["2.0-cr2"],
    ["2.0-snapshot", "2.0-SNAPSHOT"],
    ["2", "2.0-ga", "2.0.final"],
    ["2.0-sp"],
    ["2.0-sp1"],
    ["2.0-foo"],
    ["2.0x"],
    ["2.0-xyz"],
    ["2.0-1"],
    ["2.0.1"],
    ["9"],
    ["10"],
    ["99999999999999999998"],
    ["99999999999999999999"],
]
"""In the order of Maven's DefaultArtifactVersion 3.6.0 (recorded); what stands together is equal there."""


def scanned(column: dict[str, Any], source: Any, **members: Any) -> list[Any]:
    query = {"queryType": "scan", "dataSource": source, "intervals": "0001/3000", "columns": ["v"]}
    events = answered(**query | members, virtualColumns=[{"type": "expression", "name": "v"} | column])
    return [event["v"] for block in events for event in block["events"]]


def value(expression: str, **row: Any) -> Any:
    """The value of an expression over one row."""
    source = {"type": "inline", "columnNames": [*row, "one"], "rows": [[*row.values(), 1]]}
    return scanned({"expression": expression}, source)[0]


@pytest.mark.parametrize(
    "expression",
    [
        "fold((x, acc) -> acc + x, [1, 2, 3], 0)",
        "fold((x, acc) -> acc + x, [1.5, 2.5], 0)",
        "fold((x, acc) -> concat(acc, x), ['a', 'b'], '>')",
        "fold((x, acc) -> acc + 1, [], 7)",
        "fold((x, acc) -> if(x > acc, x, acc), [3, 9, 4], 0)",
        "fold((x, acc) -> acc + n * x, [1, 2], n)",
        "cartesian_map((x, y) -> concat(x, y), ['a', 'b'], ['1', '2', '3'])",
        "cartesian_map((x, y) -> x * y, [1, 2], [3, 4])",
        "cartesian_map((x, y, z) -> x + y + z, [1, 2], [10], [100, 200])",
        "cartesian_map((x, y) -> x + y, [], [1])",
        "cartesian_fold((x, y, acc) -> acc + x * y, [1, 2], [3, 4], 0)",
        "cartesian_fold((x, y, acc) -> concat(acc, x, y), ['a', 'b'], ['c', 'd'], '')",
        "map((x) -> fold((y, acc) -> acc + y, [1, 2], x), [10, 20])",
    ],
)
def test_a_lambda_over_lists_gives_in_a_query_what_it_gives_at_ingestion(expression: str) -> None:
    assert value(expression, n=5) == evaluator_of(expression)[0]({"n": 5})


def test_a_fold_of_nothing_known_is_null_and_too_many_lists_are_refused() -> None:
    assert value("fold((x, acc) -> acc + x, array_offset(missing, 0), 1)") is None
    lists = ", ".join(["[1]"] * 6)
    with pytest.raises(InvalidQuery, match="5 lists at most"):
        value(f"cartesian_map((a, b, c, d, e, f) -> a, {lists})")


def test_several_multi_value_strings_in_one_expression_are_combined_member_by_member() -> None:
    rows = table(n=[1, 2, 3, 4], mv=[["x", "y"], ["z"], [], None], s=["a", "b", "c", None])
    asked = (
        ("mv || mv", ["xx", "yy"], "zz"),  # one string: each member beside itself
        ("UPPER(mv) || mv || s", ["Xxa", "Yya"], "Zzb"),
        ("CONCAT(mv, MV_TO_STRING(UPPER(mv), '+'))", ["xX+Y", "yX+Y"], "zZ"),
        ("mv || MV_APPEND(mv, 'q')", ["xx", "xy", "xq", "yx", "yy", "yq"], ["zz", "zq"]),
    )
    for expression, first, second in asked:
        found = ask(f"SELECT {expression} FROM t ORDER BY n", rows, sqlStringifyArrays=False)
        assert [row[0] for row in found[:2]] == [first, second], expression
    grouped = ask("SELECT mv || MV_APPEND(mv, 'q') AS both, COUNT(*) FROM t WHERE n = 1 GROUP BY 1 ORDER BY 1", rows)
    assert grouped == [["xq", 1], ["xx", 1], ["xy", 1], ["yq", 1], ["yx", 1], ["yy", 1]]
    assert ask("SELECT COUNT(*) FROM t WHERE mv || MV_APPEND(mv, 'q') = 'zq'", rows) == [[1]]


def test_a_native_query_over_two_multi_value_strings_answers_as_sql() -> None:
    both = {
        "type": "expression",
        "name": "v",
        "expression": "concat(tags, '/', upper(tags), '/', array_append(tags, sku))",
    }
    query = {"queryType": "groupBy", "dataSource": "events", "intervals": TIME, "granularity": "all"}
    groups = answered(**query, virtualColumns=[both], dimensions=["v"], aggregations=COUNT)
    native = [[group["event"]["v"], group["event"]["n"]] for group in groups]
    sql = "SELECT CONCAT(tags, '/', UPPER(tags), '/', MV_APPEND(tags, sku)), COUNT(*) FROM events GROUP BY 1 ORDER BY 1"
    assert native == answered_rows(sql) and len(native) > 100


def test_versions_are_ordered_as_maven_orders_them() -> None:
    keys = [[version_key(text) for text in equals] for equals in VERSIONS]
    assert all(len(set(equals)) == 1 for equals in keys)
    firsts = [equals[0] for equals in keys]
    assert firsts == sorted(firsts) and len(set(firsts)) == len(firsts)


def test_bounds_and_orders_of_versions() -> None:
    texts = ["1.10", "1.9", None, "1.2-rc1", "1.2"]
    source = {"type": "inline", "columnNames": ["v"], "rows": [[text] for text in texts]}
    bound = {"type": "bound", "dimension": "v", "ordering": "version", "lower": "1.2", "upper": "1.9.5"}
    query = {"dataSource": source, "intervals": "0001/3000", "granularity": "all"}
    scan = answered(**query, queryType="scan", columns=["v"], filter=bound, resultFormat="compactedList")
    assert sorted(itertools.chain(*scan[0]["events"])) == ["1.2", "1.9"]
    column = {"dimension": "v", "dimensionOrder": "version", "direction": "descending"}
    limit = {"type": "default", "limit": 10, "columns": [column]}
    groups = answered(**query, queryType="groupBy", dimensions=["v"], limitSpec=limit)
    assert [group["event"]["v"] for group in groups] == ["1.10", "1.9", "1.2", "1.2-rc1", None]
    metric = {"type": "dimension", "ordering": "version", "previousStop": "1.2-rc1"}
    [top] = answered(**query, queryType="topN", dimension="v", threshold=9, metric=metric, aggregations=COUNT)
    assert [one["v"] for one in top["result"]] == ["1.2", "1.9", "1.10"]


def test_an_expression_asks_sketches_of_columns_and_of_aggregates() -> None:
    whole = {"queryType": "timeseries", "dataSource": "hourly", "intervals": TIME, "granularity": "all"}
    made = [
        {"type": "HLLSketchMerge", "name": "h", "fieldName": "users_hll"},
        {"type": "thetaSketch", "name": "t", "fieldName": "users_theta"},
    ]
    texts = {
        "hll": "hll_sketch_estimate(h)",
        "whole": "hll_sketch_estimate(h, 1) + 1",
        "theta": "theta_sketch_estimate(t)",
    }
    posts = [{"type": "expression", "name": name, "expression": text} for name, text in texts.items()]
    [bucket] = answered(**whole, aggregations=made, postAggregations=posts)
    told = bucket["result"]
    assert told["hll"] == told["h"] and told["theta"] == told["t"]
    assert told["whole"] == round(told["h"]) + 1
    # Of a stored column, row by row.
    users = scanned({"expression": "hll_sketch_estimate(users_hll, 1)", "outputType": "LONG"}, "hourly")
    assert sum(users) == answered_rows("SELECT SUM(HLL_SKETCH_ESTIMATE(users_hll, TRUE)) FROM hourly")[0][0]
    with pytest.raises(InvalidQuery, match="theta_sketch_estimate needs"):
        scanned({"expression": "theta_sketch_estimate(users_hll)"}, "hourly")
