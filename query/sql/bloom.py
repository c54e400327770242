"""What SQL and native queries share about Bloom filters: how they are made of values, and how values are looked up."""

from __future__ import annotations

import base64

from query.errors import InvalidQuery
from query.kernels.bloom import MAX_ENTRIES, read_filter
from query.sql import term as t
from query.sql.casts import as_string, cast_to
from query.sql.frame import Session
from query.sql.multi_value import is_missing
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, VARCHAR, Family, SqlType

BLOOM_TYPE = SqlType("OTHER", element="bloom")


def bloom_sql(session: Session, operand: Term, entries: int, suffix: str, name: str) -> str:
    """The aggregate that makes the filter of an operand's values, nulls among them; of a list each member's.

    Raises:
        InvalidQuery: a filter cannot hold such values, or so many.
    """
    if not 1 <= entries <= MAX_ENTRIES:
        raise InvalidQuery(f"{name}: a filter is for 1 to {MAX_ENTRIES} values, not {entries}")
    if operand.type.multi:
        # A row without members counts as one null.
        member = session.fresh("x")
        members = f"CASE WHEN {is_missing(operand)} THEN [CAST(NULL AS VARCHAR)] ELSE {operand.sql} END"
        mark = mark_sql(session, Term(member, VARCHAR), name)
        marks = f"list_distinct(flatten(list(list_transform({members}, lambda {member}: {mark})){suffix}))"
    else:
        # Eight bytes of each different value are held, not the values.
        marks = f"list(DISTINCT {mark_sql(session, operand, name)}){suffix}"
    return f"{session.kernel('bloom_of_marks')}(CAST({entries} AS BIGINT), {marks})"


def mark_sql(session: Session, operand: Term, name: str) -> str:
    """What a filter knows of one value.

    Raises:
        InvalidQuery: nothing of such a type.
    """
    if operand.family in (Family.ARRAY, Family.COMPLEX):
        raise InvalidQuery(f"{name} of {operand.type.druid} is not possible")
    if operand.type == FLOAT:
        return f"{session.kernel('bloom_marks_of_floats')}({operand.sql})"
    if operand.family is Family.DOUBLE:
        return f"{session.kernel('bloom_marks_of_doubles')}({cast_to(operand, DOUBLE).sql})"
    if operand.family in (Family.LONG, Family.TIME, Family.BOOLEAN):
        return f"{session.kernel('bloom_marks_of_longs')}({cast_to(operand, BIGINT).sql})"
    return f"{session.kernel('bloom_marks_of_texts')}({as_string(operand).sql})"


def held_sql(session: Session, operand: Term, filter_: object, name: str) -> Term:
    """Whether a filter in base64 may hold a value; of a multi-value string, whether it may hold any member.

    Raises:
        InvalidQuery: it is no filter.
    """
    found = read_filter(filter_) if isinstance(filter_, str) else None
    if found is None:
        raise InvalidQuery(f"{name} needs a Bloom filter in base64, as BLOOM_FILTER gives it")
    kernel, text = session.kernel("bloom_holds"), t.text_sql(base64.b64encode(found).decode())
    if not operand.type.multi:
        return t.call(kernel, BOOLEAN, text, mark_sql(session, operand, name))
    member = session.fresh("x")
    test = f"{kernel}({text}, {mark_sql(session, Term(member, VARCHAR), name)})"
    nothing = f"{kernel}({text}, {mark_sql(session, t.null(VARCHAR), name)})"
    some = f"len(list_filter({operand.sql}, lambda {member}: {test})) > 0"
    return t.expression(f"CASE WHEN {is_missing(operand)} THEN {nothing} ELSE {some} END", BOOLEAN)
