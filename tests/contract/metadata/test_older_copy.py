"""A database replaced by an older copy: named, neither read nor written, and well when the newer one is back."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

import pytest
from sqlalchemy.engine import make_url

from ingest.errors import LeadershipLost, StoreUnreachable, StoreWentBack
from ingest.metadata.marks import Marks, Seen
from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.sql import SqlMetadataStore, open_store
from ingest.metadata.store import MetadataStore
from ingest.protocol import PublishOutcome, SequenceRef
from tests.contract.metadata.conftest import PATIENT_MS, SQL_KINDS, administer
from tests.contract.metadata.world import NOON_MS, SUPERVISOR, TABLE, World, at, audit, following
from tests.servers.fixtures import fresh_name
from tests.servers.postgres import Postgres


class Database(Protocol):
    """One that can be copied, and replaced by a copy."""

    url: str

    def copy(self) -> str:
        """Names a copy of the present state."""
        ...

    def put(self, copy: str) -> str:
        """Puts a copy in the present one's place; names what was there."""
        ...


class SqliteFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"sqlite:///{path}"

    def copy(self) -> str:
        name = self._path.with_name(fresh_name("copy"))
        with closing(sqlite3.connect(self._path)) as here, closing(sqlite3.connect(name)) as there:
            here.backup(there)
        return str(name)

    def put(self, copy: str) -> str:
        now = self.copy()
        for tail in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self._path.with_name(self._path.name + tail).unlink()
        Path(copy).rename(self._path)
        return now


class PostgresDatabase:
    def __init__(self, server: Postgres, template: str) -> None:
        self._server = server
        self._name = fresh_name("older")
        self._create(self._name, template)
        self.url = server.url(self._name)

    def _create(self, name: str, template: str) -> None:
        end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{template}'"
        administer(self._server.url(), end, f"CREATE DATABASE {name} TEMPLATE {template}")

    def copy(self) -> str:
        name = fresh_name("copy")
        self._create(name, self._name)
        return name

    def put(self, copy: str) -> str:
        now = fresh_name("was")
        end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self._name}'"
        renames = [f"ALTER DATABASE {old} RENAME TO {new}" for old, new in ((self._name, now), (copy, self._name))]
        administer(self._server.url(), end, *renames)
        return now


@pytest.fixture(params=SQL_KINDS)
def database(request: pytest.FixtureRequest, new_url: Callable[[str], str]) -> Database:
    url = make_url(new_url(request.param))
    assert url.database is not None
    if request.param == "sqlite":
        return SqliteFile(Path(url.database))
    return PostgresDatabase(request.getfixturevalue("postgres"), url.database)


@pytest.fixture
def store(database: Database) -> Iterator[SqlMetadataStore]:
    with closing(open_store(database.url, lease_ms=PATIENT_MS)) as opened:
        yield opened


def replaced(store: SqlMetadataStore, database: Database, copy: str) -> str:
    """The copy takes over, and the connections to what was there end, as they do with its server."""
    now = database.put(copy)
    store.session.engine.dispose()
    return now


def test_a_lost_publish_is_noticed_before_anything_is_read_or_written(
    store: SqlMetadataStore, database: Database
) -> None:
    world = World(store)
    world.start()
    request = world.ready(at(p0=5))
    before = database.copy()
    assert world.publish(request).outcome is PublishOutcome.PUBLISHED
    version = store.table_versions()[TABLE]
    newest = replaced(store, database, before)
    lost = f"table {TABLE} was at version {version} and is at {version - 1}.*older copy"
    for _ in range(2):
        with pytest.raises(StoreWentBack, match=lost) as caught:
            world.publish(request)
        assert caught.value.effect_known_absent and isinstance(caught.value, StoreUnreachable)
        for ask in (store.check, store.leadership, lambda: store.table(TABLE, None), lambda: store.beat(1)):
            with pytest.raises(StoreWentBack, match=lost):
                ask()
    with closing(open_store(database.url)) as stranger:
        assert stranger.ledger(SUPERVISOR, 0, 9) == [], "nothing was written"
    replaced(store, database, newest)
    assert world.publish(request).outcome is PublishOutcome.ALREADY, "well again by itself"


def test_another_database_that_has_gone_further_is_not_taken_for_this_one(
    database: Database, sqlite_template: Path, tmp_path: Path
) -> None:
    note = Marks(tmp_path / "seen.json")
    with closing(open_store(database.url, marks=note)) as store:
        own = store.database_id()
        World(store).start()
    note.save()
    other = tmp_path / "other.db"
    other.write_bytes(sqlite_template.read_bytes())
    with closing(sqlite3.connect(other)) as opened, opened:
        opened.execute("UPDATE leadership SET database_id = 'drawn elsewhere'")
    with closing(open_store(f"sqlite:///{other}")) as store:
        assert store.database_id() == "drawn elsewhere" != own
        World(store).start()
        store.take_leadership("b", "b:1", store.leadership())
    with pytest.raises(StoreWentBack, match=f"it was database {own} and is .*, another one"):
        open_store(f"sqlite:///{other}", marks=Marks(tmp_path / "seen.json"))
    with closing(open_store(database.url, marks=Marks(tmp_path / "seen.json"))) as store:
        assert store.database_id() == own


