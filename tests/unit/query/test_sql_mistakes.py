"""Typing errors: each is refused in Druid's class, with its place, the word and the cure."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from query.errors import InvalidQuery, QueryError, SqlParseError
from tests.unit.query.rows import planned
from tests.unit.query.statements import Statements

RECORDED: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "druid_mistakes.jsonl").read_text(encoding="utf-8").splitlines()
]
"""Statements with typing errors, and how a running Druid 33 refused them; a few that are right."""
ACCEPTED = {
    "SELECT server FROM sys.servers WHERE server IN ()": "nothing is in an empty list",
    "SELECT SUM(server) FROM sys.servers": "a text that is no number is null; Druid fails with 500",
    "SELECT server + 1 FROM sys.servers": "a text that is no number is null; Druid fails with 500",
    "SELECT 1 / 0": "null; Druid fails with 500",
    "SELECT server FROM sys.servers WHERE plaintext_port": "a number that is not 0 is true",
    "SELECT server FROM sys.servers;": "a semicolon may end the statement",
    "SELECT server AS 'x' FROM sys.servers": "a name may stand in single quotes",
    "SELECT server AS order FROM sys.servers": "after AS a keyword is a name",
    "SELECT RANK() OVER () FROM sys.servers": "all rows have the same rank",
    "SELECT server::VARCHAR FROM sys.servers": "a cast, as elsewhere",
}
REFUSED = {
    "SELECT server FROM sys.servers WHERE server = ?": "a parameter is needed for each ?",
    "SELECT 1e": "Druid reads 1",
}


@pytest.mark.parametrize("one", RECORDED, ids=lambda one: str(one["statement"]))
def test_a_mistake_is_refused_in_druids_class_with_its_place(one: dict[str, Any]) -> None:
    statement = one["statement"]
    if statement in ACCEPTED or (one["status"] == 200 and statement not in REFUSED):
        planned(statement)
        return
    with pytest.raises(InvalidQuery) as found:
        planned(statement)
    error = found.value
    assert (error.status, error.error_code, error.persona, error.category) == (
        400, "invalidInput", "USER", "INVALID_INPUT",
    )  # fmt: skip
    if statement not in REFUSED:
        assert one["errorCode"] == "invalidInput" and one["category"] == "INVALID_INPUT"
        place = f"(line [{error.context['line']}], column [{error.context['column']}])"
        assert place in error.message


@pytest.mark.parametrize(
    ("statement", "place", "told"),
    [
        ("SELEC n FROM t", (1, 1), "'SELEC'; did you mean 'SELECT'?"),
        ("  n FROM t", (1, 3), "no query begins with 'n'; expected SELECT"),
        ("FROM t SELECT n", (1, 1), "a query begins with SELECT"),
        ("SELECT (FROM t)", (1, 9), "a query begins with SELECT"),
        ("SELECT n FORM t", (1, 10), "'FORM': did you mean FROM?"),
        ("SELECT n\nFROM t\nWERE n = 1", (3, 1), "did you mean WHERE?"),
        ("SELECT n FROM t WHERE n = 1 ADN n = 2", (1, 29), "did you mean AND?"),
        ("SELECT n FROM t LIMT 5", (1, 17), "did you mean LIMIT?"),
        ("SELECT n s d FROM t", (1, 12), "expected an operator, a comma, AS or FROM"),
        ("SELECT n FROM t WHERE s = 'a", (1, 27), "the text that begins here has no end: ' is missing"),
        ('SELECT n FROM t WHERE s = "a', (1, 27), 'the name that begins here has no end: " is missing'),
        ("SELECT n FROM t\n/* why", (2, 1), "the comment that begins here has no end: */ is missing"),
        ("SELECT n,, s FROM t", (1, 9), "nothing stands between ',' and ','; expected an expression"),
        ("SELECT n, FROM t", (1, 9), "nothing stands between ',' and 'FROM'"),
        ("SELECT COUNT(* FROM t", (1, 16), "the bracket of line 1, column 13 is still open"),
        ("SELECT n + 1) FROM t", (1, 13), "it closes a bracket that nothing opened"),
        ("SELECT n FROM t WHERE", (1, 17), "the statement ends after 'WHERE'; expected a condition"),
        ("SELECT n FROM t WHERE n = 1 AND", (1, 29), "the statement ends after 'AND'; expected a condition"),
        ("SELECT n FROM t WHERE AND n = 1", (1, 17), "nothing stands between 'WHERE' and 'AND'"),
        ("SELECT n FROM t WHERE n = 1 OR OR n = 2", (1, 29), "nothing stands between 'OR' and 'OR'"),
        ("SELECT n FROM t WHERE n = 1 AND;", (1, 29), "the statement ends after 'AND'"),
        ("SELECT n FROM t WHERE n == 1", (1, 25), "values are compared with a single ="),
        ("SELECT n FROM t WHERE !n", (1, 23), "a condition is turned round with NOT"),
        ("SELECT n FROM t WHERE n = 1 && n = 2", (1, 29), "conditions are joined by AND"),
        ("SELECT n FROM t LIMIT x", (1, 23), "LIMIT takes a whole number"),
        ("SELECT n FROM t LIMIT 5, 10", (1, 24), "rows are skipped by OFFSET: LIMIT … OFFSET 5"),
        ("SELECT n FROM t FETCH 5 ROWS", (1, 23), "expected FIRST or NEXT"),
        ("SELECT `n` FROM t", (1, 8), "names are quoted with double quotes"),
        ("SELECT [n] FROM t", (1, 8), "names are quoted with double quotes"),
        ("SELECT n FROM t WHERE s = ‘a’", (1, 27), "a text stands in straight quotes"),
        ("SELECT TOP 5 n FROM t", (1, 8), "the number of rows stands at the end: LIMIT 5"),
        ("SELECT N FROM t", (1, 8), "Column 'N' not found in any table; did you mean 'n'?"),
        ("SELECT n FROM T", (1, 15), "Table 'T' not found; did you mean 't'?"),
        ("SELECT UPER(s) FROM t", (1, 8), "did you mean 'UPPER'"),
        ("SELECT n FROM t WHERE s = \"a\"", (1, 27), "a text stands in single quotes: 'a'"),
        ("SELECT n FROM t WHERE COUNT(*) > 1", (1, 23), "aggregates are not allowed in WHERE; use HAVING"),
        ("SELECT s, COUNT(*) FROM t", (1, 8), "Expression 's' is not being grouped"),
        ("SELECT SUM(COUNT(*)) FROM t", (1, 12), "aggregates cannot be nested"),
        ("SELECT s FROM t GROUP s", (1, 23), "BY is missing after GROUP"),
        ("SELECT s FROM t ORDER s", (1, 23), "BY is missing after ORDER"),
        ("SELECT s FROM t GROUP BY", (1, 17), "the statement ends after 'GROUP BY'"),
        ("SELECT n FROM t WHERE s IN ('a' 'b')", (1, 33), "two texts stand side by side; expected a comma"),
        ("SELECT n FROM t WHERE s IN 'a'", (1, 28), "IN takes a list in brackets"),
        ("SELECT n FROM t WHERE EXISTS SELECT 1", (1, 30), "the query after EXISTS stands in brackets"),
        ("SELECT n FROM t WHERE n BETWEEN 1", (1, 33), "BETWEEN has no upper bound"),
        ("SELECT CASE WHEN n = 1 THEN 2 FROM t", (1, 31), "expected END after CASE"),
        ("SELECT CAST(n) FROM t", (1, 14), "expected AS after CAST"),
        ("SELECT CAST(n AS INTT) FROM t", (1, 13), "type 'INTT' is unknown; did you mean 'INT'"),
        ("SELECT n FROM t; SELECT 1", (1, 18), "only one statement may be sent at a time"),
        ("SELECT * FROM t JOIN t b", (1, 24), "a JOIN has no condition"),
        ("SELECT * FROM t LEFT JOIN t b WHERE b.n = 1", (1, 31), "a JOIN has no condition"),
        ("SELECT * FROM t a JOIN t b ON", (1, 28), "the statement ends after 'ON'; expected a condition"),
        ("SELECT c.n FROM t", (1, 8), "Table 'c' not found"),
        ("SELECT n FROM t WHERE n = :x", (1, 27), "parameters have no names; expected ?"),
        ("SELECT n FROM t # why", (1, 17), "a comment begins with --"),
        ("SELECT n FROM t WHERE s ILIKE 'a'", (1, 25), "ICONTAINS_STRING"),
        ("WITH a (SELECT 1) SELECT * FROM a", (1, 8), "AS is missing after 'a'"),
        ("WITH a AS (SELECT 1), SELECT * FROM a", (1, 23), "expected a name, AS and a query in brackets"),
        ("SELECT RANK() FROM t", (1, 8), "RANK is a window function: OVER (ORDER BY ...) must follow it"),
        ("SELECT n FROM t WHERE RANK() OVER (ORDER BY n) = 1", (1, 23), "window functions are not allowed in WHERE"),
        ("SELECT n FROM t WHERE s", (1, 23), "a condition is a BOOLEAN, not VARCHAR"),
        ("SELECT NOW()", (1, 8), "Function 'NOW' not found; use CURRENT_TIMESTAMP"),
        ("SELECT IF(n = 1, 2, 3) FROM t", (1, 8), "use CASE WHEN"),
        ("SELECT 1.2.3", (1, 8), "expected a number such as 1.25"),
        ("EXPLAIN SELECT 1", (1, 1), "write EXPLAIN PLAN FOR"),
        ("\nSHOW TABLES", (2, 1), "INFORMATION_SCHEMA.TABLES"),
        ("SET a = 1; DELETE FROM t", (1, 12), "DELETE is not supported"),
        ("", (1, 1), "the statement is empty"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place_and_its_cure(statement: str, place: tuple[int, int], told: str) -> None:
    with pytest.raises(InvalidQuery) as found:
        planned(statement)
    assert told in found.value.message
    assert (int(found.value.context["line"]), int(found.value.context["column"])) == place


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT a.n FROM t a, t b",
        "SELECT \"limit\" FROM (SELECT n AS limit, s AS offset FROM t)",
        "SELECT offset FROM (SELECT n AS offset FROM t) WHERE offset > 1",
        "SELECT JSON_OBJECT('a': 1) FROM t",
        "SELECT POSITION('b' IN 'abc'), POSITION(LOWER(s) IN 'abc'), n IS DISTINCT FROM 1 FROM t",
        "SELECT n IS NOT DISTINCT FROM 1 FROM t",
        "SELECT COUNT(*), TRIM(BOTH 'x' FROM s), EXTRACT(DAY FROM __time) FROM t GROUP BY s, __time",
        "SELECT s NOT LIKE 'a', n NOT IN (1), n NOT BETWEEN 1 AND 2, s IS NOT NULL FROM t -- '",
        "SELECT ARRAY[1, 2], 'it''s', U&'\\00fc', \"n\", -n, - 1.5e3 FROM t /* ' */",
        "SELECT n FROM t CROSS JOIN (SELECT 1) UNION ALL SELECT n FROM t NATURAL JOIN (SELECT n FROM t) LIMIT 5",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_mistake_passes(statement: str) -> None:
    planned(statement)


def test_what_could_stand_there_is_told_to_clients_as_well() -> None:
    with pytest.raises(SqlParseError) as found:
        planned("SELECT n FROM t LIMIT x")
    assert found.value.context["expected"] == "a whole number, or ? for a parameter"
    assert found.value.context["token"] == "x"


def broken(statement: str, random: Random) -> str:
    """The statement with a word lost, doubled, turned round or cut off, or a sign too many."""
    words = re.findall(r"\w+|\s+|[^\w\s]", statement)
    at = random.randrange(len(words))
    word = words[at]
    change = random.randrange(5)
    if change == 0:
        del words[at]
    elif change == 1:
        words.insert(at, random.choice(words))
    elif change == 2:
        words.insert(at, random.choice("()',;\"=!<>[]`‘:#@&|*/%-.\n?{}$\\"))
    elif change == 3:
        words[at] = word[1:2] + word[:1] + word[2:]
    else:
        del words[at:]
    return "".join(words)


def test_whatever_is_broken_is_told_with_a_place_that_is_there() -> None:
    random, whole = Random(20261130), Statements(7)
    for _ in range(150):
        statement = broken(whole.statement(), random)
        try:
            planned(statement)
        except QueryError as error:
            if "line" in error.context:
                line, column = int(error.context["line"]), int(error.context["column"])
                assert 1 <= column <= len([*statement.split("\n"), ""][line - 1]) + 1, statement
            else:
                assert not isinstance(error, SqlParseError), statement
