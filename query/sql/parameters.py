"""Turns dynamic parameters into typed constants: one for each question mark, in the order of the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from query.errors import InvalidQuery, SqlParseError
from query.sql import term as t
from query.sql.casts import cast_to
from query.sql.dialect import parse_statement
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Family, SqlType, array_of

if TYPE_CHECKING:
    from query.model import SqlParameter
    from query.sql.frame import Session

_TYPES = {
    "CHAR": VARCHAR,
    "VARCHAR": VARCHAR,
    "TINYINT": INTEGER,
    "SMALLINT": INTEGER,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "FLOAT": DOUBLE,
    "REAL": DOUBLE,
    "DOUBLE": DOUBLE,
    "DECIMAL": DOUBLE,
    "BOOLEAN": BOOLEAN,
    "TIMESTAMP": TIMESTAMP,
    "DATE": DATE,
}


def number_markers(session: Session, tree: exp.Expr) -> None:
    """Numbers the question marks by where they stand in the text.

    Raises:
        InvalidQuery: a marker without a parameter.
    """
    markers = [marker for marker in tree.walk(bfs=False) if isinstance(marker, exp.Placeholder)]
    for at, marker in enumerate(sorted(markers, key=_position)):
        session.markers[id(marker)] = at
    if len(markers) > len(session.parameters):
        raise InvalidQuery(f"the statement has {len(markers)} parameters, but {len(session.parameters)} are given")


def count_markers(text: str) -> int:
    """How many parameters a statement has.

    Raises:
        SqlParseError: it is none.
    """
    try:
        return sum(isinstance(node, exp.Placeholder) for node in parse_statement(text).tree.walk())
    except RecursionError as error:
        raise SqlParseError("the statement is nested too deeply") from error


def _position(marker: exp.Expr) -> int:
    return int(marker.meta.get("start", 0))


def parameter_term(session: Session, marker: exp.Expr) -> Term:
    """The constant that stands for a marker."""
    at = session.markers[id(marker)]
    return _constant(session.parameters[at], at, session.zone)


def _constant(parameter: SqlParameter, at: int, zone: str) -> Term:
    name, value = parameter.type.upper(), parameter.value
    if name == "ARRAY":
        return _array(value, at)
    if name == "NULL" and value is None:
        return t.null(VARCHAR)
    type_ = _TYPES.get(name)
    if type_ is None:
        raise InvalidQuery(f"parameter {at + 1} has the unknown type {parameter.type!r}")
    if value is None:
        return t.null(type_)
    if not isinstance(value, str | int | float | bool):
        raise InvalidQuery(f"parameter {at + 1} is not a {name}")
    return _fitted(value, type_, at, zone)


def _fitted(value: str | int | float | bool, type_: SqlType, at: int, zone: str) -> Term:
    if type_.family is Family.TIME and isinstance(value, int):
        return cast_to(t.time(value), type_, zone)
    try:
        if type_.family is Family.LONG:
            return t.long(int(value), type_)
        if type_.family is Family.DOUBLE:
            return t.double(float(value))
    except ValueError as error:
        raise InvalidQuery(f"parameter {at + 1}: {value!r} is not a {type_.name}") from error
    if type_.family is Family.BOOLEAN:
        return t.boolean(str(value).lower() in ("true", "1"))
    return t.text(str(value)) if type_ == VARCHAR else cast_to(t.text(str(value)), type_, zone)


def _array(value: object, at: int) -> Term:
    if value is None:
        return t.null(array_of(VARCHAR))
    if not isinstance(value, list):
        raise InvalidQuery(f"parameter {at + 1} is not an ARRAY")
    members = [t.constant(member) for member in value]
    type_ = array_of(next((member.type for member in members if not member.is_null), VARCHAR))
    return Term(f"CAST([{', '.join(member.sql for member in members)}] AS {type_.duckdb})", type_)
