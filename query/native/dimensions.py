"""Dimension specs and virtual columns: what a native query groups by and what it calls that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from query.errors import InvalidQuery
from query.native import expressions
from query.native.expression_functions import as_type
from query.native.expression_json import as_json, json_value
from query.native.extraction import extracted, registered_lookup
from query.native.request import Part, part_of
from query.native.rows import Rows, call
from query.sql import term as t
from query.sql.casts import as_string, cast_to, exact_long
from query.sql.frame import Frame
from query.sql.functions_list import only_members
from query.sql.multi_value import as_java_text, only_member
from query.sql.scope import Scope
from query.sql.term import Term
from query.sql.types import MULTI_VARCHAR, Family
from segments.expression.tree import Call


@dataclass(frozen=True, slots=True)
class Dimension:
    """``name`` is what the answer calls it; a multi-value ``term`` means one group per member."""

    name: str
    term: Term


def dimension_of(rows: Rows, spec: Any, path: str) -> Dimension:
    """A dimension from its name or spec. Values are texts unless the spec names another type.

    Raises:
        QueryError: it is neither, or of a type that is not built.
    """
    if isinstance(spec, str):
        return Dimension(spec, _output(rows, _told(rows, spec), "STRING"))
    part = part_of(spec, path)
    kind = part.text_or("default", "type")
    if kind in ("listFiltered", "regexFiltered", "prefixFiltered"):
        inner = dimension_of(rows, part.get("delegate"), part.at("delegate"))
        return Dimension(inner.name, _filtered(rows, part, inner.term))
    name = part.text("dimension")
    type_name = part.text_or("STRING", "outputType")
    operand = rows.column(name) if kind != "default" or type_name.upper() != "STRING" else _told(rows, name)
    if kind == "extraction":
        operand = extracted(rows.session, part.part("extractionFn"), operand)
    elif kind == "lookup":
        operand = _looked_up(rows, part, operand)
    elif kind != "default":
        raise part.unknown_type("dimension")
    return Dimension(part.text_or(name, "outputName"), _output(rows, operand, type_name))


def _told(rows: Rows, name: str) -> Term:
    """A column whose values are to be texts: a computed array is the text of all of it, a stored one its members."""
    operand = rows.column(name)
    if operand.family is not Family.ARRAY or name not in rows.virtual:
        return operand
    return as_java_text(cast_to(operand, MULTI_VARCHAR))


def _looked_up(rows: Rows, part: Part, operand: Term) -> Term:
    if part.has("name") and part.has("lookup"):
        raise InvalidQuery(f"{part.path}: name and lookup exclude each other")
    if part.has("name"):
        return registered_lookup(rows.session, part, operand, part.text("name"))
    return extracted(rows.session, part_of({**part.value, "type": "lookup"}, part.path), operand)


def _output(rows: Rows, operand: Term, type_name: str) -> Term:
    if operand.family is Family.ARRAY:
        return operand if type_name.upper().startswith("ARRAY") else cast_to(operand, MULTI_VARCHAR)
    if operand.family is Family.COMPLEX:
        raise InvalidQuery(f"a column of {operand.type.druid} cannot be grouped")
    if operand.type.multi and operand.family is not Family.STRING:
        operand = only_member(operand)
    if type_name.upper() == "STRING":
        return operand if operand.type.multi else as_string(operand)
    if operand.type.multi and type_name.upper().startswith("ARRAY"):
        raise InvalidQuery(f"a multi-value string cannot be grouped as {type_name}")
    if type_name.upper() == "LONG" and operand.family is Family.STRING and not operand.type.multi:
        return exact_long(operand)
    return as_type(operand, type_name, _frame(rows))


def _frame(rows: Rows) -> Frame:
    return Frame(rows.session, Scope(), clause="a dimension")


def _filtered(rows: Rows, part: Part, operand: Term) -> Term:
    """Keeps the members that fit; a value of which nothing is left is null."""
    member = rows.session.fresh("x")
    kind = part.type
    if kind == "listFiltered":
        return _only(part, operand, member, part.flag("isWhitelist", True))
    if kind == "regexFiltered":
        test = f"regexp_full_match({member}, {t.text_sql(part.text('pattern'))})"
    else:
        test = f"starts_with({member}, {t.text_sql(part.text('prefix'))})"
    kept = f"list_filter({_listed(operand)}, lambda {member}: coalesce({test}, FALSE))"
    return Term(f"CAST({kept} AS VARCHAR[])", MULTI_VARCHAR)


def _only(part: Part, operand: Term, member: str, only: bool) -> Term:
    """A multi-value string with the members that are among ``values``, or with the others."""
    values = (None if value is None else t.text_sql(str(value)) for value in part.items("values"))
    wanted = f"CAST([{', '.join(value or 'NULL' for value in values)}] AS VARCHAR[])"
    return only_members(_listed(operand), member, wanted, only)


def _listed(operand: Term) -> str:
    """The members of a string: NULL is one, as in Druid, so that of it nothing may be left."""
    return f"coalesce({cast_to(operand, MULTI_VARCHAR).sql}, [NULL])"


def add_virtual_columns(rows: Rows, query: Part) -> None:
    """Makes the query's virtual columns known; one may use those before it, and hides a stored one of its name."""
    for part in query.parts("virtualColumns"):
        name = part.text("outputName", "name")
        if part.type == "expression" and not part.has("outputType"):
            tree = expressions.parsed(part.text("expression"))
            if isinstance(tree, Call) and expressions.is_untyped(tree):
                rows.shown[name] = as_json(expressions.Compiler(rows.session, rows.column), tree)
        rows.virtual[name] = virtual_column(rows, part)


def virtual_column(rows: Rows, part: Part) -> Term:
    """One virtual column.

    Raises:
        QueryError: of a type that is unknown or not built, or its expression does not fit.
    """
    kind = part.type
    if kind == "expression":
        found = expressions.compiled(rows, part.text("expression"))
        wanted = part.text_or("", "outputType")
        return as_type(found, wanted, _frame(rows)) if wanted else found
    if kind == "nested-field":
        return _nested(rows, part)
    if kind == "fallback":
        names = part.texts("columns")
        if not names:
            raise InvalidQuery(f"{part.at('columns')}: at least one name is needed")
        return next((rows.column(name) for name in names if rows.find(name) is not None), rows.column(names[0]))
    if kind in ("mv-filtered", "list-filtered"):
        inner = dimension_of(rows, part.get("delegate"), part.at("delegate"))
        return _only(part, inner.term, rows.session.fresh("x"), part.flag("isAllowList", True))
    raise part.unknown_type("virtual column")


def _nested(rows: Rows, part: Part) -> Term:
    document = rows.column(part.text("columnName"))
    path = t.text(_path(part))
    compiler = expressions.Compiler(rows.session, rows.column)
    if part.flag("processFromRaw"):
        return call(rows.session, "JSON_QUERY", document, path)
    found = json_value(compiler, document, path, part.text_or("STRING", "expectedType"))
    return found


def _path(part: Part) -> str:
    if part.has("path"):
        path = part.text("path")
        return path if path.startswith("$") else f"${path}"
    steps = []
    for step in part.parts("pathParts"):
        index = step.get("index")
        field = str(step.get("field") or "").replace("\\", "\\\\").replace("'", "\\'")
        steps.append(f"[{index}]" if index is not None else f"['{field}']")
    return "$" + "".join(steps)