def test_a_lost_end_of_a_sequence_is_noticed(store: SqlMetadataStore, database: Database) -> None:
    world = World(store)
    world.start()
    ref = world.open(0).ref
    before = database.copy()
    store.seal(world.generation, ref, at(p0=5), following())
    replaced(store, database, before)
    with pytest.raises(StoreWentBack, match="sequence 0 of group .* had an end and has none"):
        store.seal(world.generation, ref, at(p0=7), following())


def test_a_lost_leader_is_noticed(store: SqlMetadataStore, database: Database) -> None:
    world = World(store)
    world.lead()
    before = database.copy()
    store.beat(world.generation)
    replaced(store, database, before)
    with pytest.raises(StoreWentBack, match="2 signs of life, and 1 are there"):
        store.beat(world.generation)
    other = Marks()
    other.note_leader(world.generation + 1)
    with pytest.raises(StoreWentBack, match="generation 2 has led, and 1 is the last there"):
        open_store(database.url, marks=other)


def test_what_lost_nothing_that_was_seen_is_taken(store: SqlMetadataStore, database: Database) -> None:
    world = World(store)
    world.start()
    request = world.ready(at(p0=5))
    replaced(store, database, database.copy())
    assert world.publish(request).outcome is PublishOutcome.PUBLISHED


def test_a_version_that_would_be_given_twice_is_noticed_on_a_connection_that_was_proved(
    store: SqlMetadataStore,
) -> None:
    world = World(store)
    world.start()
    request = world.ready(at(p0=5))
    # As a proxy does that keeps our connection and puts another server behind it.
    store.session.marks.note_versions({TABLE: store.table_versions()[TABLE] + 1})
    with pytest.raises(StoreWentBack, match="would get 2 again"):
        world.publish(request)
    with pytest.raises(StoreWentBack, match="was at version"):
        store.ledger(SUPERVISOR, 0, 9)


def test_a_commit_that_failed_is_never_held_against_the_database(store: SqlMetadataStore) -> None:
    world = World(store)
    world.start()
    old = world.generation
    world.lead("overlord-2")
    with pytest.raises(LeadershipLost):
        store.add_partitions(old, SUPERVISOR, "edits-topic", at(p7=0))
    store.check()
    assert store.table_versions() == dict(store.session.marks.seen().versions)


def test_what_was_seen_survives_a_restart(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    marks = Marks(path)
    with closing(open_store(database.url, marks=marks)) as first:
        world = World(first)
        world.start()
        before = database.copy()
        world = World(first, world.generation)  # connections were ended by the copy
        world.publish(world.ready(at(p0=5)))
        marks.save()
    database.put(before)
    with pytest.raises(StoreWentBack):
        open_store(database.url, marks=Marks(path))
    path.unlink()
    open_store(database.url, marks=Marks(path)).close()


@pytest.fixture(params=["memory", *SQL_KINDS])
def any_store(request: pytest.FixtureRequest, new_url: Callable[[str], str]) -> Iterator[MetadataStore]:
    if request.param == "memory":
        yield MemoryMetadataStore()
        return
    with closing(open_store(new_url(request.param), lease_ms=PATIENT_MS)) as opened:
        yield opened


def test_what_others_have_seen_counts_as_well(any_store: MetadataStore) -> None:
    world = World(any_store)
    world.start()
    version = any_store.table_versions()[TABLE]
    any_store.testify(world.generation, {TABLE: version})
    any_store.testify(0, {})
    with pytest.raises(StoreWentBack, match=f"was at version {version + 1}"):
        any_store.testify(0, {TABLE: version + 1})
    if not isinstance(any_store, MemoryMetadataStore):
        with pytest.raises(StoreWentBack):
            any_store.append_audit(world.generation, audit())


def test_a_leader_that_others_have_seen_counts_as_well(any_store: MetadataStore) -> None:
    world = World(any_store)
    world.start()
    with pytest.raises(StoreWentBack, match="generation 2 has led"):
        any_store.testify(2, {})


def test_marks_that_cannot_be_read_or_written_are_none(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    marks = Marks(path)
    marks.note_versions({"a": 3, "b": 1})
    marks.note_leader(4, 9)
    marks.note_sealed(SequenceRef("s", 2, 5))
    marks.save()
    assert Marks(path).seen() == marks.seen() == Seen(4, 9, {"a": 3, "b": 1}, {("s", 2): 5})
    marks.note_leader(4, 10)
    marks.save()
    assert Marks(path).seen().beats == 9, "a sign of life alone is not worth a write"
    marks.note_leader(4, 40)
    marks.save()
    assert Marks(path).seen() == marks.seen()
    for broken in (b"", b"[]", b'{"generation": 1}', b"\xff"):
        path.write_bytes(broken)
        assert Marks(path).seen() == Seen()
    Marks(tmp_path / "no" / "folder.json").save()


def test_marks_only_grow_whoever_notes_them() -> None:
    marks = Marks()

    def note(number: int) -> None:
        for version in range(number, 300, 7):
            marks.note_versions({"a": version})
            marks.note_leader(version, NOON_MS - version)

    threads = [threading.Thread(target=note, args=(number,)) for number in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert marks.seen() == Seen(299, NOON_MS, {"a": 299})
