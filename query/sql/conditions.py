"""Conditions that rows are chosen by: there Druid compares a text column with a number as its filters do.

A filter reads the texts that are numbers, in full: '3.5' is more than 3 and not 3. Any other text is equal to no number
and less than all, so it is found by ``<``, ``<>`` and NOT. In a select list, where the column is cast to the number's
type, '3.5' is 3 and other texts are NULL; so it is in joins.
"""

from __future__ import annotations

from sqlglot import exp

from query.sql import term as t
from query.sql.casts import cast_to, exact_long
from query.sql.frame import Frame
from query.sql.multi_value import any_member
from query.sql.term import Term
from query.sql.types import BOOLEAN, DOUBLE, Family

_NUMBERS = (Family.LONG, Family.DOUBLE)
_MIRRORED = {"=": "=", "<>": "<>", ">": "<", "<": ">", ">=": "<=", "<=": ">="}


def choose_rows(frame: Frame, condition: exp.Expr) -> None:
    """Notes the comparisons that a condition of WHERE, HAVING or FILTER is made of."""
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.And | exp.Or):
            waiting += [part.this, part.expression]
        elif isinstance(part, exp.Not | exp.Paren | exp.Is):
            waiting.append(part.this)
        else:
            frame.session.choosing.add(id(part))


def choose_counted(frame: Frame, arguments: list[exp.Expr]) -> None:
    """Notes those of ``SUM(CASE WHEN condition THEN x END)``, which Druid makes a FILTER of."""
    counted = arguments[0] if arguments else None
    if isinstance(counted, exp.Case) and counted.this is None and len(counted.args["ifs"]) == 1:
        choose_rows(frame, counted.args["ifs"][0].this)


def chosen(frame: Frame, tree: exp.Expr, symbol: str, left: exp.Expr, right: exp.Expr) -> Term | None:
    """The comparison of a text column with a constant number where rows are chosen by it; None for any other."""
    if id(tree) not in frame.session.choosing:
        return None
    for one, other, way in ((left, right, symbol), (right, left, _MIRRORED[symbol])):
        column = _text_column(frame, one)
        number = frame.term(other) if column is not None else None
        if column is not None and number is not None and number.is_constant and number.family in _NUMBERS:
            return _compared(frame, column, way, number)
    return None


def chosen_in(frame: Frame, tree: exp.In) -> Term | None:
    """Membership of a text column in a list of numbers where rows are chosen by it; None for any other."""
    column = _text_column(frame, tree.this) if id(tree) in frame.session.choosing else None
    if column is None or column.type.multi:
        return None
    numbers = [frame.term(member) for member in tree.expressions]
    if not all(number.is_constant and number.family in _NUMBERS for number in numbers):
        return None
    is_whole = all(number.family is Family.LONG for number in numbers)
    value = exact_long(column) if is_whole else cast_to(column, DOUBLE)
    return _known(column, f"{value.sql} IN ({', '.join(number.sql for number in numbers)})", "FALSE")


def _text_column(frame: Frame, tree: exp.Expr) -> Term | None:
    """The text column that stands there, by itself or cast to a number."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Cast):
        if frame.term(tree).family not in _NUMBERS:
            return None
        tree = tree.this
    if not isinstance(tree, exp.Column):
        return None
    found = frame.term(tree)
    return found if found.family is Family.STRING and not found.is_constant else None


def _compared(frame: Frame, column: Term, symbol: str, number: Term) -> Term:
    if symbol == "<>":
        return t.expression(f"NOT {_compared(frame, column, '=', number).sql}", BOOLEAN)
    if column.type.multi:
        name = frame.session.fresh("x")
        return Term(any_member(name, column, lambda one: _compared(frame, one, symbol, number).sql), BOOLEAN)
    is_whole = symbol == "=" and number.family is Family.LONG
    value = exact_long(column) if is_whole else cast_to(column, DOUBLE)
    return _known(column, f"{value.sql} {symbol} {number.sql}", "TRUE" if "<" in symbol else "FALSE")


def _known(column: Term, asked: str, otherwise: str) -> Term:
    return t.expression(f"CASE WHEN {column.sql} IS NOT NULL THEN coalesce({asked}, {otherwise}) END", BOOLEAN)
