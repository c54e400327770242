"""Functions of Druid's expression language that go through lists with a lambda, that ask sketches, and late ones."""

from __future__ import annotations

from query.errors import InvalidQuery, UnsupportedQuery
from query.native.expressions import Compiler, function
from query.native.rows import call, plain
from query.sql import calendar_sql as cal
from query.sql import sketches as s
from query.sql import term as t
from query.sql.calendar_math import known_zone
from query.sql.casts import as_long, as_number, cast_to
from query.sql.multi_value import whole_list
from query.sql.term import Term
from query.sql.types import BIGINT, DOUBLE, VARCHAR, Family, SqlType, array_of, common_type, element_of
from segments.expression.tree import Call, Expression, Identifier, Lambda
from segments.sketch.shape import SketchKind

_MOST_LISTS = 5


def _listed(compiler: Compiler, tree: Expression) -> tuple[Term, SqlType]:
    """A list and the type of its members; a single text is a list of one."""
    found = compiler.value(tree)
    if found.family is Family.ARRAY:
        return found, element_of(found.type)
    if found.type.multi:
        return whole_list(found), element_of(array_of(found.type.member))
    text = cast_to(found, VARCHAR)
    return Term(f"(CASE WHEN {text.sql} IS NOT NULL THEN [{text.sql}] END)", array_of(VARCHAR)), VARCHAR


def _combined(compiler: Compiler, tree: Call, trees: tuple[Expression, ...]) -> tuple[str, list[Term], str]:
    """All combinations of members of several lists as a list of structs, the members of one struct, and its name.

    Raises:
        InvalidQuery: there are too many lists.
    """
    if len(trees) > _MOST_LISTS:
        raise InvalidQuery(f"{tree.name} takes {_MOST_LISTS} lists at most, not {len(trees)}")
    lists = [_listed(compiler, one) for one in trees]
    names = [compiler.session.fresh("x") for _ in lists]
    sql = f"struct_pack({', '.join(f'm{at} := {name}' for at, name in enumerate(names))})"
    for at, ((found, _), name) in enumerate(reversed(list(zip(lists, names, strict=True)))):
        sql = f"list_transform({found.sql}, lambda {name}: {sql})"
        sql = f"flatten({sql})" if at else sql
    if len(lists) > 1:
        # flatten leaves a null list out: a combination with one is none.
        missing = " OR ".join(f"{found.sql} IS NULL" for found, _ in lists)
        sql = f"(CASE WHEN NOT ({missing}) THEN {sql} END)"
    row = compiler.session.fresh("x")
    return sql, [Term(f"{row}.m{at}", type_) for at, (_, type_) in enumerate(lists)], row


def _lambda(tree: Call) -> Lambda:
    found = tree.arguments[0]
    assert isinstance(found, Lambda), "the parser gives these functions a lambda"
    return found


@function("cartesian_map")
def _cartesian_map(compiler: Compiler, tree: Call) -> Term:
    rows, members, row = _combined(compiler, tree, tree.arguments[1:])
    lambda_ = _lambda(tree)
    body = plain(compiler.inside(lambda_, *members).value(lambda_.body))
    if body.family is Family.ARRAY or body.type.multi:
        raise InvalidQuery("cartesian_map gives one value per combination, no array")
    return Term(f"list_transform({rows}, lambda {row}: {body.sql})", array_of(body.type))


