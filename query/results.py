"""Writes rows as Druid does, in its five formats or as Arrow, as a stream whose memory is one batch."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import pyarrow as pa

from query.arrow_results import arrow_pieces
from query.model import PlannedQuery, ResultFormat, SqlRequest
from query.sql.types import Family, SqlType
from segments.civil import MINUTE_MS, format_iso_ms
from segments.truncation import offset_ms

CONTENT_TYPES = {
    ResultFormat.OBJECT: "application/json",
    ResultFormat.ARRAY: "application/json",
    ResultFormat.OBJECT_LINES: "text/plain",
    ResultFormat.ARRAY_LINES: "text/plain",
    ResultFormat.CSV: "text/csv",
    ResultFormat.ARROW: "application/vnd.apache.arrow.stream",
}
_PART_BYTES = 1 << 20
_PIECE = 32_768
"""Characters that are worth sending by themselves."""
_LINES = (ResultFormat.OBJECT_LINES, ResultFormat.ARRAY_LINES)
Texts = list[str | None]
"""One column's cells as text; None is NULL."""


def render(batches: Iterable[pa.RecordBatch], planned: PlannedQuery, request: SqlRequest) -> Iterator[bytes]:
    """The body of an answer, piece by piece; the pieces end early when ``batches`` raises.

    Nothing is yielded before the first batch is there, so an error of the engine can still become an error answer.
    Only full pieces are yielded before the last one, so a small answer is one piece.
    """
    if request.result_format is ResultFormat.ARROW:
        yield from arrow_pieces(batches, planned)
        return
    writer = _writer(planned, request.result_format)
    texts = _texts(batches, writer, planned)
    first = next(texts, None)
    # A slow client's answer rests between two pieces: nothing but the piece and one batch may be held then.
    texts = chain(_header(planned, request, writer), [] if first is None else [first], texts)
    del first
    held, between = writer.opening, ""
    for text in texts:
        held += between + text
        between = writer.between
        del text
        if len(held) >= _PIECE:
            piece, held = held.encode(), ""
            yield piece
    yield (held + (writer.closing if between else writer.closing_empty)).encode()


@dataclass(frozen=True, slots=True)
class _Writer:
    """How one format puts cells into rows and rows into a body."""

    row: Callable[[tuple[str, ...]], str]
    is_json: bool
    opening: str
    between: str
    closing: str
    closing_empty: str


def _writer(planned: PlannedQuery, format_: ResultFormat) -> _Writer:
    if format_ is ResultFormat.CSV:
        return _Writer(",".join, False, "", "\n", "\n\n", "\n")
    if format_ in (ResultFormat.OBJECT, ResultFormat.OBJECT_LINES):
        keys = [f"{_json_text(column.name)}:" for column in planned.result_columns]
        row = _row_of([key.replace("%", "%%") + "%s" for key in keys], "{", "}")
    else:
        row = _row_of(["%s"] * len(planned.result_columns), "[", "]")
    # A line format without a line still ends as if there had been one.
    return (
        _Writer(row, True, "", "\n", "\n\n", "\n\n")
        if format_ in _LINES
        else _Writer(row, True, "[", ",", "]\n", "]\n")
    )


def _row_of(cells: list[str], opening: str, closing: str) -> Callable[[tuple[str, ...]], str]:
    """Fills one template a row: a third of what it takes to join a row's cells."""
    return (opening + ",".join(cells) + closing).__mod__


def _header(planned: PlannedQuery, request: SqlRequest, writer: _Writer) -> list[str]:
    if not request.header:
        return []
    columns = planned.result_columns
    if request.result_format in (ResultFormat.OBJECT, ResultFormat.OBJECT_LINES):
        described = [
            ({"type": column.druid_type} if request.types_header else {})
            | ({"sqlType": column.sql_type} if request.sql_types_header else {})
            for column in columns
        ]
        return [writer.row(tuple(_compact(cell) if cell else "null" for cell in described))]
    rows = [[column.name for column in columns]]
    rows += [[column.druid_type for column in columns]] if request.types_header else []
    rows += [[column.sql_type for column in columns]] if request.sql_types_header else []
    spell = _json_text if writer.is_json else _csv_text
    return [writer.row(tuple(map(spell, row))) for row in rows]


