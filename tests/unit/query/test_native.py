"""Native queries beyond the recorded ones: what each member of a query changes in its answer."""

from typing import Any

import pytest

from query.errors import InvalidQuery, QueryError, ResourceLimitExceeded, UnsupportedQuery
from query.native.intervals import ETERNITY, condensed, parse_interval
from tests.conformance.engine import answered_rows
from tests.conformance.native import answered

ALL_TIME = "2023-01-01/2025-01-01"
COUNT: list[Any] = [{"type": "count", "name": "n"}]


def timeseries(**members: Any) -> Any:
    defaults = {"dataSource": "events", "intervals": ALL_TIME, "granularity": "all", "aggregations": COUNT}
    return answered(queryType="timeseries", **defaults | members)


def counted(filter_: Any, **members: Any) -> int:
    return int(timeseries(filter=filter_, **members)[0]["result"]["n"])


def summed(type_: str, column: str) -> list[Any]:
    return [{"type": type_, "name": "t", "fieldName": column}]


def value(expression: str, **row: Any) -> Any:
    """The value of an expression over one row."""
    source = {"type": "inline", "columnNames": [*row, "one"], "rows": [[*row.values(), 1]]}
    column = {"type": "expression", "name": "v", "expression": expression}
    answer = answered(
        queryType="scan", dataSource=source, intervals=ALL_TIME, columns=["v"], virtualColumns=[column],
        resultFormat="compactedList",
    )  # fmt: skip
    return answer[0]["events"][0][0]


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0)])
def test_zeros_of_either_sign_are_one_value_told_as_zero(zeros: tuple[float, float]) -> None:
    source = {"type": "inline", "columnNames": ["d"], "columnTypes": ["DOUBLE"], "rows": [[zero] for zero in zeros]}
    key = {"type": "default", "dimension": "d", "outputName": "d", "outputType": "DOUBLE"}
    ends = [{"type": kind, "name": kind, "fieldName": "d"} for kind in ("doubleMin", "floatMax", "doubleSum")]
    told = {"dataSource": source, "intervals": ALL_TIME, "granularity": "all", "aggregations": COUNT + ends}
    [group] = answered(queryType="groupBy", dimensions=[key], **told)
    [top] = answered(queryType="topN", dimension=key, metric="n", threshold=2, **told)[0]["result"]
    wanted = "{'d': 0.0, 'n': 2, 'doubleMin': 0.0, 'floatMax': 0.0, 'doubleSum': 0.0}"
    assert repr(group["event"]) == repr(top) == wanted


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("7 / 2", 3),
        ("7.0 / 2", 3.5),
        ("1 / 0", None),
        ("2 ^ 10", 1024),
        ("'a' + 'b'", "ab"),
        ("1 < 2", 1),
        ("!(1 < 2) || null", None),
        ("if(n > 2, 'big', 'small')", "big"),
        ("case_simple(s, 'x', 1, 'abc', 2, 3)", 2),
        ("case_searched(n > 5, 'a', isnull(m), 'b')", "b"),
        ("nvl(cast(m, 'LONG'), 7)", 7),
        ("substring(s, 1, -1)", "bc"),
        ("substring(s, 3, 1)", None),
        ("strpos(s, 'c')", 2),
        ("strpos(s, 'z')", -1),
        ("concat(s, null)", None),
        ("format('%s-%03d', s, n)", "abc-003"),
        ("cast('12', 'LONG') + 1", 13),
        ("cast(3.9, 'LONG')", 3),
        ("timestamp_floor(timestamp('2024-03-10T12:34:56Z'), 'P1D', null, 'America/Los_Angeles')", 1710057600000),
        ("timestamp_format(0, 'yyyy-MM-dd HH:mm')", "1970-01-01 00:00"),
        ("unix_timestamp('1970-01-01T00:01:00Z')", 60),
        ("map((x) -> x * 2, [1, 2])", [2, 4]),
        ("filter((x) -> x != 'a', ['a', 'b'])", ["b"]),
        ("any((x) -> x > 1, [1, 2])", 1),
        ("all((x) -> x > 1, [1, 2])", 0),
        ("array_length([1, 2, 3])", 3),
        ("array_contains(['a', 'b'], 'b')", 1),
        ("array_to_string([1, 2], '-')", "1-2"),
        ("array_set_add([1, 2], 1)", [1, 2]),
        ("max(1, 2.5)", 2.5),
        ("greatest(1, null, 3)", 3),
        ("floor(2.7)", 2.0),
        ("hypot(3, 4)", 5.0),
        ("json_value(parse_json('{\"a\": {\"b\": 7.5}}'), '$.a.b', 'LONG')", 7),
        ("bitwiseand(6, 3)", 2),
        ("notfalse(null)", 1),
        ("no_such_column", None),
    ],
)
def test_an_expression_has_the_value_that_druid_gives_it(expression: str, expected: Any) -> None:
    assert value(expression, n=3, m=None, s="abc") == expected


