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
from tests.contract.metadata.world import World
from tests.servers.fixtures import fresh_name
from tests.servers.postgres import Postgres

SQL_KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.integration)]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite file; a copy takes a millisecond, a migration half a second."""
    path = tmp_path_factory.mktemp("metadata") / "template.db"
    migrate(f"sqlite:///{path}")
    return path


def administer(server: Postgres, statement: str) -> None:
    """Runs one statement outside of any transaction."""
    with closing(psycopg2.connect(server.dsn())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)


@pytest.fixture(scope="session")
def postgres_template(postgres: Postgres) -> str:
    """A migrated, empty database to copy from."""
    name = fresh_name("template")
    administer(postgres, f"CREATE DATABASE {name}")
    migrate(postgres.url(name))
    return name


@pytest.fixture
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Makes the URL of a migrated, empty database of a kind; PostgreSQL's are dropped after the test."""
    made: list[str] = []

    def make(kind: str) -> str:
        if kind == "sqlite":
            path = tmp_path / "metadata.db"
            shutil.copy(request.getfixturevalue("sqlite_template"), path)
            return f"sqlite:///{path}"
        server = request.getfixturevalue("postgres")
        name = fresh_name("store")
        administer(server, f"CREATE DATABASE {name} TEMPLATE {request.getfixturevalue('postgres_template')}")
        made.append(name)
        return str(server.url(name))

    yield make
    for name in made:
        administer(request.getfixturevalue("postgres"), f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["memory", *SQL_KINDS])
def store(request: pytest.FixtureRequest, new_url: Callable[[str], str]) -> Iterator[MetadataStore]:
    """An empty store of each kind, closed after the test."""
    if request.param == "memory":
        yield MemoryMetadataStore()
        return
    opened = open_store(new_url(request.param))
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
