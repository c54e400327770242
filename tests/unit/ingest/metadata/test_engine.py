"""How the metadata database is named, opened and spoken of."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from ingest.errors import StoreSchemaError, StoreUnreachable
from ingest.metadata.engine import StoreTimeouts, mask_url, open_engine, parse_url
from ingest.metadata.sql import open_store
from ingest.metadata.sql_session import explain


@pytest.mark.parametrize("url", ["postgresql://u:p@h:5/d", "postgresql+psycopg2://u:p@h:5/d"])
def test_postgresql_is_spoken_to_by_the_driver_we_ship(url: str) -> None:
    assert parse_url(url).drivername == "postgresql+psycopg2"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", "'...' is not a database URL; use sqlite:////"),
        ("postgres q://u:secret@h/d", "'postgres q://...' is not a database URL"),
        ("posgresql://u:secret@h/d", "metadata.url is of kind 'posgresql'"),
        ("mysql+pymysql://u:secret@h/d", "metadata.url is of kind 'mysql'; this service keeps metadata in sqlite:////"),
        ("sqlite://", "names no SQLite file"),
        ("sqlite:///:memory:", "a database in memory dies with the process"),
    ],
)
def test_a_url_that_cannot_work_is_refused_without_its_password(url: str, said: str) -> None:
    with pytest.raises(StoreSchemaError) as caught:
        parse_url(url)
    assert said in str(caught.value) and "secret" not in str(caught.value)


def test_passwords_are_masked_wherever_they_stand() -> None:
    shown = mask_url("postgresql://u:secret@h:5/d?sslpassword=secret&sslmode=require")
    assert "secret" not in shown and "u:***@h:5/d" in shown and "sslmode=require" in shown


def test_sessions_end_before_the_lease_does() -> None:
    for lease_ms in (1_000, 10_000, 60_000):
        limits = StoreTimeouts.below(lease_ms)
        for limit in (limits.statement_ms, limits.idle_in_transaction_ms, limits.tcp_user_ms, limits.lock_ms):
            assert 0 < limit < lease_ms


def test_sqlite_keeps_what_it_committed_and_lets_readers_read(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/metadata.db", 10_000)
    with engine.connect() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    engine.dispose()
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.write_text("this is a text file, and long enough to be looked at" * 10)
    with pytest.raises(StoreUnreachable, match=f"{path}: the file is not a SQLite database; correct metadata.url"):
        open_store(f"sqlite:///{path}")


def test_a_path_that_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match="the file cannot be opened; check the folder and its rights"):
        open_store(f"sqlite:///{tmp_path}")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnreachable, match="the folder cannot be made") as caught:
        open_store(f"sqlite:///{tmp_path}/file/metadata.db", create=True)
    assert caught.value.effect_known_absent


def test_a_store_serves_after_it_was_closed_and_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/metadata.db"
    with closing(open_store(url, create=True)) as store:
        taken = store.take_leadership("a", "a:1", None)
    with closing(open_store(url)) as store:
        assert store.leadership() == taken


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ('connection failed: FATAL:  password authentication failed for user "app"', "user or password"),
        ("connection to server at 1.2.3.4, port 5432 failed: timeout expired", "no answer from the host in time"),
        ("canceling statement due to statement timeout", "the database is overloaded"),
        ("database or disk is full", "make room"),
        ("attempt to write a readonly database", "check its rights"),
        ("something new", "did not answer (something new)"),
    ],
)
def test_what_the_driver_says_comes_with_a_cure(said: str, cure: str) -> None:
    message = explain(OperationalError("SELECT", {}, Exception(said + "\nDETAIL: more")), "sqlite:///x")
    assert cure in message and message.startswith("metadata database sqlite:///x") and "\n" not in message
