"""Which instant a time value means, alone and in columns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segments.civil import parse_iso_ms
from segments.errors import InvalidInterval
from segments.time_arrays import TimeReader
from segments.time_format import time_parser

LEAP = parse_iso_ms("2024-02-29T12:34:56.789Z")


@pytest.mark.parametrize(
    ("name", "value", "iso"),
    [
        ("iso", "2024-02-29T12:34:56.789Z", "2024-02-29T12:34:56.789Z"),
        ("iso", "2024-02-29", "2024-02-29"),
        ("iso", "2024-02-29T12:34:56+02:00", "2024-02-29T10:34:56Z"),
        ("auto", "1709210096789", "2024-02-29T12:34:56.789Z"),
        ("auto", 1709210096, "1970-01-20T18:46:50.096Z"),
        ("auto", '"2024-02-29"', "2024-02-29"),
        ("auto", "2024-02-29 12:34:56 Europe/Berlin", "2024-02-29T11:34:56Z"),
        ("auto", "2024-02-29 12:34:56 +0100", "2024-02-29T11:34:56Z"),
        ("millis", 1709210096789.7, "2024-02-29T12:34:56.789Z"),
        ("posix", "1709210096", "2024-02-29T12:34:56Z"),
        ("posix", 1709210096.5, "2024-02-29T12:34:56Z"),
        ("micro", "1709210096789999", "2024-02-29T12:34:56.789Z"),
        ("nano", 1709210096789123456, "2024-02-29T12:34:56.789Z"),
        ("ruby", "1709210096.789", "2024-02-29T12:34:56.789Z"),
        ("yyyy-MM-dd HH:mm:ss", "2024-02-29 12:34:56", "2024-02-29T12:34:56Z"),
        ("dd/MMM/yyyy:HH:mm:ss Z", "29/feb/2024:12:34:56 +0100", "2024-02-29T11:34:56Z"),
        ("yyyyMMdd", 20240229, "2024-02-29"),
        ("yyyyMMddHHmmssSSS", "20240229123456789", "2024-02-29T12:34:56.789Z"),
        ("MM/dd/yy hh:mm a", "02/29/24 12:34 PM", "2024-02-29T12:34:00Z"),
        ("EEE, d MMMM yyyy HH:mm:ss z", "Thu, 29 February 2024 12:34:56 UTC", "2024-02-29T12:34:56Z"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSZZ", "2024-02-29T12:34:56.789+02:00", "2024-02-29T10:34:56.789Z"),
        ("xxxx-'W'ww-e", "2024-W09-4", "2024-02-29"),
        ("yyyy-DDD", "2024-060", "2024-02-29"),
    ],
)
def test_each_format_reads_its_texts(name: str, value: Any, iso: str) -> None:
    assert time_parser(name)(value) == parse_iso_ms(iso)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("iso", "2024-02-30"),
        ("iso", "29.02.2024"),
        ("iso", ""),
        ("iso", {"a": 1}),
        ("iso", True),
        ("auto", "x"),
        ("millis", "abc"),
        ("millis", "1.5"),
        ("millis", 10**30),
        ("posix", float("inf")),
        ("yyyy-MM-dd HH:mm:ss", "2024-02-29"),
        ("yyyy-MM-dd", "2023-02-29"),
        ("ruby", "x"),
        ("auto", "2024-02-29 12:34:56 Mars/Base"),
        ("millis", 253_402_300_800_000),
        ("iso", "0000-12-31"),
    ],
)
def test_what_is_no_time_is_refused_with_a_reason(name: str, value: Any) -> None:
    with pytest.raises(InvalidInterval):
        time_parser(name)(value)


@pytest.mark.parametrize("pattern", ["qq", "", "yyyy-MM-dd'T", "...", "isoo"])
def test_a_pattern_with_unknown_parts_is_refused_when_it_is_read(pattern: str) -> None:
    with pytest.raises(InvalidInterval):
        time_parser(pattern)


TIMES = st.one_of(
    st.none(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.datetimes().map(lambda t: t.isoformat()),
    st.datetimes().map(lambda t: t.isoformat(timespec="milliseconds") + "Z"),
    st.datetimes().map(lambda t: t.isoformat(" ", timespec="seconds") + "+02:00"),
    st.integers(-(10**13), 10**13).map(str),
    st.sampled_from(["2024-02-30T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T23:59:60Z", " 12", "+5", "0001"]),
    st.text(max_size=12),
)


@given(st.sampled_from(["iso", "auto", "millis", "posix", "micro", "nano"]), TIMES, st.lists(TIMES, max_size=4))
def test_columns_read_exactly_as_single_values_do(name: str, first: Any, others: list[Any]) -> None:
    reader, parse = TimeReader(name), time_parser(name)
    for values in ([first], [first] * 3, [first, *others]):
        times, good = reader.read(values)
        for value, time_ms, is_good in zip(values, times.tolist(), good.tolist(), strict=True):
            try:
                expected: int | None = None if value is None else parse(value)
            except InvalidInterval:
                expected = None
            assert (time_ms if is_good else None) == expected, value


@given(st.lists(st.datetimes(), min_size=1, max_size=5), st.sampled_from(["seconds", "milliseconds", "microseconds"]))
def test_alike_iso_texts_read_as_single_values_do(times: list[Any], precision: str) -> None:
    for suffix in ("", "Z", "-0330"):
        texts = [time.isoformat(timespec=precision) + suffix for time in times]
        read, good = TimeReader("iso").read(texts)
        for text, time_ms, is_good in zip(texts, read.tolist(), good.tolist(), strict=True):
            try:
                expected: int | None = time_parser("iso")(text)
            except InvalidInterval:
                expected = None
            assert (time_ms if is_good else None) == expected
