"""Time functions agree with an independent calendar, in SQL and when they are folded while planning."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from query.errors import InvalidQuery
from query.sql.calendar_math import floor_ms, parse_interval_ms, parse_span, shift_ms
from segments.civil import format_iso_ms, parse_iso_ms
from tests.unit.query.rows import ask, one, planned, table

ZONES = ("UTC", "America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe")
PERIODS = ("PT1S", "PT1M", "PT15M", "PT1H", "PT6H", "P1D", "P3D", "P1W", "P2W", "P1M", "P3M", "P5M", "P1Y", "P2Y")
EDGES = (
    "1969-12-31T23:59:59.999Z",
    "1970-01-01T00:00:00.000Z",
    "2024-02-29T12:34:56.789Z",
    "2024-03-10T09:59:59.999Z",
    "2024-03-10T10:00:00.000Z",
    "2024-03-31T00:30:00.000Z",
    "2024-03-31T01:00:00.000Z",
    "2024-10-27T00:30:00.000Z",
    "2024-10-27T01:30:00.000Z",
    "2024-11-03T08:30:00.000Z",
    "2024-11-03T09:30:00.000Z",
    "2024-12-30T00:00:00.000Z",
    "1900-02-28T23:00:00.000Z",
    "2100-03-01T00:00:00.000Z",
)


@pytest.mark.parametrize("zone", [*ZONES, "-03:30", "+0545"])
@pytest.mark.parametrize("origin", ["NULL", "TIMESTAMP '2024-01-31 06:00:00'"])
def test_buckets_in_sql_are_those_computed_while_planning(zone: str, origin: str) -> None:
    parts = ", ".join(f"TIME_FLOOR(__time, '{period}', {origin}, '{zone}')" for period in PERIODS)
    rows = ask(f"SELECT __time, {parts} FROM t", table(__time=list(EDGES)))
    origin_ms = None if origin == "NULL" else parse_iso_ms("2024-01-31T06:00:00Z")
    for moment, *found in rows:
        at = parse_iso_ms(moment)
        expected = [format_iso_ms(floor_ms(at, parse_span(period), zone, origin_ms)) for period in PERIODS]
        assert found == expected, moment


@pytest.mark.parametrize(("offset", "zone"), [("+05:30", "Asia/Kolkata"), ("-03", "Etc/GMT+3"), ("+00:00", "UTC")])
def test_a_zone_may_be_named_by_its_offset(offset: str, zone: str) -> None:
    asked = (
        "SELECT TIME_FLOOR(__time, 'P1D'), CEIL(__time TO MONTH), EXTRACT(HOUR FROM __time), CAST(__time AS VARCHAR), "
        "TIME_FORMAT(__time, 'yyyy-MM-dd HH:mm ZZ'), TIME_PARSE('2024-03-10 02:00', 'yyyy-MM-dd HH:mm'), __time FROM t"
    )
    rows = table(__time=list(EDGES[:12]))
    assert ask(asked, rows, sqlTimeZone=offset) == ask(asked, rows, sqlTimeZone=zone)


@pytest.mark.parametrize(
    "name", ["localtime", "posixrules", "right/UTC", "posix/Europe/Berlin", "+24:00", "+5", "UTC+1", ""]
)
def test_what_names_no_zone_everywhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidQuery, match="is unknown; use an IANA name"):
        planned(f"SELECT TIME_FLOOR(__time, 'P1D', NULL, '{name}') FROM t")


@settings(max_examples=60, deadline=None)
@given(st.integers(-2_177_452_800, 4_070_908_800), st.sampled_from(ZONES))
def test_days_months_and_years_begin_at_midnight_of_the_zone(seconds: int, zone: str) -> None:
    at = datetime.fromtimestamp(seconds, UTC)
    local = at.astimezone(ZoneInfo(zone))
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    for period, start in {
        "P1D": midnight,
        "P1W": midnight - timedelta(days=local.weekday()),
        "P1M": midnight.replace(day=1),
        "P1Y": midnight.replace(month=1, day=1),
    }.items():
        found = floor_ms(seconds * 1000, parse_span(period), zone, None)
        assert found == int(start.astimezone(UTC).timestamp()) * 1000, (period, zone, at)


@pytest.mark.parametrize("zone", [*ZONES, "+14", "-00:30"])
def test_shifts_in_sql_are_those_computed_while_planning(zone: str) -> None:
    shifts = [(period, times) for period in ("P1M", "P1D", "PT1H", "P1Y", "P1W") for times in (-13, 1, 5)]
    parts = ", ".join(f"TIME_SHIFT(__time, '{period}', {times}, '{zone}')" for period, times in shifts)
    for moment, *found in ask(f"SELECT __time, {parts} FROM t", table(__time=list(EDGES))):
        at = parse_iso_ms(moment)
        assert found == [format_iso_ms(shift_ms(at, parse_span(p), n, zone)) for p, n in shifts], moment


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CURRENT_TIMESTAMP", "2024-03-10T12:34:56.789Z"),
        ("CURRENT_DATE", "2024-03-10T00:00:00.000Z"),
        ("CURRENT_TIMESTAMP - INTERVAL '1' MONTH", "2024-02-10T12:34:56.789Z"),
        ("CURRENT_TIMESTAMP - INTERVAL '1' DAY", "2024-03-09T12:34:56.789Z"),
        ("FLOOR(CURRENT_TIMESTAMP TO WEEK)", "2024-03-04T00:00:00.000Z"),
        ("TIME_CEIL(TIMESTAMP '2024-03-10', 'P1M')", "2024-04-01T00:00:00.000Z"),
        ("TIMESTAMPADD(QUARTER, 1, DATE '2024-01-31')", "2024-04-30T00:00:00.000Z"),
        ("TIMESTAMPDIFF(YEAR, TIMESTAMP '2020-02-29', TIMESTAMP '2024-02-28')", 3),
        ("TIME_FORMAT(TIMESTAMP '2024-03-10 15:04:05.006', 'd/M/yy h:mm a')", "10/3/24 3:04 PM"),
        ("TIME_FORMAT(TIMESTAMP '2024-03-10', '''day'' EEEE, MMMM')", "day Sunday, March"),
        ("TIME_FORMAT(TIMESTAMP '2024-07-01', 'yyyy-MM-dd HH:mm ZZ', 'Asia/Kolkata')", "2024-07-01 05:30 +05:30"),
        ("TIME_PARSE('10/Mar/2024', 'dd/MMM/yyyy')", "2024-03-10T00:00:00.000Z"),
        ("TIME_PARSE('2024-02-30')", None),
        ("CAST('2024-02-29T10:00:00+02:00' AS TIMESTAMP)", "2024-02-29T08:00:00.000Z"),
        ("TIME_EXTRACT(TIMESTAMP '2024-12-30', 'WEEK')", 1),
        ("YEAR(DATE '2024-12-30')", 2024),
    ],
)
def test_time_expressions(expression: str, value: Any) -> None:
    assert one(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "TIME_FLOOR(TIMESTAMP '2024-01-01', 'bogus')",
        "TIME_FLOOR(TIMESTAMP '2024-01-01', 'P0D')",
        "TIME_FLOOR(TIMESTAMP '2024-01-01', 'P1M1D')",
        "TIME_FLOOR(TIMESTAMP '2024-01-01', 'P1D', NULL, 'Mars/Base')",
        "TIMESTAMP 'yesterday'",
        "EXTRACT(FORTNIGHT FROM TIMESTAMP '2024-01-01')",
        "INTERVAL 'x' DAY + TIMESTAMP '2024-01-01'",
    ],
)
def test_time_arguments_that_mean_nothing_are_refused(expression: str) -> None:
    with pytest.raises(InvalidQuery):
        one(expression)


@pytest.mark.parametrize(
    ("condition", "start", "end"),
    [
        ("__time >= TIMESTAMP '2024-03-01' AND __time < TIMESTAMP '2024-03-02'", "2024-03-01", "2024-03-02"),
        ("TIMESTAMP '2024-03-01' <= __time", "2024-03-01", None),
        ("__time > TIMESTAMP '2024-03-01'", "2024-03-01T00:00:00.001", None),
        ("__time = TIMESTAMP '2024-03-01'", "2024-03-01", "2024-03-01T00:00:00.001"),
        ("__time BETWEEN '2024-03-01' AND '2024-03-02'", "2024-03-01", "2024-03-02T00:00:00.001"),
        ("TIME_IN_INTERVAL(__time, '2024-03-01/P1W')", "2024-03-01", "2024-03-08"),
        ("(__time >= CURRENT_TIMESTAMP - INTERVAL '1' DAY) AND n > 1", "2024-03-09T12:34:56.789", None),
        ("__time >= FLOOR(CURRENT_TIMESTAMP TO DAY)", "2024-03-10", None),
        ("__time >= MILLIS_TO_TIMESTAMP(0)", "1970-01-01", None),
        ("__time >= TIMESTAMP '2024-03-01' OR n > 1", None, None),
        ("NOT (__time >= TIMESTAMP '2024-03-01')", None, None),
        ("__time <> TIMESTAMP '2024-03-01'", None, None),
    ],
)
def test_what_a_where_says_of_time_bounds_the_segments(condition: str, start: str | None, end: str | None) -> None:
    bounds = planned(f"SELECT COUNT(*) FROM t WHERE {condition}").tables[0].time_bounds
    assert bounds == tuple(None if text is None else parse_iso_ms(text) for text in (start, end))


def test_bounds_hold_per_use_of_a_table() -> None:
    query = (
        "SELECT COUNT(*) FROM (SELECT * FROM t WHERE __time >= TIMESTAMP '2024-01-01') a JOIN t b ON a.n = b.n "
        "WHERE b.__time < TIMESTAMP '2024-02-01'"
    )
    first, second = planned(query).tables
    assert (first.time_bounds, second.time_bounds) == (
        (parse_iso_ms("2024-01-01"), None),
        (None, parse_iso_ms("2024-02-01")),
    )


def test_intervals_are_read_in_all_three_forms() -> None:
    expected = (parse_iso_ms("2024-03-01"), parse_iso_ms("2024-03-08"))
    for text in ("2024-03-01/2024-03-08", "2024-03-01/P7D", "P1W/2024-03-08"):
        assert parse_interval_ms(text, "UTC") == expected


def test_the_newest_rows_are_ordered_by_the_column_itself() -> None:
    for order in ("__time", "1", "moment"):
        found = planned(f"SELECT __time AS moment, n FROM t ORDER BY {order} DESC LIMIT 3").duckdb_sql
        assert found.endswith("ORDER BY a2.c0 DESC NULLS LAST LIMIT 3")


@pytest.mark.parametrize(
    ("sql", "is_newest_first"),
    [
        ("SELECT s FROM t ORDER BY __time DESC LIMIT 5", True),
        ("SELECT __time, s FROM t ORDER BY 1 DESC, s LIMIT 5", True),
        ("SELECT s FROM t ORDER BY s, __time DESC LIMIT 5", False),
        ("SELECT s FROM t ORDER BY __time LIMIT 5", False),
        ("SELECT s FROM t ORDER BY __time DESC", False),
        ("SELECT __time, COUNT(*) FROM t GROUP BY 1 ORDER BY 1 DESC LIMIT 5", False),
    ],
)
def test_a_statement_that_keeps_the_newest_rows_says_so(sql: str, is_newest_first: bool) -> None:
    assert [use.newest_first for use in planned(sql).tables] == [is_newest_first]
