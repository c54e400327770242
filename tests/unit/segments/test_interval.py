"""Intervals, periods and granularities, against a calendar of plain datetimes."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segments.civil import (
    MAX_ROW_TIME_MS,
    MIN_ROW_TIME_MS,
    Period,
    civil_from_days,
    days_from_civil,
    format_iso_ms,
    parse_iso_ms,
)
from segments.errors import InvalidGranularity, InvalidInterval
from segments.interval import Granularity, Interval

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
row_times = st.integers(MIN_ROW_TIME_MS, MAX_ROW_TIME_MS)


def ms(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, zone: str = "UTC") -> int:
    time = datetime(year, month, day, hour, minute, second, tzinfo=ZoneInfo(zone))
    return (time - EPOCH) // timedelta(milliseconds=1)


def floor_oracle(name: str, time: datetime) -> datetime:
    """The bucket start by fields of a datetime, as one would do it by hand."""
    midnight = time.replace(hour=0, minute=0, second=0, microsecond=0)
    minutes = {"MINUTE": 1, "FIVE_MINUTE": 5, "TEN_MINUTE": 10, "FIFTEEN_MINUTE": 15, "THIRTY_MINUTE": 30}
    hours = {"HOUR": 1, "SIX_HOUR": 6, "EIGHT_HOUR": 8}
    if name in minutes:
        return time.replace(minute=time.minute // minutes[name] * minutes[name], second=0, microsecond=0)
    if name in hours:
        return midnight.replace(hour=time.hour // hours[name] * hours[name])
    return {
        "SECOND": lambda: time.replace(microsecond=0),
        "DAY": lambda: midnight,
        "WEEK": lambda: midnight - timedelta(days=midnight.weekday()),
        "MONTH": lambda: midnight.replace(day=1),
        "QUARTER": lambda: midnight.replace(month=(time.month - 1) // 3 * 3 + 1, day=1),
        "YEAR": lambda: midnight.replace(month=1, day=1),
    }[name]()


ORACLE_NAMES = [
    *("SECOND", "MINUTE", "FIVE_MINUTE", "TEN_MINUTE", "FIFTEEN_MINUTE", "THIRTY_MINUTE", "HOUR"),
    *("SIX_HOUR", "EIGHT_HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"),
]


@given(st.sampled_from(ORACLE_NAMES), row_times)
def test_every_simple_granularity_floors_like_a_calendar(name: str, time_ms: int) -> None:
    # 0001-01-01 is a Monday, so no week begins before the first datetime.
    expected = floor_oracle(name, EPOCH + timedelta(milliseconds=time_ms))
    bucket = Granularity.of(name.lower()).bucket(time_ms)
    assert bucket.start_ms == (expected - EPOCH) // timedelta(milliseconds=1)
    assert bucket.contains(time_ms)
    assert Granularity.of(name).bucket(bucket.end_ms).start_ms == bucket.end_ms


ZONES = ("America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "UTC")
PERIODS = ("P1D", "P1W", "P1M", "P3M", "P1Y", "PT1H", "PT6H", "PT15M", "P2W", "P10D")


@given(
    st.sampled_from(ZONES),
    st.sampled_from(PERIODS),
    st.sampled_from([None, "2013-02-28T05:30:00.000Z"]),
    st.integers(ms(1980, 1, 1), ms(2030, 1, 1)),
)
def test_zoned_buckets_hold_their_instant_and_join(zone: str, period: str, origin: str | None, time_ms: int) -> None:
    given_json = {"type": "period", "period": period, "timeZone": zone} | ({"origin": origin} if origin else {})
    granularity = Granularity.of(given_json)
    bucket = granularity.bucket(time_ms)
    assert bucket.start_ms <= time_ms < bucket.end_ms
    assert granularity.truncate(bucket.start_ms) == bucket.start_ms
    assert granularity.truncate(bucket.end_ms) == bucket.end_ms
    assert Granularity.of(granularity.to_json()) == granularity


@given(st.sampled_from([*ORACLE_NAMES, "NONE", "ALL"]), st.lists(st.one_of(st.none(), row_times)))
def test_arrays_truncate_as_single_times_do(name: str, times: list[int | None]) -> None:
    granularity = Granularity.of(name)
    truncated = granularity.truncate_array(pa.array(times, pa.int64())).to_pylist()
    assert truncated == [None if time is None else granularity.truncate(time) for time in times]


@given(st.sampled_from(ZONES), st.sampled_from(PERIODS), st.lists(st.integers(ms(2010, 1, 1), ms(2012, 1, 1))))
def test_arrays_truncate_in_zones(zone: str, period: str, times: list[int]) -> None:
    granularity = Granularity.of({"type": "period", "period": period, "timeZone": zone})
    assert granularity.truncate_array(pa.array(times, pa.int64())).to_pylist() == list(map(granularity.truncate, times))


def test_days_in_new_york_are_23_and_25_hours_long_when_clocks_change() -> None:
    day = Granularity.of({"type": "period", "period": "P1D", "timeZone": "America/New_York"})
    hours = [day.bucket(ms(2026, month, date, 17)).width_ms // 3_600_000 for month, date in ((3, 8), (3, 9), (11, 1))]
    assert hours == [23, 24, 25]
    assert day.bucket(ms(2026, 7, 1, 3)).start_ms == ms(2026, 6, 30, zone="America/New_York")


def test_a_day_without_midnight_begins_when_the_clock_jumped() -> None:
    # In Sao Paulo 2017-10-15 began at 01:00.
    day = Granularity.of({"type": "period", "period": "P1D", "timeZone": "America/Sao_Paulo"})
    assert day.truncate(ms(2017, 10, 15, 12)) == ms(2017, 10, 15, 3)


def test_half_hour_zones_cut_hours_by_their_own_clock() -> None:
    hour = Granularity.of({"type": "period", "period": "PT1H", "timeZone": "Asia/Kolkata"})
    assert hour.truncate(ms(2026, 1, 1, 0, 45)) == ms(2026, 1, 1, 0, 30)


def test_months_count_from_an_origin() -> None:
    month = Granularity.of({"type": "period", "period": "P1M", "origin": "2026-01-31T00:00:00Z"})
    assert str(month.bucket(ms(2026, 3, 1))) == "2026-02-28T00:00:00.000Z/2026-03-31T00:00:00.000Z"


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("fortnight", "fortnight"),
        ({"type": "period", "period": "P1X"}, "P1X"),
        ({"type": "period", "period": "P1DT1H"}, "one kind"),
        ({"type": "period", "period": "P0D"}, "one kind"),
        ({"type": "period", "period": "P1D", "timeZone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"type": "period", "period": "P1D", "origin": "soon"}, "soon"),
        ({"type": "duration", "duration": -1}, "positive"),
        ({"type": "lunar"}, "lunar"),
        (7, "neither"),
    ],
)
def test_a_wrong_granularity_is_refused_by_name(value: object, part: str) -> None:
    with pytest.raises(InvalidGranularity, match=part):
        Granularity.of(value)  # type: ignore[arg-type]


def test_fixed_widths_are_known_and_aligned() -> None:
    assert Granularity.HOUR.fixed_width_ms == 3_600_000
    assert Granularity.WEEK.truncate(0) % 604_800_000 == Granularity.WEEK.fixed_phase_ms
    assert Granularity.MONTH.fixed_width_ms is None and Granularity.ALL.fixed_width_ms is None
    assert Granularity.of({"type": "duration", "duration": 7, "origin": 3}).bucket(2) == Interval(-4, 3)


def test_times_outside_the_years_1_to_9999_are_refused_in_zones() -> None:
    day = Granularity.of({"type": "period", "period": "P1D", "timeZone": "Asia/Tokyo"})
    with pytest.raises(InvalidInterval, match="years 1 to 9999"):
        day.truncate(MAX_ROW_TIME_MS + 1)
    assert day.bucket(MAX_ROW_TIME_MS).contains(MAX_ROW_TIME_MS)
    assert day.bucket(MIN_ROW_TIME_MS).contains(MIN_ROW_TIME_MS)


def test_buckets_of_an_interval_are_whole_and_join() -> None:
    hours = list(Granularity.HOUR.buckets(Interval.parse("2026-01-01T00:30/PT2H")))
    assert [str(hour)[11:16] for hour in hours] == ["00:00", "01:00", "02:00"]


@given(row_times)
def test_instants_are_spelt_as_datetimes_are(time_ms: int) -> None:
    expected = (EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert format_iso_ms(time_ms) == expected
    assert parse_iso_ms(expected) == time_ms


@given(st.integers(-(10**11), 10**11))
def test_days_and_dates_are_inverse(days: int) -> None:
    assert days_from_civil(*civil_from_days(days)) == days


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2015", ms(2015, 1, 1)),
        ("2015-09", ms(2015, 9, 1)),
        ("2015-09-12", ms(2015, 9, 12)),
        ("2015-09-12T05", ms(2015, 9, 12, 5)),
        ("2015-09-12 05:06", ms(2015, 9, 12, 5, 6)),
        ("2015-09-12T05:06:07.5", ms(2015, 9, 12, 5, 6, 7) + 500),
        ("2015-09-12T05:06:07.123456789Z", ms(2015, 9, 12, 5, 6, 7) + 123),
        ("2015-09-12T05:06:07+02:00", ms(2015, 9, 12, 3, 6, 7)),
        ("2015-09-12T05:06:07-0530", ms(2015, 9, 12, 10, 36, 7)),
        ("2015-09-12T24:00:00Z", ms(2015, 9, 13)),
    ],
)
def test_iso_times_may_leave_out_their_end(text: str, expected: int) -> None:
    assert parse_iso_ms(text) == expected


@pytest.mark.parametrize(
    "text", ["", "2015-13-01", "2015-02-29", "2015-01-01T25", "x", "2015-01-01T00:00+20:00", "\u0661\u0662\u0663\u0664"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidInterval):
        parse_iso_ms(text)


@pytest.mark.parametrize("text", ["P", "PT", "1D", "P1H", "P-1D", ""])
def test_what_is_no_period_is_refused(text: str) -> None:
    with pytest.raises(InvalidInterval):
        Period.parse(text)


def test_intervals_parse_with_periods_on_either_side() -> None:
    day = Interval(ms(2015, 9, 12), ms(2015, 9, 13))
    for text in ("2015-09-12/2015-09-13", "2015-09-12/P1D", "p1d/2015-09-13", "2015-09-12t00:00z/pt24h", str(day)):
        assert Interval.parse(text) == day
    assert Interval.parse("2015-01-31/P1M").end_ms == ms(2015, 2, 28)
    assert str(Interval.ETERNITY) == "-146136543-09-08T08:23:32.096Z/146140482-04-24T15:36:27.903Z"
    assert Interval.parse(str(Interval.ETERNITY)) == Interval.ETERNITY


@pytest.mark.parametrize("text", ["2015-09-12", "2015-09-13/2015-09-12", "a/b", "2015/2016/2017", "P1D/P1D"])
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(InvalidInterval):
        Interval.parse(text)


def test_ends_are_half_open() -> None:
    first, second = Interval(0, 10), Interval(10, 20)
    assert first.contains(0) and not first.contains(10)
    assert not first.overlaps(second) and first.overlaps(Interval(9, 11))
    assert first.intersection(second) is None and first.intersection(Interval(5, 15)) == Interval(5, 10)
    assert Interval(0, 20).contains(second) and not second.contains(Interval(0, 20))
    assert not first.overlaps(Interval(5, 5))
