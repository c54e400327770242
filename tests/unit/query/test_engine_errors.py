"""What the engine says of a statement, told as whose fault it is: of a real worker, by kind of error."""

from __future__ import annotations

import pytest

from query.engine import Engine
from query.errors import InvalidQuery, QueryError, UnsupportedQuery


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("SELECT (SELECT x FROM (VALUES (1), (2)) AS v(x))", InvalidQuery),
        ("SELECT format('{:z}', 'a')", InvalidQuery),
        ("SELECT 9223372036854775807 + x FROM (VALUES (1::BIGINT)) AS v(x)", InvalidQuery),
        ("SELECT x FROM (VALUES (1)) AS v(x) WHERE (SELECT avg(x)) > 0", UnsupportedQuery),
    ],
)
def test_what_the_engine_cannot_do_with_a_statement_is_no_fault_of_the_service(
    engine: Engine, statement: str, kind: type[QueryError]
) -> None:
    with pytest.raises(kind):
        list(engine.run(statement, (), 0).batches())
