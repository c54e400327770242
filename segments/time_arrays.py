"""Reads whole columns of time values at once: vectorised where all values look alike, else one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from segments.arrow_arrays import ArrowArray
from segments.civil import MAX_ROW_TIME_MS, MIN_ROW_TIME_MS
from segments.errors import InvalidInterval
from segments.time_format import numeric_scale, time_parser

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NONE: Final = type(None)
# Only these spellings are left to Arrow; whatever else it would read differently from us stays with us.
_ISO_SHAPE: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?"
_ISO_WAYS: Final[tuple[tuple[Literal["ms", "us"], bool, str], ...]] = (
    ("ms", True, r"(?:Z|[+-]\d\d:?\d\d)$"),
    ("ms", False, "$"),
    ("us", True, r"(?:Z|[+-]\d\d:?\d\d)$"),
    ("us", False, "$"),
)


class TimeReader:
    """Reads columns of one format; remembers which fast way fitted last. For one thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._parse = time_parser(name)
        self._scale = numeric_scale(name)
        self._iso_first = 0

    def read(self, values: Sequence[Any]) -> tuple[Times, Mask]:
        """Milliseconds and a mask of the values that are good; null and bad values hold 0."""
        kinds = set(map(type, values))
        times: ArrowArray | None = None
        if kinds == {str}:
            times = self._read_texts(pa.array(values, pa.string()))
        elif kinds == {int} and (self._scale or self._name == "auto"):
            times = self._read_integers(values)
        if times is None or times.null_count:
            return self._one_by_one(values)
        result: Times = np.asarray(times)
        good: Mask = (result >= MIN_ROW_TIME_MS) & (result <= MAX_ROW_TIME_MS)
        return result, good

    def _read_integers(self, values: Sequence[int]) -> ArrowArray | None:
        try:
            return self._to_ms(pa.array(values, pa.int64()))
        except (OverflowError, pa.ArrowInvalid):
            return None

    def _read_texts(self, texts: ArrowArray) -> ArrowArray | None:
        if self._scale is not None:
            return self._read_digits(texts)
        if self._name == "auto":
            first = texts[0].as_py()
            return self._read_digits(texts) if first.lstrip("+-").isdigit() else self._read_iso(texts)
        return self._read_iso(texts) if self._name == "iso" else None

    def _read_digits(self, texts: ArrowArray) -> ArrowArray | None:
        try:
            # The cast takes digits with a minus, and hexadecimals with an x.
            data = np.frombuffer(texts.buffers()[2], dtype=np.uint8)
            if np.any((data == ord("x")) | (data == ord("X"))):
                return None
            return self._to_ms(texts.cast(pa.int64()))
        except pa.ArrowInvalid:
            return None

    def _to_ms(self, units: ArrowArray) -> ArrowArray | None:
        multiply, divide = self._scale or (1, 1)
        values: Times = np.asarray(units)
        if multiply > 1:
            if len(values) and max(abs(int(values.min())), abs(int(values.max()))) > MAX_ROW_TIME_MS:
                return None
            values = values * multiply
        return pa.array(values // divide if divide > 1 else values)

    def _read_iso(self, texts: ArrowArray) -> ArrowArray | None:
        for at in range(len(_ISO_WAYS)):
            way = (self._iso_first + at) % len(_ISO_WAYS)
            unit, zoned, ending = _ISO_WAYS[way]
            try:
                times: ArrowArray = pc.cast(texts, pa.timestamp(unit, "UTC") if zoned else pa.timestamp(unit))
            except pa.ArrowInvalid:
                continue
            if not _alike(texts) and not pc.all(pc.match_substring_regex(texts, _ISO_SHAPE + ending)).as_py():
                return None
            self._iso_first = way
            units: Times = np.asarray(times.view(pa.int64()))
            return pa.array(units // 1000 if unit == "us" else units)
        return None

    def _one_by_one(self, values: Sequence[Any]) -> tuple[Times, Mask]:
        parse: Callable[[Any], int] = self._parse
        times: Times = np.zeros(len(values), dtype=np.int64)
        good: Mask = np.zeros(len(values), dtype=np.bool_)
        for at, value in enumerate(values):
            if value is not None:
                try:
                    times[at] = parse(value)
                except InvalidInterval:
                    continue
                good[at] = True
        return times, good


def _alike(texts: ArrowArray) -> bool:
    """Whether all texts have one length and the separators of ``_ISO_SHAPE``; cheaper than a regular expression."""
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)[: len(texts) + 1]
    width = int(offsets[1])
    if width < 19 or len(offsets) * width - width != int(offsets[-1]) or np.any(np.diff(offsets) != width):
        return False
    characters = np.frombuffer(texts.buffers()[2], dtype=np.uint8)[: int(offsets[-1])].reshape(-1, width)
    wanted = ((4, b"-"), (7, b"-"), (10, b"T "), (13, b":"), (16, b":"), *(((19, b".Z+-"),) if width > 19 else ()))
    return all(bool(np.isin(characters[:, at], list(allowed)).all()) for at, allowed in wanted)
