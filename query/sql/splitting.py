"""Decides which statements are split into groups of parts of a table and what is made of them, and splits them."""

from __future__ import annotations

from sqlglot import exp

from query.model import TableUse
from query.splits import CannotSplit, Split, Splitting
from query.sql.frame import Session
from query.sql.select import QueryPlanner

_READS_MORE = (exp.Window, exp.Query, exp.Lateral)
_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube, exp.Tuple)


def split(session: Session, tree: exp.Expr, tables: tuple[TableUse, ...]) -> Split | None:
    """The statement in two, if it groups the rows of one stored table and what it tells of them can be merged; else
    None. ``session`` has planned it, and ``tables`` are what it reads."""
    if len(tables) != 1 or not tables[0].is_stored or not _is_plain(tree):
        return None
    if tables[0].counts_only or tables[0].within_bounds:
        # How many rows a part has is known without reading it.
        return None
    planner, splitting = QueryPlanner(), Splitting()
    second = Session(
        session.catalogue,
        session.zone,
        session.now_ms,
        planner,
        session.parameters,
        markers=session.markers,
        large_chars=session.large_chars,
        splitting=splitting,
    )
    try:
        final = planner.plan(second, tree)
    except CannotSplit:
        return None
    if second.told_time:
        # Its parts would be others each time.
        return None
    same_tables = tuple(table.closed() for table in second.tables) == tables
    return splitting.split(final.sql) if same_tables and second.functions == session.functions else None


def _is_plain(tree: exp.Expr) -> bool:
    """Whether it is one SELECT from one item, without windows and grouping sets."""
    if not isinstance(tree, exp.Select) or tree.args.get("joins") or tree.args.get("with_"):
        return False
    if any(part is not tree and isinstance(part, _READS_MORE) for part in tree.walk()):
        return False
    group = tree.args.get("group")
    parts = [] if group is None else [one for value in group.args.values() for one in value or () if value is not True]
    return not any(isinstance(part, _SETS) for part in parts)
