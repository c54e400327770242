"""Whatever is planned, the engine accepts: no statement ends in an error that the planner should have told."""

import duckdb
import pytest

from query.errors import TOO_LONG, QueryError
from tests.unit.query.rows import ask, table
from tests.unit.query.statements import Statements

ROWS = table(
    __time=["2024-03-10T10:00:00Z", "2024-01-31"],
    s=["7", "ab,c"],
    S=["x", None],
    mv=[["a", "b"], None],
    n=[3, -5],
    d=[1.5, None],
)
OF_VALUES = (duckdb.OutOfRangeException, duckdb.ConversionException)
"""What only the rows can bring about: a number that overflows, a text that grows beyond all bounds or is no JSON."""

OF_ROWS = ("SINGLE_VALUE of more than one row", TOO_LONG, "Out of Range Error")
"""The same by the words of an error that has no type of its own."""


def run(seed: int, count: int) -> tuple[int, list[str]]:
    statements, answered, broken = Statements(seed), 0, []
    for _ in range(count):
        statement = statements.statement()
        try:
            ask(statement, ROWS)
            answered += 1
        except (QueryError, *OF_VALUES):
            continue
        except Exception as error:
            if any(words in str(error) for words in OF_ROWS):
                continue
            broken.append(f"{statement}\n    {type(error).__name__}: {error}")
    return answered, broken


def test_the_engine_accepts_what_is_planned() -> None:
    answered, broken = run(seed=20241129, count=250)
    assert not broken, "\n".join(broken)
    assert answered > 50


@pytest.mark.slow
def test_the_engine_accepts_what_is_planned_for_many_statements() -> None:
    answered, broken = run(seed=1, count=20_000)
    assert not broken, "\n".join(broken[:20])
    assert answered > 4_000
