"""Functions of Druid's expression language that read and make nested data."""

from __future__ import annotations

from query.errors import InvalidQuery
from query.native.expressions import Compiler, function, named_type
from query.native.rows import call
from query.sql import term as t
from query.sql.casts import cast_to
from query.sql.frame import per_member
from query.sql.functions_json import json_object
from query.sql.term import Term
from query.sql.types import BIGINT
from segments.expression.tree import Call


@function("json_value")
def _json_value(compiler: Compiler, tree: Call) -> Term:
    document, path, *type_ = [compiler.value(argument) for argument in tree.arguments]
    name = type_[0].value if type_ else "STRING"
    return json_value(compiler, document, path, str(name))


def json_value(compiler: Compiler, document: Term, path: Term, type_name: str) -> Term:
    """The scalar at a path of nested data, as a type by its native name."""
    if type_name.upper().startswith("ARRAY"):
        type_ = named_type(type_name)
        array = call(compiler.session, "JSON_VALUE_ARRAY_VARCHAR", document, path)
        return Term(f"TRY_CAST({array.sql} AS {type_.duckdb})", type_)
    found = call(compiler.session, "JSON_VALUE", document, path)
    if type_name.upper() == "LONG":
        whole = cast_to(found, BIGINT).sql
        return t.expression(f"coalesce({whole}, TRY_CAST(trunc(TRY_CAST({found.sql} AS DOUBLE)) AS BIGINT))", BIGINT)
    return cast_to(found, named_type(type_name))


def as_json(compiler: Compiler, tree: Call) -> Term:
    """What json_value without a type gives, each value by its own type: as JSON. Truth values are 1 and 0."""
    document, path = (compiler.value(argument) for argument in tree.arguments)
    found = call(compiler.session, "JSON_QUERY", document, path)
    truth = f"CASE {found.sql} WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE {found.sql} END"
    return Term(f"(CASE WHEN json_type({found.sql}) <> 'OBJECT' THEN {truth} END)", found.type)


@function("json_object")
def _json_object(compiler: Compiler, tree: Call) -> Term:
    terms = [compiler.value(argument) for argument in tree.arguments]
    if len(terms) % 2:
        raise InvalidQuery("json_object takes pairs of a key and a value")
    return per_member(compiler.frame, terms, json_object)
