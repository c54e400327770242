"""What holds when several threads and several processes' connections write at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import TypeVar

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.errors import LeadershipLost
from ingest.metadata import tables as t
from ingest.metadata.engine import WRITING
from ingest.metadata.sql import SqlMetadataStore, open_store
from ingest.metadata.sql_base import leading_generation
from ingest.metadata.sql_streams import is_sequence, lock_stream
from ingest.metadata.store import MetadataStore, StoreConflict
from ingest.protocol import PublishOutcome, PublishRequest, StagedFile, StageRequest
from segments.identity import SegmentId
from tests.contract.metadata.conftest import PATIENT_MS
from tests.contract.metadata.world import NOON_MS, SUPERVISOR, TABLE, TOPIC, World, at

T = TypeVar("T")


@pytest.fixture
def shared(sql_url: str) -> Iterator[tuple[World, SqlMetadataStore]]:
    """A world, and the same database as another process would open it."""
    one, two = open_store(sql_url, lease_ms=PATIENT_MS), open_store(sql_url, lease_ms=PATIENT_MS)
    with closing(one), closing(two):
        world = World(one)
        world.start()
        yield world, two


@contextmanager
def writing(world: World) -> Iterator[Connection]:
    """A write transaction that stays open for the block."""
    assert isinstance(world.store, SqlMetadataStore)
    options = {WRITING: True}
    with world.store.session.engine.connect().execution_options(**options) as connection, connection.begin():
        yield connection


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Runs the calls in one thread each, released together."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        gate.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(run, call) for call in calls]]


def test_of_replicas_that_publish_at_once_exactly_one_publishes(shared: tuple[World, SqlMetadataStore]) -> None:
    world, other = shared
    record = world.open(0)
    tokens = [world.attempt(record.ref) for _ in range(4)]
    for round_number in range(5):
        record, *_ = world.seal(record.ref, at(p0=10 * (round_number + 1)))
        requests = [world.prepare(token, record) for token in tokens]
        stores = [world.store, other, world.store, other]

        def publish(store: MetadataStore, request: PublishRequest) -> PublishOutcome:
            return store.publish(world.generation, request, NOON_MS).outcome

        calls = [partial(publish, s, r) for s, r in zip(stores, requests, strict=True)]
        outcomes = sorted(outcome.value for outcome in at_once(*calls))
        assert outcomes == ["already"] * 3 + ["published"]
        record = world.store.sequences(SUPERVISOR, record.ref.group, record.ref.number + 1)[0]
    assert len(world.store.ledger(SUPERVISOR, 0, 99)) == 5


def test_files_are_not_staged_for_a_sequence_whose_publish_is_under_way(shared: tuple[World, SqlMetadataStore]) -> None:
    world, other = shared
    opened = world.open(0)
    token = world.attempt(opened.ref)
    record, *_ = world.seal(opened.ref, at(p0=10))
    request = StageRequest(token, record.ref, (StagedFile("wiki/late.parquet", None, 1),))
    answers: list[StoreConflict] = []

    def stage() -> None:
        try:
            other.stage(world.generation, request, NOON_MS)
        except StoreConflict as error:
            answers.append(error)

    late = threading.Thread(target=stage)
    with writing(world) as connection:  # what a publish holds, and what it has written before it commits
        lock_stream(connection, SUPERVISOR, TOPIC)
        connection.execute(sa.update(t.sequences).where(is_sequence(t.sequences, record.ref)).values(state="published"))
        late.start()
        late.join(0.3)
    late.join(10)
    assert len(answers) == 1, "it waits for the publish, and is refused"
    assert "wiki/late.parquet" not in world.store.tracked_paths(TABLE)


def test_version_order_is_commit_order_for_every_reader(shared: tuple[World, SqlMetadataStore]) -> None:
    world, other = shared
    writers, publishes = 4, 8
    names = [f"feed-{n}" for n in range(writers)]
    base = world.store.table_versions()[TABLE] + writers
    queues: list[list[PublishRequest]] = []
    for name in names:
        world.start(partitions=1, supervisor=name)
        record = world.open(0, supervisor=name)
        token, requests = world.attempt(record.ref), []
        for n in range(publishes):
            sealed, record = world.seal(record.ref, at(p0=n + 1))
            requests.append(world.prepare(token, sealed))
        queues.append(requests)
    done = threading.Event()

    def read() -> int:
        """Follows by increments; each snapshot must hold as many segments as publishes since the base."""
        held: set[str] = set()
        version, looks = 0, 0
        while True:
            last = done.is_set()
            state = other.table(TABLE, version)
            assert state is not None
            held |= {str(row.segment.id) for row in state.segments}
            version, looks = state.version, looks + 1
            assert len(held) == version - base
            assert sum(stream.committed[0] for stream in state.streams if stream.supervisor in names) == len(held)
            if last:
                return looks

    def write(requests: list[PublishRequest]) -> None:
        for request in requests:
            assert world.publish(request).outcome is PublishOutcome.PUBLISHED

    with ThreadPoolExecutor(writers + 1) as pool:
        reader = pool.submit(read)
        writing = [pool.submit(write, requests) for requests in queues]
        for future in writing:
            future.result()
        done.set()
        assert reader.result() > 1
    assert world.store.table_versions()[TABLE] == base + writers * publishes


def test_replicas_that_allocate_at_once_agree(shared: tuple[World, SqlMetadataStore]) -> None:
    world, other = shared
    record = world.open(0)
    one, two = world.attempt(record.ref), world.attempt(record.ref)
    theirs = World(other, world.generation)
    for hour in range(8):
        ids = at_once(
            partial(world.allocate, one, record.ref, hour),
            partial(theirs.allocate, two, record.ref, hour, NOON_MS + 1),
        )
        assert len(set(ids)) == 1


def test_first_allocations_of_a_time_chunk_agree_on_its_version(shared: tuple[World, SqlMetadataStore]) -> None:
    world, other = shared
    refs = [world.open(0).ref, world.open(1).ref]
    tokens = [world.attempt(ref) for ref in refs]
    theirs = World(other, world.generation)
    for hour in range(8):
        found = at_once(
            partial(world.allocate, tokens[0], refs[0], hour, NOON_MS),
            partial(theirs.allocate, tokens[1], refs[1], hour, NOON_MS + 1),
        )
        ids = [SegmentId.parse(name) for name in found]
        assert ids[0].version == ids[1].version and {i.partition_num for i in ids} == {0, 1}


def test_one_of_two_standbys_wins(shared: tuple[World, SqlMetadataStore]) -> None:
    world, other = shared
    for _ in range(5):
        seen = world.store.leadership()
        taken = at_once(
            partial(world.store.take_leadership, "a", "a:1", seen),
            partial(other.take_leadership, "b", "b:1", seen),
        )
        winners = [leader for leader in taken if leader is not None]
        assert len(winners) == 1 and world.store.leadership() == winners[0]


def test_after_a_takeover_returns_no_publish_of_the_old_leader_commits(
    shared: tuple[World, SqlMetadataStore],
) -> None:
    world, other = shared
    record = world.open(0)
    token, requests = world.attempt(record.ref), []
    for n in range(40):
        sealed, record = world.seal(record.ref, at(p0=n + 1))
        requests.append(world.prepare(token, sealed))
    old, some = world.generation, threading.Event()

    def publish_on() -> int:
        for n, request in enumerate(requests):
            try:
                assert world.store.publish(old, request, NOON_MS).outcome is PublishOutcome.PUBLISHED
            except LeadershipLost:
                return n
            finally:
                if n == 5:
                    some.set()
        return len(requests)

    with ThreadPoolExecutor(1) as pool:
        publishing = pool.submit(publish_on)
        some.wait(30)
        taken = None
        while taken is None:
            taken = other.take_leadership("b", "b:1", other.leadership())
        seen = len(other.ledger(SUPERVISOR, 0, 999))
        assert publishing.result() == seen == len(other.ledger(SUPERVISOR, 0, 999))


@pytest.mark.integration
def test_a_takeover_waits_for_no_stuck_transaction_for_ever(new_url: Callable[[str], str]) -> None:
    with closing(open_store(new_url("postgres"))) as store:
        world = World(store)
        world.start()
        seen = store.leadership()
        # The server ends the idle transaction before the takeover's patience ends.
        with pytest.raises(sa.exc.OperationalError, match="closed the connection"), writing(world) as stuck:
            leading_generation(stuck)
            taken = store.take_leadership("b", "b:1", seen)
        assert taken is not None and taken.generation == world.generation + 1


def test_many_threads_write_without_a_busy_error(shared: tuple[World, SqlMetadataStore]) -> None:
    world, other = shared

    def beat(store: SqlMetadataStore) -> None:
        for _ in range(25):
            store.beat(world.generation)

    assert isinstance(world.store, SqlMetadataStore)
    first = world.store.leadership()
    at_once(*[partial(beat, store) for store in (world.store, other) * 4])
    last = world.store.leadership()
    assert first is not None and last is not None and last.beats == first.beats + 200


def test_a_reader_is_not_held_up_by_a_writer(shared: tuple[World, SqlMetadataStore]) -> None:
    world, other = shared
    before = other.table(TABLE, None)
    with writing(world) as connection:
        connection.execute(sa.text("UPDATE datasources SET version = version + 100"))
        assert other.table(TABLE, None) == before
