"""Functions of Druid's expression language over arrays and the members of multi-value strings."""

from __future__ import annotations

from query.errors import InvalidQuery
from query.native.expressions import Compiler, function
from query.native.rows import plain
from query.sql import term as t
from query.sql.casts import cast_to
from query.sql.multi_value import refuse_lists, whole_list
from query.sql.operators import alike
from query.sql.term import Term
from query.sql.types import BOOLEAN, MULTI_VARCHAR, VARCHAR, Family, array_of, element_of
from segments.expression.tree import Call, Lambda


def as_list(term: Term) -> Term:
    """The term where an array is expected: a text is a list of one, one without members is null."""
    if term.type.multi:
        return whole_list(term)
    if term.family is not Family.STRING:
        return term
    return Term(f"(CASE WHEN {term.sql} IS NOT NULL THEN [{term.sql}] END)", array_of(VARCHAR))


def _values(compiler: Compiler, tree: Call) -> list[Term]:
    return [compiler.value(argument) for argument in tree.arguments]


@function("array")
def _array(compiler: Compiler, tree: Call) -> Term:
    terms = _values(compiler, tree)
    refuse_lists(terms)
    members, type_ = alike(compiler.frame, terms or [t.null()], "array")
    array = array_of(type_)
    inside = ", ".join(cast_to(member, element_of(array)).sql for member in members) if tree.arguments else ""
    return Term(f"CAST([{inside}] AS {array.duckdb})", array)


@function("array_set_add", "array_set_add_all")
def _set_add(compiler: Compiler, tree: Call) -> Term:
    array, other = _values(compiler, tree)
    array, other = as_list(array), as_list(other) if other.type.multi or tree.name.endswith("all") else other
    if array.family is not Family.ARRAY:
        raise InvalidQuery(f"{tree.name} needs an array")
    is_list = other.family is Family.ARRAY
    added = cast_to(other, array.type).sql if is_list else f"[{cast_to(other, element_of(array.type)).sql}]"
    joined = f"list_concat({array.sql}, {added})"
    missing = f"CASE WHEN len({joined}) > list_count({joined}) THEN [NULL] ELSE [] END"
    known = f"{array.sql} IS NOT NULL AND {added} IS NOT NULL"
    # Distinct members leave NULL out, which comes first.
    found = f"list_concat({missing}, list_sort(list_distinct({joined})))"
    return t.expression(f"CASE WHEN {known} THEN {found} END", array.type)


@function("mv_harmonize_nulls")
def _harmonized(compiler: Compiler, tree: Call) -> Term:
    operand = compiler.value(tree.arguments[0])
    if not operand.type.multi:
        return operand
    whole = as_list(operand)
    return Term(f"coalesce({whole.sql}, [NULL])", whole.type)


def _over(compiler: Compiler, tree: Call) -> tuple[Lambda, Term, str, Term]:
    """A lambda, the list it is for, the name of one member in it and that member."""
    lambda_, source = tree.arguments[0], as_list(compiler.value(tree.arguments[1]))
    assert isinstance(lambda_, Lambda), "the parser gives these functions a lambda"
    name = compiler.session.fresh("x")
    if source.family is Family.ARRAY:
        return lambda_, source, name, Term(name, element_of(source.type))
    text = cast_to(source, VARCHAR) if not source.type.multi else source
    listed = text if text.type.multi else Term(f"[{text.sql}]", array_of(VARCHAR))
    return lambda_, listed, name, Term(name, VARCHAR)


@function("map")
def _map(compiler: Compiler, tree: Call) -> Term:
    lambda_, listed, name, member = _over(compiler, tree)
    body = plain(compiler.inside(lambda_, member).value(lambda_.body))
    if body.family is Family.ARRAY or body.type.multi:
        raise InvalidQuery("map gives one value per member, no array")
    type_ = listed.type if listed.type.multi and body.family is Family.STRING else array_of(body.type)
    return Term(f"list_transform({listed.sql}, lambda {name}: {body.sql})", type_)


@function("filter", "any", "all")
def _filter(compiler: Compiler, tree: Call) -> Term:
    lambda_, listed, name, member = _over(compiler, tree)
    test = f"coalesce({compiler.inside(lambda_, member).condition(lambda_.body)}, FALSE)"
    if tree.name == "filter":
        # What is left of a string of several values is one.
        of_string = compiler.value(tree.arguments[1]).type.multi
        kept = f"list_filter({listed.sql}, lambda {name}: {test})"
        return Term(kept, MULTI_VARCHAR if of_string and listed.type == array_of(VARCHAR) else listed.type)
    if tree.name == "any":
        return t.expression(f"coalesce(len(list_filter({listed.sql}, lambda {name}: {test})) > 0, FALSE)", BOOLEAN)
    fails = f"len(list_filter({listed.sql}, lambda {name}: NOT {test}))"
    return t.expression(f"coalesce({fails} = 0, FALSE)", BOOLEAN)
