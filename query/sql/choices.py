"""The rule for CASE: one choice a row, or one for each member of a multi-value string."""

from __future__ import annotations

from sqlglot import exp

from query.errors import QueryError
from query.sql import term as t
from query.sql.casts import as_boolean
from query.sql.comparison import compare
from query.sql.frame import Frame, node
from query.sql.multi_value import mapped
from query.sql.operators import alike
from query.sql.term import Term
from query.sql.types import Family


@node(exp.Case, parts="this ifs default")
def _case(frame: Frame, tree: exp.Expr) -> Term:
    """One choice a row; of texts, where a multi-value string is looked at, one for each of its members."""
    found = _choice(frame, tree)
    if found.family is not Family.STRING or frame.whole is not None or not _looks_at_several(frame, tree):
        return found
    inside = frame.by_member()
    chosen = _choice(inside, tree)
    return mapped(tuple(inside.members.items()), chosen) if inside.members else found


def _looks_at_several(frame: Frame, tree: exp.Expr) -> bool:
    """Whether a multi-value string stands in it; what was translated once is not translated again."""
    inner = (part for part in tree.walk(prune=lambda part: isinstance(part, exp.Query)) if type(part) is exp.Column)
    return frame.keys is None and any(_is_several(frame, column) for column in inner)


def _is_several(frame: Frame, column: exp.Expr) -> bool:
    try:
        return frame.term(column).type.multi
    except QueryError:
        # A word that is no column, such as the unit of a time.
        return False


def _choice(frame: Frame, tree: exp.Expr) -> Term:
    subject = tree.this
    conditions, results = [], []
    for branch in tree.args["ifs"]:
        if subject is None:
            conditions.append(as_boolean(frame.term(branch.this)).sql)
        else:
            conditions.append(compare(frame, "=", frame.term(subject), frame.term(branch.this)).sql)
        results.append(frame.term(branch.args["true"]))
    default = tree.args.get("default")
    results.append(frame.term(default) if default is not None else t.null())
    results, type_ = alike(frame, results, "CASE")
    branches = [f"WHEN {condition} THEN {result.sql}" for condition, result in zip(conditions, results, strict=False)]
    return t.expression(f"CASE {' '.join(branches)} ELSE {results[-1].sql} END", type_)