def _texts(batches: Iterable[pa.RecordBatch], writer: _Writer, planned: PlannedQuery) -> Iterator[str]:
    """The rows, some of them in each text."""
    for batch in batches:
        for part in parts_of(batch):
            yield _text(part, writer, planned)


def _text(part: pa.RecordBatch, writer: _Writer, planned: PlannedQuery) -> str:
    cells = [
        _column(part.column(at), column.type, planned.time_zone, planned.stringify_arrays, writer.is_json)
        for at, column in enumerate(planned.result_columns)
    ]
    return writer.between.join(map(writer.row, zip(*cells, strict=True)))


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, no more at once than make about 1 MiB: as texts they are many times that."""
    step = max(_PART_BYTES * batch.num_rows // max(batch.nbytes, 1), 1)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def json_cells(array: pa.Array[Any], type_: SqlType) -> list[str]:
    """The values of one column as JSON texts: arrays and several values as lists, nested data as it is, times in UTC,
    sketches in base64."""
    if pa.types.is_binary(array.type):
        return ["null" if value is None else _json_text(_base64(value)) for value in array.to_pylist()]
    if type_.family is Family.COMPLEX:
        return ["null" if text is None else text for text in _strings(array, "UTC")]
    return _column(array, type_, "UTC", stringify=False, as_json=True)


def _column(array: pa.Array[Any], type_: SqlType, zone: str, stringify: bool, as_json: bool) -> list[str]:
    family = type_.family
    if type_.multi or family is Family.ARRAY:
        lists = _multi_value if type_.multi else _documents if type_.element == "json" else _array
        return lists(array, stringify, as_json)
    texts = _CELLS[family](array, zone)
    quoted = family in _QUOTED
    if not as_json:
        return ["" if text is None else _csv_text(text) for text in texts]
    if family is Family.DOUBLE:
        return ["null" if text is None else text if text[-1] not in "Ny" else f'"{text}"' for text in texts]
    if quoted and not array.null_count:
        return list(map(_json_text, texts))  # type: ignore[arg-type]  # none of them is None
    return ["null" if text is None else _json_text(text) if quoted else text for text in texts]


def _longs(array: pa.Array[Any], zone: str) -> Texts:
    if pa.types.is_integer(array.type):
        return array.cast(pa.string()).to_pylist()
    # Sums are 128-bit decimals without a fraction; their digits are the number.
    return [None if value is None else str(int(value)) for value in array.to_pylist()]


def _doubles(array: pa.Array[Any], zone: str) -> Texts:
    single = array.type == pa.float32()
    if array.type == pa.float64() and not array.null_count:
        # Between these bounds Python spells a number as Java does.
        return [repr(v) if 1e-3 <= v < 1e7 else java_number(v) for v in np.asarray(array).tolist()]
    return [None if value is None else java_number(value, single) for value in array.to_pylist()]


def java_number(value: float, single: bool = False) -> str:
    """A floating-point number as Java spells it: 0.1, 100.0, 1.0E16, NaN, Infinity."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    digits = str(np.float32(value)) if single else repr(float(value))
    # The shortest digits that mean this number, and where the point stands among them.
    written, _, exponent = digits.lstrip("-").partition("e")
    whole, _, fraction = written.partition(".")
    point = len(whole) + int(exponent or 0)
    kept = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(kept)
    kept = kept.rstrip("0") or "0"
    sign = "-" if digits.startswith("-") else ""
    if value == 0:
        return f"{sign}0.0"
    if not 1e-3 <= abs(value) < 1e7:
        return f"{sign}{kept[0]}.{kept[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{kept}"
    return f"{sign}{kept[:point].ljust(point, '0')}.{kept[point:] or '0'}"


