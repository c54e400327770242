"""Aggregators that are computed in a way of their own: variance, times, and a fold by an expression."""

from __future__ import annotations

from query.errors import InvalidQuery
from query.native.expression_functions import as_type
from query.native.expressions import Compiler, parsed
from query.native.request import Part
from query.native.rows import Rows, plain, small_enough
from query.sql import term as t
from query.sql.casts import as_number, cast_to
from query.sql.frame import Session
from query.sql.term import Term
from query.sql.types import BIGINT, DOUBLE, VARCHAR, Family, SqlType

VARIANCES = {"variance": "var", "varianceFold": "var"}


def variance_sql(rows: Rows, part: Part, suffix: str) -> str:
    """The sample variance, or with ``estimator: population`` that of the population; null where Druid has none."""
    operand = rows.column(part.text("fieldName"))
    if operand.type.multi or operand.family in (Family.ARRAY, Family.COMPLEX):
        raise InvalidQuery(f"{part.path}: {part.type} of a column of {operand.type.druid} is not possible")
    return f"{variance_name(part)}({cast_to(as_number(operand), DOUBLE).sql}){suffix}"


def variance_name(part: Part) -> str:
    """The engine's function for the estimator that is asked for."""
    estimator = part.text_or("sample", "estimator").lower()
    if estimator not in ("sample", "population"):
        raise InvalidQuery(f"{part.at('estimator')}: {estimator!r} is neither sample nor population")
    return "var_pop" if estimator == "population" else "var_samp"


def extreme_time_sql(rows: Rows, part: Part, suffix: str) -> str:
    """The first or last time of a column, in milliseconds."""
    moment = rows.column(part.text_or("__time", "fieldName"))
    name = "min" if part.type == "timeMin" else "max"
    if moment.time_column:
        return f"epoch_ms({name}({moment.time_column}){suffix})"
    return f"{name}({cast_to(as_number(moment), BIGINT).sql}){suffix}"


def fold(rows: Rows, part: Part, suffix: str) -> tuple[str, SqlType]:
    """An accumulator that an expression makes of itself and each row's fields, in no order.

    ``combine`` and ``compare`` are for parts that are computed apart, of which there are none here.

    Raises:
        QueryError: an expression is at fault.
    """
    session, fields = rows.session, part.texts("fields")
    name = part.text_or("__acc", "accumulatorIdentifier")
    initial = _alone(session, part.text("initialValue"), {})
    type_ = VARCHAR if initial.is_null else initial.type
    start = cast_to(initial, type_)
    state, row = session.fresh("x"), session.fresh("x")
    operands = [_field(rows, one) for one in fields]
    members = {
        one: Term(f"{row}.f{at}", operand.type) for at, (one, operand) in enumerate(zip(fields, operands, strict=True))
    }
    next_ = as_type(_alone(session, part.text("fold"), {**members, name: Term(f"{state}.acc", type_)}), type_.druid)
    kept = "".join(f", f{at} := {row}.f{at}" for at in range(len(fields)))
    given = "".join(f", f{at} := {operand.sql}" for at, operand in enumerate(operands))
    empty = "".join(f", f{at} := CAST(NULL AS {operand.type.duckdb})" for at, operand in enumerate(operands))
    first = f"CAST({start.sql} AS {type_.duckdb})"
    lambda_ = f"lambda {state}, {row}: struct_pack(acc := CAST({next_.sql} AS {type_.duckdb}){kept})"
    rows_sql = f"list(struct_pack(acc := {first}{given})){suffix}"
    folded = f"list_reduce({rows_sql}, {lambda_}, struct_pack(acc := {first}{empty})).acc"
    # A group without rows has the accumulator as it began.
    whole = Term(f"(CASE WHEN len({rows_sql}) > 0 THEN {folded} ELSE {first} END)", type_)
    if part.has("finalize"):
        whole = _alone(session, part.text("finalize"), {"o": whole, name: whole})
    found = small_enough(plain(whole))
    return found.sql, found.type


def _field(rows: Rows, name: str) -> Term:
    found = plain(rows.column(name))
    return found if found.family is not Family.NULL else found.typed(VARCHAR)


def _alone(session: Session, text: str, names: dict[str, Term]) -> Term:
    """An expression over these names only; another is null, as a column that nobody has."""
    return plain(Compiler(session, lambda name: names.get(name) or t.null(VARCHAR)).term(parsed(text)))
