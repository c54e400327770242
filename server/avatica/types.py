"""Says how JDBC sees a column and its values: Avatica's type names and representations, and numbers for times."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa

from query.results import java_number
from query.sql.types import Family, SqlType
from segments.truncation import offset_ms

DAY_MS = 86_400_000
Described = dict[str, Any]

_SCALARS: dict[Family, tuple[int, str, str, str]] = {
    # JDBC's number and name of the type, how values travel, and their class in Java.
    Family.STRING: (12, "VARCHAR", "STRING", "java.lang.String"),
    Family.LONG: (-5, "BIGINT", "LONG", "java.lang.Long"),
    Family.DOUBLE: (8, "DOUBLE", "DOUBLE", "java.lang.Double"),
    Family.BOOLEAN: (16, "BOOLEAN", "BOOLEAN", "java.lang.Boolean"),
    Family.TIME: (93, "TIMESTAMP", "LONG", "java.sql.Timestamp"),
    Family.COMPLEX: (1111, "OTHER", "OBJECT", "java.lang.Object"),
    Family.NULL: (12, "VARCHAR", "STRING", "java.lang.String"),
}
_DATE = (91, "DATE", "INTEGER", "java.sql.Date")
_FLOAT = (6, "FLOAT", "FLOAT", "java.lang.Float")
_INTEGER = (4, "INTEGER", "LONG", "java.lang.Integer")
_ELEMENTS = {"BIGINT": Family.LONG, "DOUBLE": Family.DOUBLE}


def described(ordinal: int, name: str, kind: SqlType, is_nullable: bool = True) -> Described:
    """A column as Avatica's JSON describes it; ``ordinal`` counts from 0."""
    number, spelled, rep, class_name = _scalar(kind)
    type_: Described = {"type": "scalar", "id": number, "name": spelled, "rep": rep}
    if kind.family is Family.ARRAY:
        element = _SCALARS[_ELEMENTS.get(kind.element, Family.STRING)]
        # Drivers make "some number" of a column's numbers by themselves, but not of an array's.
        element_rep = "NUMBER" if element[2] in ("LONG", "DOUBLE") else element[2]
        component = {"type": "scalar", "id": element[0], "name": element[1], "rep": element_rep}
        type_ = {"type": "array", "id": 2003, "name": "ARRAY", "rep": "ARRAY", "component": component}
        class_name = "java.sql.Array"
    precision = 3 if number == 93 else 19 if number == -5 else 15 if number == 8 else 0
    return {
        "ordinal": ordinal,
        "autoIncrement": False,
        "caseSensitive": True,
        "searchable": True,
        "currency": False,
        "nullable": int(is_nullable),
        "signed": number in (-5, 4, 6, 8),
        "displaySize": 40,
        "label": name,
        "columnName": name,
        "schemaName": "",
        "precision": precision,
        "scale": 0,
        "tableName": "",
        "catalogName": "",
        "readOnly": True,
        "writable": False,
        "definitelyWritable": False,
        "columnClassName": class_name,
        "type": type_,
    }


def _scalar(kind: SqlType) -> tuple[int, str, str, str]:
    if kind.name == "DATE":
        return _DATE
    if kind.name == "FLOAT":
        return _FLOAT
    return _SCALARS.get(kind.family, _SCALARS[Family.COMPLEX])


def values(array: pa.Array[Any], kind: SqlType, zone: str, is_json: bool) -> list[Any]:
    """The cells of one column. A TIMESTAMP is the clock of the zone as milliseconds, a DATE its number of days,
    a string with several values JSON text, an array a list; numbers that JSON lacks are in JSON their Java texts.
    """
    if kind.multi:
        return [_multi_value(value) for value in array.to_pylist()]
    if kind.family is Family.TIME:
        return _times(array.cast(pa.int64()).to_pylist(), kind.name == "DATE", zone)
    found = array.to_pylist()
    if kind.family is Family.LONG:
        return [None if value is None else int(value) for value in found]
    if kind.family is Family.DOUBLE and is_json:
        return [value if value is None or math.isfinite(value) else java_number(value) for value in found]
    return found


def as_texts(cells: list[Any]) -> list[Any]:
    """The same cells for a column that was announced as text."""
    return [value if value is None or isinstance(value, str) else _text(value) for value in cells]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return java_number(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _multi_value(value: list[str | None] | str | None) -> str | None:
    if not isinstance(value, list):
        return value
    if len(value) < 2:
        return value[0] if value else None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _times(found: list[Any], is_date: bool, zone: str) -> list[Any]:
    if zone != "UTC":
        found = [None if value is None else value + offset_ms(value, zone) for value in found]
    return [None if value is None else value // DAY_MS for value in found] if is_date else found
