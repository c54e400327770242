"""Rewrites PIVOT and UNPIVOT into the SELECT that they mean (pure)."""

from __future__ import annotations

from sqlglot import exp

from query.errors import InvalidQuery, UnsupportedQuery
from query.sql.frame import refuse_parts
from query.sql.scope import where

_PIVOT_PARTS = frozenset({"expressions", "fields", "alias", "columns", "unpivot", "include_nulls"})
# What sqlglot notes of its own dialects.
_NOTES = frozenset({"identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming", "value_columns_first"})


def pivoted(source: exp.Expr, pivot: exp.Expr, columns: list[str]) -> exp.Expr:
    """The query that gives what PIVOT or UNPIVOT makes of a source, whose columns are ``columns``.

    Raises:
        QueryError: it names a column that the source has not, or is of a form that is not built.
    """
    refuse_parts(pivot, _PIVOT_PARTS | _NOTES)
    fields = pivot.args.get("fields") or []
    if len(fields) != 1 or not isinstance(fields[0], exp.In):
        raise UnsupportedQuery("PIVOT and UNPIVOT have one FOR … IN (…)", where(pivot))
    rewrite = _unpivoted if pivot.args.get("unpivot") else _pivoted
    return rewrite(source, pivot, fields[0], columns)


def _axes(tree: exp.Expr) -> list[exp.Expr]:
    return list(tree.expressions) if isinstance(tree, exp.Tuple) else [tree]


def _named(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _labelled(tree: exp.Expr, name: str) -> exp.Alias:
    # Not a copy: markers of parameters are known by their nodes.
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))


def _pivoted(source: exp.Expr, pivot: exp.Expr, field: exp.In, columns: list[str]) -> exp.Select:
    """One group for each value of the columns that PIVOT does not mention; one aggregate for each value of the axis."""
    axes = _axes(field.this)
    used = {one.name for tree in (*pivot.expressions, field.this) for one in tree.find_all(exp.Column)}
    kept = [name for name in columns if name not in used]
    calls = [(one.this, one.alias) if isinstance(one, exp.Alias) else (one, "") for one in pivot.expressions]
    items: list[exp.Expr] = [_named(name) for name in kept]
    for entry in field.expressions:
        value, label = (entry.this, entry.alias) if isinstance(entry, exp.PivotAlias) else (entry, "")
        values = _axes(value)
        if len(values) != len(axes):
            raise InvalidQuery(f"PIVOT: {len(values)} values for {len(axes)} columns", where(entry))
        tests = [exp.EQ(this=axis, expression=one) for axis, one in zip(axes, values, strict=True)]
        label = label or "_".join(map(_spelled, values))
        for call, alias in calls:
            condition = exp.Where(this=exp.and_(*tests, copy=False))
            chosen = exp.Filter(this=call, expression=condition)
            items.append(_labelled(chosen, f"{label}_{alias}" if alias else label))
    query = exp.Select(expressions=items, from_=exp.From(this=source))
    if kept:
        query.set("group", exp.Group(expressions=[_named(name) for name in kept]))
    return query


def _spelled(value: exp.Expr) -> str:
    """A value as Druid writes it, which names the column of one without a label: 'x' with its quotes."""
    if isinstance(value, exp.Cast) and isinstance(value.this, exp.Literal) and value.this.is_string:
        return f"{value.args['to'].sql()} {value.this.sql()}"
    return value.sql()


def _unpivoted(source: exp.Expr, pivot: exp.Expr, field: exp.In, columns: list[str]) -> exp.Expr:
    """One row for each of the listed columns, or lists of them: labels and values; without rows of which every value is
    NULL unless INCLUDE NULLS says so."""
    measures = [one.name for part in pivot.expressions for one in _axes(part)]
    axes = [one.name for one in _axes(field.this)]
    listed = [_listed(entry, len(measures), len(axes)) for entry in field.expressions]
    for names, _ in listed:
        for name in names:
            if name not in columns:
                raise InvalidQuery(f"UNPIVOT: the source has no column {name!r}", where(field))
    taken = {name for names, _ in listed for name in names}
    kept = [name for name in columns if name not in taken]
    query: exp.Expr | None = None
    for names, labels in listed:
        items: list[exp.Expr] = [_named(one) for one in kept]
        items += [_labelled(label, axis) for label, axis in zip(labels, axes, strict=True)]
        items += [_labelled(_named(name), measure) for name, measure in zip(names, measures, strict=True)]
        select = exp.Select(expressions=items, from_=exp.From(this=source))
        if not pivot.args.get("include_nulls"):
            given = [exp.Not(this=exp.Is(this=_named(name), expression=exp.Null())) for name in names]
            select.set("where", exp.Where(this=exp.or_(*given, copy=False)))
        query = select if query is None else exp.Union(this=query, expression=select, distinct=False)
    assert query is not None, "the parser wants a column"
    return query


def _listed(entry: exp.Expr, measures: int, axes: int) -> tuple[list[str], list[exp.Expr]]:
    """The columns of one entry, and what its rows are labelled with: their names unless AS says more."""
    value, alias = (entry.this, entry.args["alias"]) if isinstance(entry, exp.PivotAlias) else (entry, None)
    names = [one.name for one in _axes(value)]
    if len(names) != measures:
        raise InvalidQuery(f"UNPIVOT: {len(names)} columns for {measures} values", where(entry))
    if alias is None:
        return names, [exp.Literal.string("_".join(names)) for _ in range(axes)]
    labels = [exp.Literal.string(one.name) if isinstance(one, exp.Identifier) else one for one in _axes(alias)]
    if len(labels) != axes:
        raise InvalidQuery(f"UNPIVOT: {len(labels)} labels for {axes} columns", where(entry))
    return names, labels