@pytest.mark.parametrize(
    ("filter_", "condition"),
    [
        (dict(type="equals", column="scores", matchValueType="ARRAY<LONG>", matchValue=[3, 1]), "scores = ARRAY[3,1]"),
        (dict(type="range", column="tags", matchValueType="STRING", lower="re", upper="rf"), "tags = 'red'"),
        (dict(type="bound", dimension="quantity", lower="2", ordering="numeric"), "quantity >= 2"),
        (dict(type="bound", dimension="city", upper="zzz", ordering="strlen"), "CHAR_LENGTH(city) < 4 OR city IS NULL"),
        (dict(type="in", dimension="quantity", values=["3", "x"]), "quantity = 3"),
        (dict(type="selector", dimension="__time", value="1704067200000"), "__time = TIMESTAMP '2024-01-01'"),
        (dict(type="like", dimension="tags", pattern="re_"), "tags LIKE 're_'"),
        (dict(type="expression", expression="tags == 'red'"), "tags = 'red'"),
        ({"type": "and", "fields": []}, "TRUE"),
    ],
)  # fmt: skip
def test_a_filter_and_the_condition_of_the_same_sql_count_alike(filter_: Any, condition: str) -> None:
    assert [[counted(filter_)]] == answered_rows(f"SELECT COUNT(*) FROM events WHERE {condition}")


def test_alphanumeric_order_reads_runs_of_digits_as_numbers() -> None:
    rows = [["a10"], ["a9"], ["a09"], ["a1b2"], ["a1b10"], [None], ["b"]]
    found = answered(
        queryType="groupBy", dataSource={"type": "inline", "columnNames": ["x"], "rows": rows}, intervals=ALL_TIME,
        granularity="all", dimensions=["x"], context={"resultAsArray": True},
        limitSpec={"type": "default", "columns": [{"dimension": "x", "dimensionOrder": "alphanumeric"}]},
    )  # fmt: skip
    assert [row[0] for row in found] == [None, "a1b2", "a1b10", "a9", "a09", "a10", "b"]


def test_empty_buckets_end_where_the_tables_rows_do() -> None:
    found = timeseries(granularity="month", intervals="2020-01-01/2030-01-01", descending=True, limit=2)
    assert [row["timestamp"][:7] for row in found] == ["2024-04", "2024-03"]
    assert len(timeseries(granularity="month", intervals="2020-01-01/2030-01-01")) == 5


def test_more_buckets_without_rows_than_anybody_reads_are_refused() -> None:
    with pytest.raises(ResourceLimitExceeded, match="skipEmptyBuckets"):
        timeseries(granularity={"type": "duration", "duration": 100}, intervals="2020-01-01/2030-01-01")
    assert timeseries(granularity="second", intervals="2020-01-01/2030-01-01", context={"skipEmptyBuckets": True})


def test_a_day_that_a_change_of_the_clock_made_longer_is_one_bucket() -> None:
    zone = {"type": "period", "period": "P1D", "timeZone": "America/Los_Angeles"}
    found = timeseries(granularity=zone, intervals="2024-03-09T08:00Z/2024-03-13T07:00Z", filter={"type": "false"})
    assert [row["timestamp"][5:] for row in found] == [
        "03-09T00:00:00.000-08:00", "03-10T00:00:00.000-08:00", "03-11T00:00:00.000-07:00", "03-12T00:00:00.000-07:00",
    ]  # fmt: skip
    assert all(row["result"] == {"n": 0} for row in found)


def test_a_grand_total_counts_what_the_buckets_do_after_all_of_them() -> None:
    found = timeseries(granularity="year", context={"grandTotal": "true"}, descending=True)
    assert [(row["timestamp"], row["result"]["n"]) for row in found][-1] == (None, 200)
    assert sum(row["result"]["n"] for row in found[:-1]) == 200


def test_without_rows_one_bucket_is_told_unless_empty_ones_are_skipped() -> None:
    nothing = {"type": "false"}
    assert counted(nothing) == 0
    assert timeseries(filter=nothing, context={"skipEmptyBuckets": True}) == []
    assert timeseries(dataSource="nobody", granularity="hour") == []


