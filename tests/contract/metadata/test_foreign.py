"""Pairs of somebody else's table: read as texts, never written to, never from files outside the allowed folders."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.metadata.foreign import ForeignTable, ForeignUnreadable, newest_time, pairs
from tests.contract.metadata.conftest import administer

ROWS = "('CH', 'Switzerland', 1), ('JP', 'Japan', 2), ('XX', NULL, 3), ('42', '7', 3)"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.integration)])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ForeignTable]:
    if request.param == "sqlite":
        path = tmp_path / "shop ?%.db"
        with closing(sqlite3.connect(path)) as database:
            database.execute('CREATE TABLE "the countries" (code, name, "at" INTEGER)')
            database.execute(f'INSERT INTO "the countries" VALUES {ROWS}')
            database.commit()
        yield ForeignTable(f"jdbc:sqlite:{path}", "", "", "the countries", "code", "name", "at")
        return
    make: Callable[[str], str] = request.getfixturevalue("new_url")
    url = make("postgres")
    administer(
        url,
        'CREATE TABLE "the countries" (code text, name text, "at" int)',
        f'INSERT INTO "the countries" VALUES {ROWS}',
    )
    address = "jdbc:" + url.replace("+psycopg2", "")
    yield ForeignTable(address, "", "", "public.the countries", "code", "name", "at")
    administer(url, 'DROP TABLE "the countries"')  # the database goes back to other tests


def test_pairs_are_texts_and_nulls_are_left_out(table: ForeignTable, tmp_path: Path) -> None:
    assert sorted(pairs(table, [tmp_path])) == [("42", "7"), ("CH", "Switzerland"), ("JP", "Japan")]
    some = replace(table, filter="name LIKE 'S%' OR code = 'a:b'")
    assert list(pairs(some, [tmp_path])) == [("CH", "Switzerland")]


def test_the_newest_time_tells_of_changes(table: ForeignTable, tmp_path: Path) -> None:
    assert newest_time(table, [tmp_path]) == "3"
    assert newest_time(replace(table, time_column=""), [tmp_path]) == ""


def test_a_filter_cannot_change_anything(table: ForeignTable, tmp_path: Path) -> None:
    with pytest.raises(ForeignUnreadable):
        list(pairs(replace(table, filter='1 = 1); DELETE FROM "the countries"; SELECT (1'), [tmp_path]))
    assert len(list(pairs(table, [tmp_path]))) == 3


def test_what_cannot_be_read_is_named_without_the_password(table: ForeignTable, tmp_path: Path) -> None:
    with pytest.raises(ForeignUnreadable, match=r"table 'nothing': .*nothing"):
        list(pairs(replace(table, table="nothing"), [tmp_path]))
    away = replace(table, url="jdbc:postgresql://user:hidden@127.0.0.1:1/shop", password="hidden")
    with pytest.raises(ForeignUnreadable, match=r"127\.0\.0\.1:1/shop") as refused:
        list(pairs(away, [tmp_path]))
    assert "hidden" not in str(refused.value)


def test_a_sqlite_file_outside_the_allowed_folders_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    outside = ForeignTable(f"jdbc:sqlite:{tmp_path}/in/../secret.db", "", "", "t", "k", "v")
    with pytest.raises(ForeignUnreadable, match="outside the folders"):
        list(pairs(outside, [tmp_path / "in"]))
    assert not (tmp_path / "secret.db").exists()
