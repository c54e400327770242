"""Rules for queries inside expressions: scalar subqueries, IN and EXISTS; they see columns of the query around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from query.errors import InvalidQuery
from query.sql import term as t
from query.sql.casts import cast_to
from query.sql.comparison import comparable
from query.sql.frame import Frame, node
from query.sql.scope import where
from query.sql.term import Term
from query.sql.types import BOOLEAN, common_type

if TYPE_CHECKING:
    from query.sql.relations import Plan


def _planned(frame: Frame, tree: exp.Expr, columns: int | None) -> Plan:
    plan = frame.session.planner.inside(frame, tree)
    if columns is not None and len(plan.columns) != columns:
        raise InvalidQuery(f"this subquery gives {len(plan.columns)} columns, not {columns}", where(tree))
    return plan


@node(exp.Subquery)
def _scalar(frame: Frame, tree: exp.Expr) -> Term:
    plan = _planned(frame, tree.this, 1)
    return Term(f"({plan.sql})", plan.columns[0].type)


@node(exp.Exists)
def _exists(frame: Frame, tree: exp.Expr) -> Term:
    return t.expression(f"EXISTS ({_planned(frame, tree.this, None).sql})", BOOLEAN)


def compared_to_all(frame: Frame, left: exp.Expr, symbol: str, right: exp.Expr) -> Term:
    """``x > ALL (SELECT ...)``, and with ANY or SOME."""
    word = "ALL" if isinstance(right, exp.All) else "ANY"
    query = right.this.this if isinstance(right.this, exp.Subquery | exp.Paren) else right.this
    if not isinstance(query, exp.Query):
        raise InvalidQuery(f"{word} needs a query", where(right))
    plan = _planned(frame, query, 1)
    alias = frame.session.fresh("a")
    have = Term(f"{alias}.{plan.columns[0].internal}", plan.columns[0].type)
    want = frame.term(left)
    if want.type.multi or have.type.multi:
        raise InvalidQuery(f"{word} of a multi-value string is not supported; use MV_TO_ARRAY and UNNEST")
    one, two = comparable(want, have, frame.zone)
    type_ = common_type(one.type, two.type) or one.type
    inner = f"SELECT {cast_to(two, type_).sql} FROM ({plan.sql}) AS {alias}"
    return t.expression(f"{cast_to(one, type_).sql} {symbol} {word} ({inner})", BOOLEAN)


def in_subquery(frame: Frame, tree: exp.Expr) -> Term:
    """``x IN (SELECT ...)``, also for a row of several."""
    query = tree.args["query"]
    operands = tree.this.expressions if isinstance(tree.this, exp.Tuple) else [tree.this]
    plan = _planned(frame, query.this if isinstance(query, exp.Subquery) else query, len(operands))
    alias = frame.session.fresh("a")
    left, right = [], []
    for operand, column in zip(operands, plan.columns, strict=True):
        have = Term(f"{alias}.{column.internal}", column.type)
        want = frame.term(operand)
        if want.type.multi or have.type.multi:
            raise InvalidQuery("IN (SELECT ...) of a multi-value string is not supported; use MV_TO_ARRAY and UNNEST")
        one, two = comparable(want, have, frame.zone)
        type_ = common_type(one.type, two.type) or one.type
        left.append(cast_to(one, type_).sql)
        right.append(cast_to(two, type_).sql)
    row = left[0] if len(left) == 1 else f"({', '.join(left)})"
    return t.expression(f"{row} IN (SELECT {', '.join(right)} FROM ({plan.sql}) AS {alias})", BOOLEAN)