def _booleans(array: pa.Array[Any], zone: str) -> Texts:
    return [None if value is None else "true" if value else "false" for value in array.to_pylist()]


def _complex(array: pa.Array[Any], zone: str) -> Texts:
    """JSON as it is; sketches in base64, as Druid's SQL tells them: a JSON text in quotes of its own."""
    if not pa.types.is_binary(array.type):
        return _strings(array, zone)
    return [None if value is None else f'"{_base64(value)}"' for value in array.to_pylist()]


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _strings(array: pa.Array[Any], zone: str) -> Texts:
    if pa.types.is_string(array.type):
        return array.to_pylist()
    return [None if value is None else str(value) for value in array.to_pylist()]


def _times(array: pa.Array[Any], zone: str) -> Texts:
    array = array.cast(pa.int64())
    if zone != "UTC":
        return [None if value is None else zoned_iso(value, zone) for value in array.to_pylist()]
    if array.null_count:
        return [None if value is None else format_iso_ms(value) for value in array.to_pylist()]
    return [
        f"{text}Z" for text in np.datetime_as_string(np.asarray(array).astype("datetime64[ms]"), unit="ms").tolist()
    ]


def zoned_iso(value_ms: int, zone: str) -> str:
    """An instant as the clock of a zone shows it, with the offset; Z where that is none."""
    offset = offset_ms(value_ms, zone)
    if offset == 0:
        return format_iso_ms(value_ms)
    minutes = abs(offset) // MINUTE_MS
    sign = "-" if offset < 0 else "+"
    return f"{format_iso_ms(value_ms + offset)[:-1]}{sign}{minutes // 60:02d}:{minutes % 60:02d}"


_CELLS: dict[Family, Callable[[pa.Array[Any], str], Texts]] = {
    Family.STRING: _strings,
    Family.LONG: _longs,
    Family.DOUBLE: _doubles,
    Family.BOOLEAN: _booleans,
    Family.TIME: _times,
    Family.COMPLEX: _complex,
    Family.NULL: _strings,
}
_QUOTED = (Family.STRING, Family.TIME, Family.COMPLEX, Family.NULL)


def _array(array: pa.Array[Any], stringify: bool, as_json: bool) -> list[str]:
    return [_list_cell(value, stringify, as_json) for value in array.to_pylist()]


def _documents(array: pa.Array[Any], stringify: bool, as_json: bool) -> list[str]:
    """Lists of JSON: the members are spelled already."""
    cells = []
    for value in array.to_pylist():
        spelled = None if value is None else f"[{','.join(member or 'null' for member in value)}]"
        if spelled is None:
            cells.append("null" if as_json else "")
        else:
            cells.append(_csv_text(spelled) if not as_json else _json_text(spelled) if stringify else spelled)
    return cells


def _multi_value(array: pa.Array[Any], stringify: bool, as_json: bool) -> list[str]:
    """A list of one is its member, a list of none is NULL."""
    cells = []
    for value in array.to_pylist():
        if isinstance(value, list) and len(value) < 2:
            value = value[0] if value else None
        if isinstance(value, str):
            cells.append(_json_text(value) if as_json else _csv_text(value))
        else:
            cells.append(_list_cell(value, stringify, as_json))
    return cells


def _list_cell(value: Any, stringify: bool, as_json: bool) -> str:
    if value is None:
        return "null" if as_json else ""
    spelled = f"[{','.join(map(_member, value))}]"
    if not as_json:
        return _csv_text(spelled)
    return _json_text(spelled) if stringify else spelled


def _member(value: Any) -> str:
    if isinstance(value, float):
        spelled = java_number(value)
        return spelled if math.isfinite(value) else f'"{spelled}"'
    return _compact(value)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _json_text(text: str) -> str:
    return encode_basestring(text)


def _csv_text(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text
