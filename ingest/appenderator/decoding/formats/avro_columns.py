"""Reads many Avro records of one schema field by field: a step of numpy moves all messages at once, no record is made.

Only for records whose fields are primitive, enumerated or fixed, or one of these or null. Whatever is not plainly
right in some message (an end too early, a length below zero, text that is no UTF-8, an unknown branch) makes the call
answer nothing: then the messages are read one by one, and each is judged alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from segments.arrow_arrays import ArrowArray, array_of

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# A cursor may run so far past the last message's end before that is seen.
_PADDING: Final = 16
# Longer ones do not fit 63 bits: rare, and left to the reader of single records.
_VARINT_BYTES: Final = 9
# Offsets of Arrow's strings have 31 bits.
_BYTES_MAX: Final = 1 << 30
_NUMBERS: Final = frozenset({"int", "long"})
_FLOATS: Final[dict[str, np.dtype[Any]]] = {"float": np.dtype("<f4"), "double": np.dtype("<f8")}


@dataclass(frozen=True, slots=True)
class _Field:
    """``null`` is the number of the branch that is null, None where there is no union."""

    name: str
    kind: str
    null: int | None
    symbols: tuple[str, ...] = ()


class _Unsure(Exception):
    """Some message is not plainly right."""


class AvroColumns:
    """Columns of the records of one schema. Safe to repeat; for one thread."""

    def __init__(self, fields: tuple[_Field, ...]) -> None:
        self._fields = fields

    def read(self, messages: Sequence[bytes], skip: int = 0) -> ColumnRows | None:
        """The records that begin ``skip`` bytes into each message; None where that is not sure of all of them."""
        sizes = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
        ends: Ints = np.cumsum(sizes)
        if not len(sizes) or int(ends[-1]) > _BYTES_MAX:
            return None
        buffer = b"".join([*messages, bytes(_PADDING)])
        try:
            return ColumnRows(len(messages), _Walk(buffer, ends - sizes + skip, ends).columns(self._fields))
        except _Unsure:
            return None


class ColumnRows:
    """Rows by column. A field's values as a list are made when they are asked for, once."""

    def __init__(self, count: int, columns: dict[str, ArrowArray]) -> None:
        self._count = count
        self._columns = columns
        self._lists: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return self._count

    def arrow(self, name: str) -> ArrowArray | None:
        """The field's column; None for one that no record has."""
        return self._columns.get(name)

    def values(self, name: str) -> list[Any]:
        """The field's value in every row."""
        if name not in self._lists:
            column = self._columns.get(name)
            self._lists[name] = [None] * self._count if column is None else column.to_pylist()
        return self._lists[name]


def columns_of(schema: dict[str, Any]) -> AvroColumns | None:
    """For a record schema without logical types; None where it has a field that is read otherwise."""
    fields = [_field(field["name"], field["type"]) for field in schema["fields"]]
    known = [field for field in fields if field is not None]
    alike = len({field.name for field in known}) == len(fields)
    return AvroColumns(tuple(known)) if known and alike else None


def _field(name: str, kind: Any, null: int | None = None) -> _Field | None:
    if isinstance(kind, list):
        others = [branch for branch in kind if branch != "null"]
        if null is not None or len(kind) != 2 or len(others) != 1:
            return None
        return _field(name, others[0], kind.index("null"))
    if isinstance(kind, dict):
        if kind["type"] == "fixed":
            return None  # its bytes become a text first, as other bytes do
        if kind["type"] == "enum":
            return _Field(name, "enum", null, symbols=tuple(kind["symbols"]))
        return _field(name, kind["type"], null)
    return _Field(name, kind, null) if kind in {"string", "boolean", *_NUMBERS, *_FLOATS} else None


class _Walk:
    """One pass over a buffer of messages; ``at`` is where the next field of each begins."""

    def __init__(self, buffer: bytes, at: Ints, ends: Ints) -> None:
        self._raw = pa.py_buffer(buffer)
        self._bytes: Bytes = np.frombuffer(buffer, dtype=np.uint8)
        self._at = at
        self._ends = ends

    def columns(self, fields: tuple[_Field, ...]) -> dict[str, ArrowArray]:
        self._check()
        return {field.name: self._column(field) for field in fields}

    def _check(self) -> None:
        """No cursor ever goes back, so that one look after a step sees whatever went wrong in it."""
        if (self._at > self._ends).any():
            raise _Unsure

    def _column(self, field: _Field) -> ArrowArray:
        if field.null is None:
            column = self._values(field, None)
        else:
            branch = self._varint(None)
            if ((branch != 0) & (branch != 1)).any():
                raise _Unsure
            self._check()
            there = branch != field.null
            column = self._values(field, None if there.all() else there)
        self._check()
        return column

    def _values(self, field: _Field, there: npt.NDArray[np.bool_] | None) -> ArrowArray:
        """The field's values; ``there`` says which are not null, None all."""
        absent = None if there is None else ~there
        if field.kind == "string":
            return self._texts(there)
        if field.kind in _NUMBERS:
            return array_of(self._varint(there), absent)
        if field.kind == "enum":
            return self._symbols(field.symbols, there)
        if field.kind == "boolean":
            bits = self._bytes[self._at]
            self._at = self._at + (1 if there is None else there)
            if (bits > 1).any() if there is None else (bits[there] > 1).any():
                raise _Unsure
            return array_of(bits == 1, absent)
        width = _FLOATS[field.kind].itemsize
        parts = self._bytes[self._at[:, None] + np.arange(width)]
        self._at = self._at + (width if there is None else width * there)
        return array_of(parts.view(_FLOATS[field.kind])[:, 0].astype(np.float64), absent)

    def _varint(self, there: npt.NDArray[np.bool_] | None) -> Ints:
        """A number of one to nine bytes, zigzag; 0 where there is none."""
        part = self._bytes[self._at]
        if there is not None:
            part = np.where(there, part, 0)
        found = (part & 0x7F).astype(np.int64)
        going = np.flatnonzero(part & 0x80)
        self._at = self._at + (1 if there is None else there)
        for shift in range(7, 7 * _VARINT_BYTES, 7):
            if not len(going):
                break
            part = self._bytes[self._at[going]]
            found[going] |= (part & 0x7F).astype(np.int64) << shift
            self._at[going] += 1
            going = going[(part & 0x80) != 0]
        if len(going):
            raise _Unsure
        return (found >> 1) ^ -(found & 1)

    def _texts(self, there: npt.NDArray[np.bool_] | None) -> ArrowArray:
        """Texts where they lie between others, of which the others are left out."""
        lengths = self._varint(there)
        self._check()
        if ((lengths < 0) | (lengths > self._ends - self._at)).any():
            raise _Unsure
        starts, self._at = self._at, self._at + lengths
        bounds = np.empty(2 * len(starts), dtype=np.int32)
        bounds[0::2], bounds[1::2] = starts, self._at
        untyped: Any = pa.StringArray
        spread = untyped.from_buffers(len(bounds) - 1, pa.py_buffer(bounds.tobytes()), self._raw)
        taken = np.arange(0, len(bounds), 2, dtype=np.int64)
        column = spread.take(array_of(taken, None if there is None else ~there))
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise _Unsure from error
        return column

    def _symbols(self, symbols: tuple[str, ...], there: npt.NDArray[np.bool_] | None) -> ArrowArray:
        numbers = self._varint(there)
        if ((numbers < 0) | (numbers >= len(symbols))).any():
            raise _Unsure
        return pa.array(symbols, pa.string()).take(array_of(numbers, None if there is None else ~there))