def test_a_subquery_keeps_its_buckets_as_the_time_of_its_rows() -> None:
    inner = {"queryType": "timeseries", "dataSource": "events", "intervals": ALL_TIME, "granularity": "month",
             "aggregations": COUNT}  # fmt: skip
    found = timeseries(
        dataSource={"type": "query", "query": inner}, intervals="2024-02-01/2024-04-01",
        aggregations=[{"type": "longSum", "name": "n", "fieldName": "n"}],
    )  # fmt: skip
    assert found[0]["result"]["n"] == 29 + 154


def test_a_subquery_tells_its_empty_buckets_as_rows_too() -> None:
    inner = {"queryType": "timeseries", "dataSource": "events", "intervals": "2024-02-29T10/2024-02-29T16",
             "granularity": "hour", "aggregations": COUNT}  # fmt: skip
    means = [{"type": "doubleMean", "name": "mean", "fieldName": "n"}, {"type": "count", "name": "buckets"}]

    def told(**members: Any) -> Any:
        query = {"type": "query", "query": inner | members}
        return timeseries(dataSource=query, aggregations=means)[0]["result"]

    assert told() == {"mean": 4 / 6, "buckets": 6}
    assert told(context={"skipEmptyBuckets": True}) == {"mean": 4 / 3, "buckets": 3}
    assert told(limit=2) == {"mean": 0.5, "buckets": 2}
    with pytest.raises(InvalidQuery, match="at most 10000 buckets"):
        told(granularity="second")
    assert len(answered(**inner | {"granularity": "second"})) == 6 * 3600


def test_a_union_may_be_a_list_and_a_table_that_is_missing_in_it_has_no_rows() -> None:
    found = timeseries(dataSource=["events", "nobody", "products"], intervals="0/4000")
    assert found[0]["result"]["n"] == 210


def test_an_unnested_column_gives_a_row_for_each_member() -> None:
    source = {
        "type": "unnest", "base": {"type": "filter", "base": "events", "filter": {"type": "true"}},
        "virtualColumn": {"type": "expression", "name": "tag", "expression": "tags"},
        "unnestFilter": {"type": "selector", "dimension": "tag", "value": "red"},
    }  # fmt: skip
    assert timeseries(dataSource=source)[0]["result"]["n"] == 47


def test_a_join_narrows_its_left_side_and_prefixes_its_right() -> None:
    source = {
        "type": "join", "left": "events", "right": "products", "rightPrefix": "p.", "joinType": "INNER",
        "condition": "sku == \"p.sku\"", "leftFilter": {"type": "selector", "dimension": "device", "value": "phone"},
    }  # fmt: skip
    found = timeseries(dataSource=source)[0]["result"]["n"]
    statement = "SELECT COUNT(*) FROM events e JOIN products p ON e.sku = p.sku WHERE e.device = 'phone'"
    assert [[found]] == answered_rows(statement)


def test_scan_keeps_to_its_blocks_and_its_order() -> None:
    found = answered(
        queryType="scan", dataSource="events", intervals=ALL_TIME, columns=["id"], batchSize=3, limit=7,
        orderBy=[{"columnName": "id", "order": "descending"}], resultFormat="compactedList",
    )  # fmt: skip
    assert [[row[0] for row in block["events"]] for block in found] == [[200, 199, 198], [197, 196, 195], [194]]
    everything = answered(queryType="scan", dataSource="products", intervals="0/4000", limit=1)
    assert everything[0]["columns"][0] == "__time"