@function("fold", "cartesian_fold")
def _fold(compiler: Compiler, tree: Call) -> Term:
    """What a lambda makes of each member and the value so far, beginning with the last argument."""
    rows, members, row = _combined(compiler, tree, tree.arguments[1:-1])
    lambda_, first = _lambda(tree), compiler.value(tree.arguments[-1])
    state = compiler.session.fresh("x")

    def step(type_: SqlType) -> Term:
        return plain(compiler.inside(lambda_, *members, Term(f"{state}.acc", type_)).value(lambda_.body))

    type_ = first.type if not first.is_null else VARCHAR
    # The value so far may be wider than the first one: a fold of doubles that begins with 0.
    wider = common_type(type_, step(type_).type)
    if wider is None:
        raise InvalidQuery(f"{tree.name} makes {step(type_).type.druid} of {type_.druid}")
    kept = "".join(f", m{at} := {row}.m{at}" for at in range(len(members)))
    nothing = "".join(f", m{at} := CAST(NULL AS {one.type.duckdb})" for at, one in enumerate(members))
    start = f"CAST({cast_to(first, wider).sql} AS {wider.duckdb})"
    given = f"list_transform({rows}, lambda {row}: struct_pack(acc := {start}{kept}))"
    next_ = f"CAST({cast_to(step(wider), wider).sql} AS {wider.duckdb})"
    reduced = f"lambda {state}, {row}: struct_pack(acc := {next_}{kept})"
    folded = f"list_reduce({given}, {reduced}, struct_pack(acc := {start}{nothing})).acc"
    return Term(f"(CASE WHEN len({rows}) > 0 THEN {folded} WHEN {rows} IS NOT NULL THEN {start} END)", wider)


@function("array_quantile")
def _quantile(compiler: Compiler, tree: Call) -> Term:
    """As ARRAY_QUANTILE, but of a rank out of range none."""
    operand, rank = (compiler.value(argument) for argument in tree.arguments)
    if not isinstance(rank.value, int | float) or operand.family is not Family.ARRAY:
        raise InvalidQuery("array_quantile takes an array and a constant rank from 0 to 1")
    return call(compiler.session, "ARRAY_QUANTILE", operand, rank) if 0 <= rank.value <= 1 else t.null(DOUBLE)


@function("subtract_months")
def _months_between(compiler: Compiler, tree: Call) -> Term:
    """Whole months from the second time to the first, on a zone's calendar."""
    later, earlier, zone = (compiler.value(argument) for argument in tree.arguments)
    if not isinstance(zone.value, str):
        raise InvalidQuery("subtract_months takes the zone as a constant text")
    sides = [cal.stamp(cal.local(as_long(as_number(one)).sql, known_zone(zone.value))) for one in (earlier, later)]
    return t.call("datesub", BIGINT, "'month'", *sides)


@function("complex_decode_base64", "decode_base64_complex")
def _decoded(compiler: Compiler, tree: Call) -> Term:
    return call(compiler.session, "DECODE_BASE64_COMPLEX", *(compiler.value(argument) for argument in tree.arguments))


@function("hyper_unique", "hyper_unique_add")
def _collector(compiler: Compiler, tree: Call) -> Term:
    raise UnsupportedQuery(f"the expression function {tree.name!r} is not supported: use the aggregator hyperUnique")


@function("hll_sketch_estimate", "theta_sketch_estimate", "hyper_unique_estimate", "hyper_unique_round_estimate")
def _estimate(compiler: Compiler, tree: Call) -> Term:
    """What a sketch estimates; of a column or of an aggregate that is a sketch."""
    kind = SketchKind.THETA if tree.name.startswith("theta") else SketchKind.HLL
    of, *rest = tree.arguments
    if isinstance(of, Identifier) and of.name not in compiler.bound and compiler.sketch is not None:
        # Elsewhere the name of an aggregate means its estimate.
        operand = compiler.sketch(of.name)
    else:
        operand = compiler.value(of)
    rounding = [compiler.value(argument) for argument in rest]
    estimate = s.estimated(compiler.session, kind, s.sketch_argument(operand, kind, tree.name))
    if tree.name == "hyper_unique_round_estimate":
        return Term(f"CAST(round({estimate}) AS BIGINT)", BIGINT)
    is_rounded = bool(rounding) and rounding[0].value in (1, True, "true")
    return t.call("round", DOUBLE, estimate) if is_rounded else Term(estimate, DOUBLE)
