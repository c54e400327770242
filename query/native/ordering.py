"""Druid's orders of text as SQL sort keys: lexicographic, numeric, alphanumeric, strlen, version."""

from __future__ import annotations

from query.errors import InvalidQuery
from query.native.rows import plain
from query.sql.casts import as_string, cast_to
from query.sql.frame import Session
from query.sql.term import Term
from query.sql.types import DOUBLE, Family

ORDERS = ("lexicographic", "numeric", "alphanumeric", "strlen", "version")


def known_order(name: str, path: str) -> str:
    """The order again, in lower case.

    Raises:
        InvalidQuery: there is no such order.
    """
    lower = name.lower()
    if lower not in ORDERS:
        raise InvalidQuery(f"{path}: {name!r} is none of the orders {', '.join(ORDERS)}")
    return lower


def sort_key(session: Session, operand: Term, order: str) -> str:
    """An expression that sorts and compares as Druid orders the operand's values; NULL for NULL.

    Texts that are no numbers come before all numbers in numeric order.
    """
    if operand.family in (Family.LONG, Family.DOUBLE) and order == "numeric":
        return operand.sql
    if operand.family in (Family.LONG, Family.DOUBLE) and order == "alphanumeric":
        return operand.sql
    text = as_string(plain(operand))
    if order == "lexicographic":
        return text.sql
    if order == "version":
        return f"{session.kernel('text_version_key')}({text.sql})"
    if order == "strlen":
        return f"(CASE WHEN {text.sql} IS NOT NULL THEN row(length({text.sql}), {text.sql}) END)"
    if order == "numeric":
        number = cast_to(text, DOUBLE).sql
        rest = f"CASE WHEN {number} IS NULL THEN {text.sql} ELSE '' END"
        key = f"row(coalesce({number}, CAST('-Infinity' AS DOUBLE)), {rest})"
        return f"(CASE WHEN {text.sql} IS NOT NULL THEN {key} END)"
    return _alphanumeric(session, text)


def _alphanumeric(session: Session, text: Term) -> str:
    """Runs of digits compare as numbers: each becomes its length, its digits, and what zeros stood before."""
    name = session.fresh("x")
    digits = f"ltrim({name}, '0')"
    # Digits come before everything else.
    number = f"'0' || printf('%05d', length({digits})) || {digits} || printf('%05d', length({name}))"
    runs = f"regexp_extract_all({text.sql}, '[0-9]+|[^0-9]+')"
    is_number = f"{name}[1] BETWEEN '0' AND '9'"
    return f"list_transform({runs}, lambda {name}: CASE WHEN {is_number} THEN {number} ELSE '1' || {name} END)"


def ordered(key: str, descending: bool = False) -> str:
    """One entry of an ORDER BY: nulls are the smallest values."""
    return f"{key} DESC NULLS LAST" if descending else f"{key} ASC NULLS FIRST"
