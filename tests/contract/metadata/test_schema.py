"""The schema: what migrations make is what the tables say, and another schema is refused with its cure."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from ingest.errors import StoreSchemaError
from ingest.metadata.engine import open_engine
from ingest.metadata.schema import HEAD, migrate
from ingest.metadata.sql import open_store
from ingest.metadata.tables import metadata
from tests.contract.metadata.conftest import administer


def change_revision(url: str, revision: str) -> None:
    engine = open_engine(url, 10_000)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :r"), {"r": revision})
    engine.dispose()


def test_migrations_make_exactly_the_tables_that_the_code_uses(sql_url: str) -> None:
    engine = open_engine(sql_url, 10_000)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_the_newest_migration_is_the_one_the_code_asks_for() -> None:
    config = Config()
    config.set_main_option("script_location", "migrations:")
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [HEAD]
    revisions = [revision.revision for revision in script.walk_revisions()]
    assert all(len(revision) == 4 and revision.isdecimal() for revision in revisions), "compared as text"


def test_every_table_is_described_for_people() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "metadata.md").read_text(encoding="utf-8")
    assert [name for name in metadata.tables if f"| `{name}` |" not in page] == []


def test_migrating_again_changes_nothing(sql_url: str) -> None:
    assert migrate(sql_url) == (HEAD, HEAD)
    with closing(open_store(sql_url)) as store:
        store.check()


def test_a_newer_schema_is_refused_and_says_what_to_do(sql_url: str) -> None:
    change_revision(sql_url, "9999")
    try:
        with pytest.raises(StoreSchemaError, match=f"schema 9999, newer than {HEAD} .* upgrade siltstone"):
            open_store(sql_url)
        with pytest.raises(StoreSchemaError, match="newer"):
            migrate(sql_url)
    finally:
        change_revision(sql_url, HEAD)


def test_an_older_schema_is_refused_with_its_cure(sql_url: str) -> None:
    change_revision(sql_url, "0000")
    try:
        with pytest.raises(StoreSchemaError, match=f"older than {HEAD}; stop the servers and run `siltstone migrate`"):
            open_store(sql_url, create=True)
    finally:
        change_revision(sql_url, HEAD)


def test_an_empty_sqlite_database_is_made_only_when_asked(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/deep/down/metadata.db"
    with pytest.raises(StoreSchemaError, match="is empty; run `siltstone migrate` once"):
        open_store(url)
    with closing(open_store(url, create=True)) as store:
        assert store.leadership() is None and store.datasources() == []
    with closing(open_store(url)) as store:
        store.check()


@pytest.mark.integration
def test_an_empty_postgresql_database_is_never_migrated_by_a_server(postgres_url: str) -> None:
    with pytest.raises(StoreSchemaError, match="is empty; run `siltstone migrate` once"):
        open_store(postgres_url, create=True)
    assert migrate(postgres_url) == (None, HEAD)
    with closing(open_store(postgres_url)) as store:
        store.check()


@pytest.mark.integration
def test_servers_that_migrate_at_once_wait_for_each_other(postgres_url: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        done = sorted(pool.map(migrate, [postgres_url] * 3), key=str)
    assert done.count((None, HEAD)) == 1 and done.count((HEAD, HEAD)) == 2


@pytest.mark.integration
def test_a_table_that_somebody_dropped_is_called_a_missing_schema(new_url: Callable[[str], str]) -> None:
    url = new_url("postgres")
    with closing(open_store(url)) as store:
        administer(url, "ALTER TABLE nodes RENAME TO gone")
        try:
            with pytest.raises(StoreSchemaError, match="run `siltstone migrate`"):
                store.nodes()
        finally:
            administer(url, "ALTER TABLE gone RENAME TO nodes")
