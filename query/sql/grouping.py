"""Translates GROUP BY: ordinals, aliases, multi-value keys and grouping sets."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from query.errors import InvalidQuery, UnsupportedQuery
from query.splits import CannotSplit
from query.sql.casts import exact_long
from query.sql.frame import Frame, Session, holds_aggregate, refuse_parts
from query.sql.multi_value import mapped, only_member, spread
from query.sql.operators import cast_one, named_type
from query.sql.scope import where
from query.sql.term import Term, one_zero
from query.sql.time_bounds import beyond_bounds, conjuncts
from query.sql.types import VARCHAR, Family

Items = list[tuple[exp.Expr | None, Term | None]]
_SETS = {"grouping_sets": "GROUPING SETS", "rollup": "ROLLUP", "cube": "CUBE"}
_SET_NODES: dict[type[exp.Expr], str] = {exp.GroupingSets: "GROUPING SETS", exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}


@dataclass(slots=True)
class Grouping:
    """How rows are grouped: ``keys`` maps the text of a key to the term that stands for it afterwards.

    A multi-value key is spread over one row per member first: ``spreads`` are those lateral items. ``in_sets``: not
    every row told is a group by all of the keys.
    """

    keys: dict[str, Term]
    sql: str
    spreads: list[str] = field(default_factory=list)
    by_distinct: bool = False
    in_sets: bool = False
    has_sets: bool = False

    def add(self, rows: Frame, term: Term, tree: exp.Expr | None = None) -> str:
        """Takes a key in; returns how GROUP BY spells it."""
        if term.sql not in self.keys:
            stands_for = _cast_key(rows, tree) or one_zero(term)
            if term.sql in rows.pinned:
                # Druid's planner puts the text in place of a string that WHERE sets equal to it.
                stands_for = rows.pinned[term.sql]
            elif term.type.multi and not _is_by_member(rows, term):
                stands_for = one_zero(only_member(term))
            elif term.type.multi:
                alias = rows.session.fresh("u")
                self.spreads.append(f"LATERAL (SELECT {spread(_whole_members(term))} AS m) AS {alias}")
                stands_for = one_zero(Term(f"{alias}.m", term.type.member))
            self.keys[term.sql] = stands_for
        return self.keys[term.sql].sql

    def laterals(self, from_sql: str) -> str:
        """What FROM needs behind its own items."""
        if not self.spreads:
            return ""
        return (" CROSS JOIN " if from_sql else "") + " CROSS JOIN ".join(self.spreads)


def _is_by_member(rows: Frame, term: Term) -> bool:
    """Whether each member is a key of its own: texts, and members as numbers. Of other numbers Druid makes one of a row
    alone, and of several none."""
    if term.family is Family.STRING or len(term.lists) != 1:
        return term.family is Family.STRING
    return term.member == cast_one(rows, Term(term.lists[0][1], VARCHAR), term.type.member).sql


def _whole_members(term: Term) -> Term:
    """Members as longs, of which a group takes whole numbers only."""
    if term.family is not Family.LONG:
        return term
    return mapped(term.lists, exact_long(Term(term.lists[0][1], VARCHAR), term.type.member))


def _cast_key(rows: Frame, tree: exp.Expr | None) -> Term | None:
    """A text column grouped as a long: Druid then takes whole numbers only, where it cuts fractions elsewhere."""
    if not isinstance(tree, exp.Cast) or not isinstance(tree.this, exp.Column):
        return None
    type_, operand = named_type(tree.args["to"]), rows.term(tree.this)
    if type_.family is not Family.LONG or operand.family is not Family.STRING or operand.type.multi:
        return None
    return exact_long(operand, type_)


def group_keys(rows: Frame, group: exp.Expr, items: Items, aliases: dict[str, exp.Expr]) -> Grouping:
    """Reads a GROUP BY clause."""
    refuse_parts(group, frozenset({"expressions", *_SETS}))
    in_sets = any(group.args.get(name) for name in _SETS)
    if len(group.expressions) == 1 and not in_sets:
        # The planner of Druid drops constant keys, but never the last one.
        rows.pinned = {}
    in_sets = in_sets or any(type(tree) in _SET_NODES for tree in group.expressions)
    reader = _Reader(rows, items, aliases, Grouping({}, "", in_sets=in_sets))
    parts = [reader.part(tree) for tree in group.expressions]
    for name in _SETS:
        for tree in group.args.get(name) or []:
            parts.append(reader.part(tree))
    if not parts:
        raise InvalidQuery("GROUP BY needs at least one expression", where(group))
    reader.grouping.sql = f" GROUP BY {', '.join(parts)}"
    return reader.grouping


@dataclass(slots=True)
class _Reader:
    rows: Frame
    items: Items
    aliases: dict[str, exp.Expr]
    grouping: Grouping

    def part(self, tree: exp.Expr) -> str:
        word = _SET_NODES.get(type(tree))
        if word is not None:
            members = ", ".join(self._member(member) for member in tree.expressions)
            self.grouping.has_sets = bool(self.grouping.keys)
            return f"{word} ({members})"
        if isinstance(tree, exp.Tuple) and not tree.expressions:
            return "()"
        written = self._written(tree)
        return self.grouping.add(self.rows, self._key(tree), written)

    def _member(self, tree: exp.Expr) -> str:
        """One set: a key, or several in brackets."""
        if isinstance(tree, exp.Tuple):
            return f"({', '.join(self.part(part) for part in tree.expressions)})"
        if isinstance(tree, exp.Paren):
            return f"({self.part(tree.this)})"
        return self.part(tree)

    def _key(self, tree: exp.Expr) -> Term:
        if isinstance(tree, exp.Literal) and not tree.is_string:
            return self._by_ordinal(tree)
        if isinstance(tree, exp.Column) and not tree.table and not self.rows.scope.has(tree.name):
            tree = self.aliases.get(tree.name, tree)
        if holds_aggregate(tree):
            raise InvalidQuery("aggregates are not allowed in GROUP BY", where(tree))
        if isinstance(tree, exp.Query):
            raise UnsupportedQuery("subqueries in GROUP BY are not supported", where(tree))
        return self.rows.term(tree)

    def _written(self, tree: exp.Expr) -> exp.Expr | None:
        """What stands behind the number or name that a key may be."""
        if isinstance(tree, exp.Literal) and not tree.is_string and tree.this.isdigit():
            at = int(tree.this) - 1
            return self.items[at][0] if 0 <= at < len(self.items) else None
        if isinstance(tree, exp.Column) and not tree.table and not self.rows.scope.has(tree.name):
            return self.aliases.get(tree.name, tree)
        return tree

    def _by_ordinal(self, tree: exp.Literal) -> Term:
        if not tree.this.isdigit() or not 1 <= int(tree.this) <= len(self.items):
            raise InvalidQuery(f"Ordinal {tree.this} is out of range: 1 to {len(self.items)}", where(tree))
        item, term = self.items[int(tree.this) - 1]
        if term is not None:
            return term
        assert item is not None
        if holds_aggregate(item):
            raise InvalidQuery(f"GROUP BY {tree.this} names an aggregate", where(tree))
        return self.rows.term(item)


def parted(session: Session, grouping: Grouping | None, source: str) -> str:
    """FROM and WHERE, which a statement that is split leaves to its parts; their keys then stand for the rows'."""
    splitting = session.splitting
    if splitting is None:
        return source
    if grouping is None or any(term.is_constant for term in grouping.keys.values()):
        raise CannotSplit("no groups, or none of rows")
    for text, term in grouping.keys.items():
        grouping.keys[text] = Term(splitting.key(term.sql, term.type), term.type)
    grouping.sql = splitting.grouped()
    return f" FROM {splitting.read(source.removeprefix(' FROM '))}"


def unbounded(rows: Frame, where_: exp.Expr) -> exp.Expr | None:
    """What a statement asks of each row; where it is split, rows out of its times do not come to its parts."""
    condition: exp.Expr = where_.this
    splitting = rows.session.splitting
    if splitting is None:
        return condition
    parts = beyond_bounds(rows, condition)
    splitting.is_bounded = len(parts) < len(list(conjuncts(condition)))
    if not splitting.is_bounded:
        return condition
    # The bounds may have said what time it is; what else does so is translated from here on.
    rows.session.told_time = False
    rows.forget()
    # Together, since what is asked of one string at several places is one question; in the tree, which keeps it alive.
    where_.set("this", exp.and_(*parts, copy=False) if parts else None)
    return where_.this or None
