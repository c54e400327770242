"""Cuts times down to granularity buckets in named time zones, and whole Arrow arrays at once."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from segments.civil import DAY_MS, HOUR_MS, MAX_ROW_TIME_MS, MIN_ROW_TIME_MS, MINUTE_MS, format_iso_ms
from segments.errors import InvalidGranularity, InvalidInterval
from segments.interval import Granularity, Interval

Int64Array = npt.NDArray[np.int64]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_OF_THE_HOST = ("localtime", "posix", "right/", "Factory")
_OFFSET = re.compile(r"([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?")
# Python's dates end at both ends of this range; a zone's offset is constant that far out, so clamping is exact.
_FIRST_LOOKUP_MS, _LAST_LOOKUP_MS = MIN_ROW_TIME_MS + 2 * DAY_MS, MAX_ROW_TIME_MS - 2 * DAY_MS


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """The zone of an IANA name, or of an offset such as +05:30.

    Raises:
        InvalidGranularity: there is no such zone.
    """
    fixed_ms = fixed_offset_ms(name)
    if fixed_ms is not None:
        return timezone(timedelta(milliseconds=fixed_ms))
    try:
        if name.startswith(_OF_THE_HOST):
            # Files beside the zones: the host's own zone, and zones that count leap seconds.
            raise ZoneInfoNotFoundError
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        cure = "use an IANA name such as Europe/Berlin, or an offset such as +05:30"
        raise InvalidGranularity(f"time zone {name!r} is unknown; {cure}") from error


def fixed_offset_ms(name: str) -> int | None:
    """How far a zone that is named by its offset is ahead of UTC; None for other names."""
    match = _OFFSET.fullmatch(name)
    if match is None:
        return None
    ahead_ms = int(match[2]) * HOUR_MS + int(match[3] or 0) * MINUTE_MS
    return -ahead_ms if match[1] == "-" else ahead_ms


def offset_ms(time_ms: int, zone_name: str) -> int:
    """What a zone's clock shows ahead of UTC at an instant."""
    clamped_ms = min(max(time_ms, _FIRST_LOOKUP_MS), _LAST_LOOKUP_MS)
    offset = (_EPOCH + timedelta(milliseconds=clamped_ms)).astimezone(zone_of(zone_name)).utcoffset()
    assert offset is not None
    return offset // _MILLISECOND


def to_utc_ms(local_ms: int, zone_name: str) -> int:
    """The first instant at which a zone's clock shows a civil time, or has jumped over it."""
    clamped_ms = min(max(local_ms, _FIRST_LOOKUP_MS), _LAST_LOOKUP_MS)
    local = (_EPOCH + timedelta(milliseconds=clamped_ms)).replace(tzinfo=zone_of(zone_name), fold=0)
    offset = local.utcoffset()
    assert offset is not None
    return local_ms - offset // _MILLISECOND


def zoned_bucket(granularity: Granularity, time_ms: int) -> Interval:
    """The bucket of an instant for days, weeks, months and single hours of a zone's own clock."""
    zone = granularity.time_zone
    _require_in_range(time_ms, time_ms)
    now_offset_ms = offset_ms(time_ms, zone)
    if granularity.period.fixed_ms == HOUR_MS:
        local_ms = time_ms + now_offset_ms
        start_ms = local_ms - local_ms % HOUR_MS - now_offset_ms
        return Interval(start_ms, start_ms + HOUR_MS)
    origin_ms = granularity.origin_ms
    origin_local_ms = None if origin_ms is None else origin_ms + offset_ms(origin_ms, zone)
    start_local_ms, end_local_ms = granularity.civil_bucket(time_ms + now_offset_ms, origin_local_ms)
    return Interval(to_utc_ms(start_local_ms, zone), to_utc_ms(end_local_ms, zone))


def truncate_array(granularity: Granularity, times: "pa.Array[Any]") -> "pa.Array[Any]":
    """``Granularity.truncate`` on an int64 array of milliseconds; nulls stay null."""
    assert times.type == pa.int64(), "times are int64 milliseconds"
    valid = np.asarray(times.is_valid()) if times.null_count else None
    values = np.asarray(times.fill_null(0) if times.null_count else times)
    return pa.array(truncate_ms(granularity, values), mask=None if valid is None else ~valid)


def truncate_ms(granularity: Granularity, times_ms: Int64Array) -> Int64Array:
    """``Granularity.truncate`` on a numpy array of milliseconds."""
    width_ms = granularity.fixed_width_ms
    if width_ms == 1 or not len(times_ms):
        return times_ms
    if width_ms is not None:
        return times_ms - np.mod(times_ms - granularity.fixed_phase_ms, width_ms)
    if granularity.name == "ALL":
        return np.full(len(times_ms), Interval.ETERNITY.start_ms, dtype=np.int64)
    _require_in_range(int(times_ms.min()), int(times_ms.max()))
    if granularity.time_zone == "UTC" and granularity.origin_ms is None:
        return _truncate_months(granularity.period.months, times_ms)
    return _truncate_by(granularity.bucket, times_ms)


def _truncate_months(months: int, times_ms: Int64Array) -> Int64Array:
    number: Int64Array = times_ms.astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)
    number -= np.mod(number, months)
    result: Int64Array = number.astype("datetime64[M]").astype("datetime64[ms]").astype(np.int64)
    return result


def _truncate_by(bucket: Callable[[int], Interval], times_ms: Int64Array) -> Int64Array:
    """Asks once per bucket that occurs, not once per time."""
    order: npt.NDArray[Any] = np.argsort(times_ms, kind="stable")
    ascending = times_ms[order]
    starts: Int64Array = np.empty_like(ascending)
    position = 0
    while position < len(ascending):
        current = bucket(int(ascending[position]))
        following = int(np.searchsorted(ascending, current.end_ms))
        # A clock set back shows an hour twice; the bucket's end may then not lie past the time itself.
        following = max(following, position + 1)
        starts[position:following] = current.start_ms
        position = following
    result: Int64Array = np.empty_like(starts)
    result[order] = starts
    return result


def _require_in_range(first_ms: int, last_ms: int) -> None:
    for time_ms in (first_ms, last_ms):
        if not MIN_ROW_TIME_MS <= time_ms <= MAX_ROW_TIME_MS:
            raise InvalidInterval(f"{format_iso_ms(time_ms)} is outside the years 1 to 9999")
