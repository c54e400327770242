"""Finds in a WHERE which times of a table can matter, so that segments outside need not be read."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from query.errors import QueryError
from query.sql.calendar_math import parse_interval_ms
from query.sql.casts import cast_to
from query.sql.comparison import SYMBOLS
from query.sql.frame import Frame
from query.sql.term import Term
from query.sql.types import TIMESTAMP, Family

_MIRRORED = {"=": "=", "<>": "<>", ">": "<", "<": ">", ">=": "<=", "<=": ">="}


def narrow(rows: Frame, condition: exp.Expr) -> bool:
    """Notes the bounds that every row that passes ``condition`` fulfils; what it does not know narrows nothing. True
    where every row within the bounds passes, too."""
    return all([_narrowed(rows, part) for part in conjuncts(condition)])


def beyond_bounds(rows: Frame, condition: exp.Expr) -> list[exp.Expr]:
    """What a condition asks of rows beside the bounds of their times."""
    return [part for part in conjuncts(condition) if not _narrowed(rows, part)]


def _narrowed(rows: Frame, part: exp.Expr) -> bool:
    if isinstance(part, exp.Between):
        if part.args.get("symmetric"):
            return False
        sides = (_note(rows, ">=", part.this, part.args["low"]), _note(rows, "<=", part.this, part.args["high"]))
        return all(sides)
    if type(part) in SYMBOLS:
        return _note(rows, SYMBOLS[type(part)], part.this, part.expression)
    if isinstance(part, exp.Anonymous) and part.name.upper() == "TIME_IN_INTERVAL" and len(part.expressions) == 2:
        return _note_interval(rows, part.expressions)
    return False


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that must all hold."""
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.And):
            waiting += [part.this, part.expression]
        elif isinstance(part, exp.Paren):
            waiting.append(part.this)
        else:
            yield part


def _quiet(rows: Frame, tree: exp.Expr) -> Term | None:
    """The operand, unless it is no simple one; what is wrong with it, the translation of WHERE will say."""
    if isinstance(tree, exp.Query | exp.Tuple):
        return None
    try:
        return rows.term(tree)
    except QueryError:
        return None


def _note(rows: Frame, symbol: str, left_tree: exp.Expr, right_tree: exp.Expr) -> bool:
    """Whether it is a bound."""
    left, right = _quiet(rows, left_tree), _quiet(rows, right_tree)
    if left is None or right is None:
        return False
    if right.table is not None and right.time_column:
        left, right, symbol = right, left, _MIRRORED[symbol]
    if left.table is None or not left.time_column or not right.is_constant:
        return False
    value_ms = _constant_ms(right, rows.zone)
    if value_ms is None or symbol == "<>":
        return False
    if symbol in (">", ">=", "="):
        left.table.narrow(value_ms + (symbol == ">"), None)
    if symbol in ("<", "<=", "="):
        left.table.narrow(None, value_ms + (symbol != "<"))
    return True


def _constant_ms(term: Term, zone: str) -> int | None:
    if term.family is Family.STRING:
        try:
            term = cast_to(term, TIMESTAMP, zone)
        except QueryError:
            return None
    is_time = term.family in (Family.TIME, Family.LONG)
    return term.value if is_time and isinstance(term.value, int) else None


def _note_interval(rows: Frame, arguments: list[exp.Expr]) -> bool:
    moment, interval = _quiet(rows, arguments[0]), _quiet(rows, arguments[1])
    if moment is None or moment.table is None or interval is None or not isinstance(interval.value, str):
        return False
    moment.table.narrow(*parse_interval_ms(interval.value, rows.zone))
    return bool(moment.time_column)
