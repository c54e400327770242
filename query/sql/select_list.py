"""Names the entries of a select list, and what its stars stand for."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from query.errors import InvalidQuery
from query.sql.frame import Frame, refuse_parts
from query.sql.scope import Scope, where
from query.sql.term import Term


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a select list; a star gives several, which are terms already."""

    name: str
    tree: exp.Expr | None = None
    term: Term | None = None

    def seen_by(self, frame: Frame) -> Term:
        """The entry as the frame after grouping sees it."""
        if self.tree is not None:
            return frame.term(self.tree)
        assert self.term is not None
        if frame.keys is None:
            return self.term
        if self.term.sql not in frame.keys:
            raise InvalidQuery(f"Expression {self.name!r} is not being grouped")
        return frame.keys[self.term.sql]


def selected(scope: Scope, tree: exp.Select) -> list[Item]:
    """The entries of a select list with their names, stars spread out.

    Raises:
        QueryError: there is none, or a star of nothing.
    """
    items: list[Item] = []
    for entry in tree.expressions:
        if isinstance(entry, exp.Star) or (isinstance(entry, exp.Column) and isinstance(entry.this, exp.Star)):
            refuse_parts(entry if isinstance(entry, exp.Star) else entry.this, frozenset())
            table = entry.table if isinstance(entry, exp.Column) else ""
            starred = [Item(name, term=term) for name, term in scope.star(table)]
            if not starred:
                raise InvalidQuery(f"{table + '.' if table else ''}* selects nothing", where(entry))
            for item in starred:
                names = {one.name for one in items}
                items.append(Item(_unused(item.name, names), term=item.term))
        elif isinstance(entry, exp.Alias):
            items.append(Item(entry.alias, entry.this))
        elif isinstance(entry, exp.Column | exp.CurrentTimestamp | exp.CurrentDate):
            items.append(Item(_written_name(entry), entry))
        else:
            # The number is that of the different names so far, as Druid counts.
            items.append(Item(f"EXPR${len({item.name for item in items})}", entry))
    if not items:
        raise InvalidQuery("SELECT needs at least one expression", where(tree))
    return items


def _unused(name: str, names: set[str]) -> str:
    """A column of a star as Druid calls it behind one of the same name: sku0, sku1."""
    numbered = (f"{name}{at}" for at in range(len(names) + 1))
    return name if name not in names else next(one for one in numbered if one not in names)


def _written_name(entry: exp.Expr) -> str:
    if isinstance(entry, exp.CurrentTimestamp):
        return "CURRENT_TIMESTAMP"
    return "CURRENT_DATE" if isinstance(entry, exp.CurrentDate) else entry.name