def test_a_query_of_another_type_than_groupby_tells_the_same_sum() -> None:
    sums = [{"type": "longSum", "name": "q", "fieldName": "quantity"}]
    top = answered(queryType="topN", dataSource="events", intervals=ALL_TIME, granularity="all", dimension="country",
                   metric="q", threshold=100, aggregations=sums)  # fmt: skip
    groups = answered(queryType="groupBy", dataSource="events", intervals=ALL_TIME, dimensions=["country"],
                      aggregations=sums)  # fmt: skip
    assert sorted(map(str, top[0]["result"])) == sorted(str(row["event"]) for row in groups)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"aggregations": summed("spectatorHistogram", "id")}, "'spectatorHistogram' is not supported"),
        ({"aggregations": summed("thetaSketch", "user") + summed("quantilesDoublesSketch", "tags")}, "several values"),
        ({"aggregations": summed("longSun", "id")}, "aggregations[0].type: 'longSun'"),
        ({"aggregations": [{"type": "longSum", "fieldName": "id"}]}, "aggregations[0].name"),
        ({"aggregations": summed("longFirst", "tags")}, "longFirst of a column"),
        ({"aggregations": summed("doubleMean", "tags")}, "doubleMean of a column"),
        ({"dataSource": {"type": "lookup", "lookup": "l"}}, "Lookup 'l' not found"),
        ({"dataSource": None}, "dataSource"),
        ({"filter": {"type": "javascript"}}, "'javascript' is not supported"),
        ({"filter": {"type": "or", "fields": [{"type": "true"}, {"type": "like", "dimension": "x"}]}}, ".pattern"),
        ({"filter": {"type": "expression", "expression": "a +"}}, "at 4"),
        ({"context": {"bySegment": True}}, "bySegment"),
        ({"context": {"timeout": -1}}, "context.timeout"),
        ({"granularity": {"type": "period", "period": "P1MT1H"}}, "no fixed length"),
        ({"intervals": "2024-02-01/2024-01-01"}, "ends before it starts"),
        ({"postAggregations": [{"type": "tDigestQuantile", "name": "x"}]}, "'tDigestQuantile'"),
        ({"virtualColumns": [{"type": "expression", "name": "v", "expression": "lookup(a, 'l')"}]}, "Lookup 'l'"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_by_its_path(changes: Any, told: str) -> None:
    with pytest.raises(QueryError) as refused:
        timeseries(**changes)
    assert told in refused.value.message
    assert refused.value.status == (501 if isinstance(refused.value, UnsupportedQuery) else 400)


def test_nesting_without_end_is_refused() -> None:
    filter_: Any = {"type": "true"}
    source: Any = "events"
    for _ in range(1_000):
        filter_ = {"type": "not", "field": filter_}
        source = {"type": "query", "query": {"queryType": "scan", "dataSource": source, "intervals": ALL_TIME}}
    for changes in ({"filter": filter_}, {"dataSource": source}):
        with pytest.raises(InvalidQuery, match="nested deeper"):
            timeseries(**changes)


def test_intervals_are_read_in_all_of_druids_forms() -> None:
    eternity = "-146136543-09-08T08:23:32.096Z/146140482-04-24T15:36:27.903Z"
    assert parse_interval(eternity) == ETERNITY
    assert parse_interval("2024-01-01/P1M") == parse_interval("P1M/2024-02-01T01:00+01:00")
    assert condensed([(5, 9), (1, 3), (3, 4), (6, 7)]) == ((1, 4), (5, 9))


def test_a_join_that_keeps_its_right_side_bounds_only_its_left() -> None:
    source = {
        "type": "join", "left": "events", "right": {"type": "filter", "base": "products", "filter": {"type": "true"}},
        "rightPrefix": "p.", "joinType": "RIGHT", "condition": "sku == \"p.sku\"",
    }  # fmt: skip
    none_of_them = timeseries(dataSource=source, intervals="2030-01-01/2031-01-01")
    assert none_of_them[0]["result"]["n"] == 10


@pytest.mark.parametrize(("symbol", "expected"), [("/", 0.0), ("quotient", "Infinity"), ("pow", 1.0), ("-", 200.0)])
def test_arithmetic_by_zero_is_what_its_symbol_says(symbol: str, expected: Any) -> None:
    zero = {"type": "constant", "value": 0}
    rows, missing = ({"type": "fieldAccess", "fieldName": name} for name in "nx")
    posts = [
        {"type": "arithmetic", "name": "p", "fn": symbol, "fields": [rows, zero]},
        {"type": "arithmetic", "name": "q", "fn": symbol, "fields": [zero, missing]},
    ]
    assert timeseries(postAggregations=posts)[0]["result"] == {"n": 200, "p": expected, "q": None}


def test_an_expression_that_would_grow_without_bound_is_refused() -> None:
    text = "device"
    for _ in range(60):
        text = f"substring({text}, 0, -1)"
    cascade = {"type": "cascade", "extractionFns": [{"type": "regex", "expr": "a"}] * 60}
    dimension = {"type": "extraction", "dimension": "device", "extractionFn": cascade}
    column = {"type": "expression", "name": "v", "expression": text}
    for members in ({"virtualColumns": [column]}, {"dimensions": [dimension]}):
        with pytest.raises(InvalidQuery, match="too large"):
            answered(queryType="groupBy", dataSource="events", intervals=ALL_TIME, **members)
