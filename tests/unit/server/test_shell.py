"""The prompt's parts that need no service: where statements end, what completes a word, how rows look."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from server.cli import app
from server.shell.completion import Candidates, Names
from server.shell.rendering import rendered
from server.shell.statements import is_blank, placed, split

ROWS = [(1, 'é "x"', None), (22, "a,b\nc", 0.5)]
NAMES = ["n", "text", "real"]


@pytest.mark.parametrize(
    ("typed", "whole", "rest"),
    [
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 1; SELECT 2; SEL", ["SELECT 1", "SELECT 2"], " SEL"),
        ("SELECT ';' AS \"a;b\" -- no; end\n, 2;", ["SELECT ';' AS \"a;b\" -- no; end\n, 2"], ""),
        ("SELECT 'it''s; ' /* ; */;", ["SELECT 'it''s; ' /* ; */"], ""),
        (";;-- nothing\n;", [], ""),
        ("SELECT 'open;", [], "SELECT 'open;"),
        ("SELECT 1 /* open;", [], "SELECT 1 /* open;"),
    ],
)
def test_statements_end_at_semicolons_outside_of_texts_names_and_remarks(
    typed: str, whole: list[str], rest: str
) -> None:
    assert split(typed) == (whole, rest)


def test_a_place_in_a_statement_is_told_as_one_of_its_file() -> None:
    first, second, third = placed("-- two\nSELECT 1;\n\n  SELECT\n nix;SELECT x; ;\n")
    assert (first.text, first.place(2, 8)) == ("-- two\nSELECT 1", (2, 8))
    assert second.told("'nix' not found (line [2], column [2])") == "'nix' not found (line [5], column [2])"
    assert second.told("the bracket of line 1, column 3 is open") == "the bracket of line 4, column 5 is open"
    assert third.told("at line [1], column [8]") == "at line [5], column [13]"


@given(st.text(alphabet="a ;'\"-/*\n", max_size=40))
def test_what_is_typed_in_pieces_ends_where_it_ends_in_one(typed: str) -> None:
    whole, rest = split(typed)
    assert all(not is_blank(one) for one in whole) and typed.endswith(rest)
    found, left = [], ""
    for line in typed.splitlines(keepends=True):
        more, left = split(left + line)
        found += more
    assert (found, left) == (whole, rest)
    places = placed(typed)
    assert [each.text for each in places] == whole + ([] if is_blank(rest) else [rest.strip()])
    lines = typed.split("\n")
    assert all(lines[p.lines][p.letters :].startswith(p.text.split("\n")[0]) for p in places)


def candidates() -> Candidates:
    names = Names(
        ["wikipedia", "My Table"], {"wikipedia": ["__time", "user", "added"], "My Table": ["Odd Name"]}, ["SUM"]
    )
    return Candidates(lambda: names, ["\\d", "\\q"])


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("SELECT * FROM wi", ["wikipedia"]),
        ("SELECT * FROM ", ["wikipedia", '"My Table"', "INFORMATION_SCHEMA.TABLES"]),
        ("SELECT us", ["user"]),
        ("sel", ["SELECT"]),
        ("SELECT su", ["SUM"]),
        ("\\", ["\\d", "\\q"]),
        ("\\q", ["\\q"]),
        ("SELECT 1, ", []),
    ],
)
def test_words_are_completed_by_where_they_stand(before: str, expected: list[str]) -> None:
    assert candidates().of(before)[1][: len(expected)] == expected


def test_columns_are_those_of_the_tables_that_the_statement_names() -> None:
    before = 'SELECT "'
    word, found = candidates().of(before, before + ' FROM "My Table"')
    assert word == '"' and found[0] == '"Odd Name"' and '"added"' not in found
    assert candidates().of("SELECT w.a", "SELECT w.a FROM wikipedia w")[1][0] == "added"


def test_each_format_holds_every_value() -> None:
    written = {name: "".join(rendered(ROWS, NAMES, name)) for name in ("table", "vertical", "csv", "json", "lines")}
    assert written["csv"] == 'n,text,real\n1,"é ""x""",\n22,"a,b\nc",0.5\n'
    assert json.loads(written["json"]) == [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    assert [json.loads(line) for line in written["lines"].splitlines()] == json.loads(written["json"])
    assert written["vertical"].startswith('-- row 1\n   n  1\ntext  é "x"\nreal  null\n-- row 2\n')
    assert "\x1b" not in written["table"] and written["table"].splitlines()[0].split() == NAMES
    assert (
        json.loads("".join(rendered([], NAMES, "json"))) == []
        and "".join(rendered([], NAMES, "csv")) == "n,text,real\n"
    )


def test_times_and_wide_sums_are_told_as_the_service_tells_them() -> None:
    row = (
        datetime.datetime(2024, 1, 2, 3, 4, 5, 678_000, datetime.UTC),
        datetime.date(2024, 1, 2),
        Decimal(2**70),
        ["a"],
    )
    [line] = rendered([row], ["t", "d", "s", "l"], "lines")
    assert json.loads(line) == {"t": "2024-01-02T03:04:05.678Z", "d": "2024-01-02", "s": 2**70, "l": ["a"]}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--csv", "--json"], "different formats"),
        (["--format", "xml"], "none of table"),
        (["--context", "zone"], "KEY=VALUE"),
    ],
)
def test_options_that_make_no_sense_are_one_line(words: list[str], told: str) -> None:
    done = CliRunner().invoke(app, ["query", "SELECT 1", "--url", "http://127.0.0.1:9", *words])
    assert done.exit_code == 2 and told in done.output and len(done.output.splitlines()) == 1
