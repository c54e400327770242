"""The store under test: memory and SQLite in the fast set, PostgreSQL as integration."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.schema import migrate
from ingest.metadata.sql import open_store
from ingest.metadata.store import MetadataStore
from ingest.metadata.tables import metadata
from tests.contract.metadata.world import World
from tests.servers.fixtures import fresh_name
from tests.servers.postgres import Postgres

# Of the leader, by which a session's limits are chosen: no test here waits for it, and on a busy machine a thread may
# stand still for seconds in the middle of a transaction.
PATIENT_MS = 60_000
SQL_KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.integration)]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite file; a copy takes a millisecond, a migration half a second."""
    path = tmp_path_factory.mktemp("metadata") / "template.db"
    migrate(f"sqlite:///{path}")
    return path


def administer(url: str, *statements: str) -> None:
    """Runs statements outside of any transaction of the store."""
    with closing(psycopg2.connect(url.replace("+psycopg2", ""))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@pytest.fixture(scope="session")
def postgres_database(postgres: Postgres) -> str:
    """One migrated database for all tests: emptying it takes a tenth of making another."""
    name = fresh_name("store")
    administer(postgres.url(), f"CREATE DATABASE {name}")
    migrate(postgres.url(name))
    return str(postgres.url(name))


def emptied(url: str) -> str:
    """The database as its first migration left it; sessions that a test left open are ended."""
    administer(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        f"TRUNCATE {', '.join(metadata.tables)} RESTART IDENTITY",
        "INSERT INTO leadership (id, generation, database_id) VALUES (1, 0, md5(random()::text))",
        "INSERT INTO leader_heartbeat (id, generation, beats) VALUES (1, 0, 0)",
    )
    return url


@pytest.fixture
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Gives the URL of a migrated, empty database of a kind."""

    def make(kind: str) -> str:
        if kind == "postgres":
            return emptied(request.getfixturevalue("postgres_database"))
        path = tmp_path / "metadata.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        return f"sqlite:///{path}"

    return make


@pytest.fixture(params=["memory", *SQL_KINDS])
def store(request: pytest.FixtureRequest, new_url: Callable[[str], str]) -> Iterator[MetadataStore]:
    """An empty store of each kind, closed after the test."""
    if request.param == "memory":
        yield MemoryMetadataStore()
        return
    opened = open_store(new_url(request.param), lease_ms=PATIENT_MS)
    yield opened
    opened.close()


@pytest.fixture(params=SQL_KINDS)
def sql_url(request: pytest.FixtureRequest, new_url: Callable[[str], str]) -> str:
    """The URL of a migrated, empty database of each kind."""
    return new_url(request.param)


@pytest.fixture
def world(store: MetadataStore) -> World:
    """The store with a leader, a running supervisor, and partitions 0 and 1 at offset 0."""
    world = World(store)
    world.start()
    return world
