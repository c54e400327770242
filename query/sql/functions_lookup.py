"""The rule for LOOKUP: the value that a lookup has for a key."""

from __future__ import annotations

from query.errors import InvalidQuery
from query.sql import term as t
from query.sql.casts import as_string
from query.sql.frame import Frame, Session, scalar
from query.sql.functions_time import constant_text
from query.sql.term import Term
from query.sql.types import VARCHAR


@scalar("LOOKUP", least=2, most=3)
def _lookup(frame: Frame, terms: list[Term]) -> Term:
    found = looked_up(
        frame.session, as_string(terms[0], frame.zone), constant_text(terms[1], "the lookup's name in LOOKUP")
    )
    if len(terms) == 2 or terms[2].is_null:
        return found
    if not terms[2].is_constant:
        raise InvalidQuery("the replacement of missing values in LOOKUP is a constant")
    return t.call("coalesce", VARCHAR, found.sql, as_string(terms[2], frame.zone).sql)


def looked_up(session: Session, key: Term, lookup: str) -> Term:
    """The lookup's value of a text; NULL where it has none.

    Raises:
        UnknownName: there is no such lookup.
    """
    return t.call(session.lookup_function(lookup), VARCHAR, key.sql)
