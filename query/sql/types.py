"""Names the SQL types of Druid, how DuckDB holds them, and which type two of them have in common."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Family(Enum):
    """Types that behave alike in expressions."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TIME = "time"
    ARRAY = "array"
    COMPLEX = "complex"
    NULL = "null"
    INTERVAL = "interval"


_FAMILIES = {
    "CHAR": Family.STRING,
    "VARCHAR": Family.STRING,
    "INTEGER": Family.LONG,
    "BIGINT": Family.LONG,
    "FLOAT": Family.DOUBLE,
    "DOUBLE": Family.DOUBLE,
    "DECIMAL": Family.DOUBLE,
    "BOOLEAN": Family.BOOLEAN,
    "TIMESTAMP": Family.TIME,
    "DATE": Family.TIME,
    "ARRAY": Family.ARRAY,
    "OTHER": Family.COMPLEX,
    "NULL": Family.NULL,
    "INTERVAL": Family.INTERVAL,
}
_DRUID = {
    Family.STRING: "STRING",
    Family.LONG: "LONG",
    Family.DOUBLE: "DOUBLE",
    Family.BOOLEAN: "LONG",
    Family.TIME: "LONG",
    Family.NULL: "STRING",
}
_DUCKDB = {
    Family.STRING: "VARCHAR",
    Family.LONG: "BIGINT",
    Family.DOUBLE: "DOUBLE",
    Family.BOOLEAN: "BOOLEAN",
    Family.TIME: "BIGINT",
    Family.NULL: "VARCHAR",
    Family.COMPLEX: "VARCHAR",
}
_ELEMENTS = {"VARCHAR": "STRING", "BIGINT": "LONG", "DOUBLE": "DOUBLE", "FLOAT": "FLOAT", "json": "COMPLEX<json>"}


@dataclass(frozen=True, slots=True)
class SqlType:
    """One type. ``element`` names the element of an ARRAY, or the kind of an OTHER (``json``).

    ``multi`` marks a string column whose values may be lists, or what a function makes of each of their members.
    """

    name: str
    element: str = ""
    multi: bool = False

    @property
    def family(self) -> Family:
        """How it behaves in expressions."""
        return _FAMILIES[self.name]

    @property
    def member(self) -> SqlType:
        """The type of one of several values."""
        return SqlType(self.name, self.element)

    @property
    def druid(self) -> str:
        """Druid's native name, as in a types header."""
        if self.name == "FLOAT":
            return "FLOAT"
        if self.family is Family.ARRAY:
            return f"ARRAY<{_ELEMENTS.get(self.element, 'STRING')}>"
        if self.family is Family.COMPLEX:
            return f"COMPLEX<{self.element}>"
        return _DRUID[self.family]

    @property
    def duckdb(self) -> str:
        """How an expression of this type is held inside a statement; times are milliseconds."""
        if self.multi:
            return f"{self.member.duckdb}[]"
        if self.family is Family.ARRAY:
            return "VARCHAR[]" if self.element == "json" else f"{self.element}[]"
        if self.family is Family.COMPLEX and self.element != "json":
            return "BLOB"
        return "FLOAT" if self.name == "FLOAT" else _DUCKDB[self.family]

    @property
    def data_type(self) -> str:
        """Its spelling in INFORMATION_SCHEMA.COLUMNS."""
        return f"COMPLEX<{self.element}>" if self.family is Family.COMPLEX else self.name


VARCHAR = SqlType("VARCHAR")
CHAR = SqlType("CHAR")
MULTI_VARCHAR = SqlType("VARCHAR", multi=True)
BIGINT = SqlType("BIGINT")
INTEGER = SqlType("INTEGER")
FLOAT = SqlType("FLOAT")
DOUBLE = SqlType("DOUBLE")
DECIMAL = SqlType("DECIMAL")
BOOLEAN = SqlType("BOOLEAN")
TIMESTAMP = SqlType("TIMESTAMP")
DATE = SqlType("DATE")
NULL = SqlType("NULL")
JSON = SqlType("OTHER", "json")
INTERVAL = SqlType("INTERVAL")


def array_of(element: SqlType) -> SqlType:
    """The array whose elements have this type."""
    if element.family is Family.DOUBLE:
        return SqlType("ARRAY", "DOUBLE")
    if element.family in (Family.LONG, Family.BOOLEAN, Family.TIME):
        return SqlType("ARRAY", "BIGINT")
    return SqlType("ARRAY", "VARCHAR")


def element_of(array: SqlType) -> SqlType:
    """The type of one member of an array."""
    return SqlType("OTHER", "json") if array.element == "json" else SqlType(array.element or "VARCHAR")


def common_type(left: SqlType, right: SqlType) -> SqlType | None:
    """The type that holds values of both without loss of meaning; None when there is none."""
    if left == right or right.family is Family.NULL:
        return left
    if left.family is Family.NULL:
        return right
    families = {left.family, right.family}
    if families == {Family.STRING}:
        return SqlType("VARCHAR", multi=left.multi or right.multi)
    if families == {Family.LONG}:
        return BIGINT
    if families <= {Family.LONG, Family.DOUBLE}:
        return DOUBLE
    if families == {Family.TIME}:
        return TIMESTAMP
    if families == {Family.ARRAY}:
        return left if left.element == right.element else array_of(_wider(left.element, right.element))
    if families <= {Family.LONG, Family.BOOLEAN}:
        return BIGINT
    return VARCHAR if Family.STRING in families and not families & {Family.ARRAY, Family.COMPLEX} else None


def _wider(left: str, right: str) -> SqlType:
    return DOUBLE if {left, right} == {"BIGINT", "DOUBLE"} else VARCHAR
