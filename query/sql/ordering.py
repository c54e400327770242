"""Translates ORDER BY: ordinals, aliases, constants, and what decides between groups that are equal in all of it."""

from __future__ import annotations

from sqlglot import exp

from query.errors import InvalidQuery
from query.sql.frame import Frame
from query.sql.grouping import Grouping
from query.sql.scope import where
from query.sql.term import Term


def orders_of(tree: exp.Expr) -> list[exp.Expr]:
    """The entries of a statement's ORDER BY."""
    order = tree.args.get("order")
    return list(order.expressions) if order is not None else []


def order_by(
    frame: Frame, tree: exp.Select, terms: list[Term], aliases: dict[str, exp.Expr], grouping: Grouping | None
) -> str:
    """The ORDER BY of a SELECT of these terms, empty where it needs none.

    Raises:
        InvalidQuery: it names what the statement does not have.
    """
    seen = Frame(
        frame.session,
        frame.scope,
        frame.keys,
        frame.rows,
        aliases,
        aliases_first=True,
        named_windows=frame.named_windows,
    )
    orders: dict[str, str] = {}
    for ordered in orders_of(tree):
        sql = _ordered_by(seen, tree, ordered, terms, is_first=not orders)
        if sql is not None:
            orders.setdefault(sql, entry_sql(sql, ordered))
    if grouping is not None and (tree.args.get("limit") or tree.args.get("offset")):
        for key in _ties(tree, grouping, terms, is_ordered=bool(orders)):
            orders.setdefault(key, f"{key} ASC NULLS FIRST")
    return f" ORDER BY {', '.join(orders.values())}" if orders else ""


def _ties(tree: exp.Select, grouping: Grouping, terms: list[Term], *, is_ordered: bool) -> list[str]:
    """The keys of groups, in whose order a limit takes those that are equal in all else, as Druid does: the answer is
    the same each time, whatever groups were kept of earlier ones. Any values will do where only those are asked for."""
    if tree.args.get("distinct") and not (grouping.by_distinct and is_ordered):
        return []
    texts = [term.sql for term in terms]
    keys = [key.sql for key in grouping.keys.values() if not key.is_constant]
    named = [str(texts.index(key) + 1) if key in texts else key for key in keys]
    # A group of null comes before the total over that key.
    return [*named, *(f"grouping({key})" for key in keys if grouping.in_sets)]


def _ordered_by(frame: Frame, tree: exp.Select, ordered: exp.Expr, terms: list[Term], is_first: bool) -> str | None:
    """What rows are ordered by; None for a constant."""
    at = ordinal(ordered.this, len(terms))
    term = frame.term(ordered.this) if at is None else terms[at]
    if frame.keys is None and term.time_column and not tree.args.get("distinct"):
        # The bare column instead of its milliseconds: the engine can then skip files while it keeps the newest rows.
        if is_first and term.table is not None and ordered.args.get("desc") and tree.args.get("limit"):
            term.table.newest_first = True
        return term.time_column
    if at is None:
        if term.is_constant:
            return None
        texts = [one.sql for one in terms]
        at = texts.index(term.sql) if term.sql in texts else None
    if at is None and tree.args.get("distinct"):
        raise InvalidQuery("ORDER BY of SELECT DISTINCT names what is selected", where(ordered))
    return term.sql if at is None else str(at + 1)


def ordinal(tree: exp.Expr, count: int) -> int | None:
    """The place that a number names among ``count`` outputs; None for what is no number.

    Raises:
        InvalidQuery: there is no such place.
    """
    if not (isinstance(tree, exp.Literal) and not tree.is_string):
        return None
    if not tree.this.isdigit() or not 1 <= int(tree.this) <= count:
        raise InvalidQuery(f"Ordinal {tree.this} is out of range: 1 to {count}", where(tree))
    return int(tree.this) - 1


def entry_sql(sql: str, ordered: exp.Expr) -> str:
    """One entry, with Druid's place for NULLs."""
    direction = "DESC" if ordered.args.get("desc") else "ASC"
    return f"{sql} {direction} NULLS {'FIRST' if ordered.args.get('nulls_first') else 'LAST'}"
