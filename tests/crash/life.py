"""A task's whole life in one thread of control, and the life of the one who comes after it.

``lived`` reads 40 messages, persists in between, is sealed, merges, pushes and publishes, over SQLite
and a folder as deep storage. ``survived`` is what a successor does with whatever that left on the disk.
Both are run in processes that die or not; nothing is shared but the folder.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq

from ingest.clock import SystemClock
from ingest.metadata.records import DesiredState, NextSequence
from ingest.metadata.sql import open_store
from ingest.metadata.store import MetadataStore
from ingest.offsets import OffsetMap
from ingest.overlord.duties import Sweeper
from ingest.protocol import (
    AllocateRequest,
    AttemptRecord,
    AttemptState,
    PendingSegment,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    SequenceState,
    StageRequest,
    TaskSpec,
)
from ingest.stream.memory import MemoryStream, MemorySupplier
from ingest.task.appending import AppenderRows, has_rows
from ingest.task.directory import AttemptDirectory, TaskResult
from ingest.task.messages import Event, Publish, PublishEnded
from ingest.task.ports import OverlordActions
from ingest.task.publishing import PublishExecutor, PublishPorts
from ingest.task.restore import restorable
from segments.storage.local import LocalDeepStorage
from server.audit.table import audit_table
from tests.in_process import HOUR_MS, NOON_MS, click, spec

SUPERVISOR = TABLE = TOPIC = "clicks"
MESSAGES = 40
PERSIST_EVERY = 10
BAD = (7, 23)
END = OffsetMap({0: MESSAGES})
ROWS = [n for n in range(MESSAGES) if n not in BAD]


def begin(root: Path) -> None:
    """The database with a supervisor, one group over one partition, and its open sequence."""
    (root / "tasks" / "attempts").mkdir(parents=True)
    (root / "segments").mkdir()
    with closing(open_store(f"sqlite:///{root}/metadata.db", create=True)) as store:
        generation = lead(store)
        store.put_supervisor(generation, SUPERVISOR, TABLE, spec(), DesiredState.RUNNING, NOON_MS)
        store.init_offsets(generation, SUPERVISOR, TABLE, TOPIC, "id", OffsetMap({0: 0}))
        store.open_group(generation, SUPERVISOR, TOPIC, [0], NextSequence(spec_version=1, opened_at_ms=NOON_MS))


def lead(store: MetadataStore) -> int:
    taken = store.take_leadership("overlord", "overlord:1", store.leadership())
    assert taken is not None
    return taken.generation


@dataclass(frozen=True, slots=True)
class DirectActions:
    """The task actions that publishing needs, straight from the store."""

    store: MetadataStore
    generation: int

    def allocate(self, request: AllocateRequest) -> PendingSegment:
        return self.store.allocate(self.generation, request, NOON_MS)

    def stage(self, request: StageRequest) -> None:
        self.store.stage(self.generation, request, NOON_MS)

    def publish(self, request: PublishRequest) -> PublishReply:
        return self.store.publish(self.generation, request, NOON_MS)


class Life:
    """One attempt from its first file to its last, in ``root``."""

    def __init__(self, root: Path, store: MetadataStore, attempt: int) -> None:
        self._root = root
        self._store = store
        self._generation = lead(store)
        [group] = store.groups(SUPERVISOR)
        self._record: SequenceRecord = group.sequences[0]
        self._token = f"token-{attempt}"
        made = AttemptRecord(
            f"task-{attempt}", attempt, self._token, SUPERVISOR, TABLE, 1, AttemptState.PENDING, True, NOON_MS
        )
        store.create_attempt(self._generation, replace(made, group=group.group))
        store.assign_attempt(self._generation, self._token, "worker")
        store.register_attempt(self._generation, self._token, "127.0.0.1:1", 1, NOON_MS)
        self._task = TaskSpec(
            f"task-{attempt}",
            attempt,
            self._token,
            SUPERVISOR,
            TABLE,
            group.group,
            self._generation,
            TOPIC,
            "id",
            (self._record,),
            {1: spec()},
            True,
        )

    def run(self) -> int:
        """The offset at which reading began; afterwards everything is published and the result is written."""
        directory = AttemptDirectory.of(self._root / "tasks", self._task)
        directory.create(self._task)
        with directory.held():
            older = restorable(self._root / "tasks" / "attempts", self._task, has_rows)
            rows = AppenderRows(directory, self._task, SystemClock(), older)
            positions, _ = rows.restored()
            number = self._record.ref.number
            if number not in positions:
                rows.open(self._record, spec())
            first = positions.get(number, self._record.start)[0]
            self._read(rows, first)
            self._publish(rows, self._sealed())
            directory.write_result(TaskResult(True, None, NOON_MS))
        return first

    def _read(self, rows: AppenderRows, first: int) -> None:
        stream = MemoryStream()
        stream.create_topic(TOPIC, 1)
        stream.append(TOPIC, 0, [b"{broken" if n in BAD else click(n, hour_of(n)) for n in range(MESSAGES)])
        supplier = MemorySupplier(stream, TOPIC)
        supplier.assign({0: first})
        for at in range(first, MESSAGES, PERSIST_EVERY):
            rows.append(self._record.ref.number, supplier.poll(min(PERSIST_EVERY, MESSAGES - at), 0))
            rows.persist()

    def _sealed(self) -> SequenceRecord:
        if self._record.state is SequenceState.OPEN:
            following = NextSequence(spec_version=1, opened_at_ms=NOON_MS)
            return self._store.seal(self._generation, self._record.ref, END, following)[0]
        return self._record

    def _publish(self, rows: AppenderRows, sealed: SequenceRecord) -> None:
        answers: queue.SimpleQueue[Event] = queue.SimpleQueue()
        actions = cast("OverlordActions", DirectActions(self._store, self._generation))
        storage = LocalDeepStorage(self._root / "segments")
        executor = PublishExecutor(
            PublishPorts(self._token, rows, actions, storage, SystemClock(), answers.put, lambda: None)
        )
        executor.start()
        executor.submit(Publish(sealed, again=False))
        answer = answers.get(timeout=60)
        assert isinstance(answer, PublishEnded) and answer.reply.outcome is PublishOutcome.PUBLISHED, answer
        executor.forget(sealed.ref.number)
        rows.forget(sealed.ref.number, answer.reply.version)
        executor.stop(10)


def hour_of(n: int) -> int:
    """Two time chunks, so that there are two segments."""
    return NOON_MS + HOUR_MS * (n % 2)


@contextmanager
def opened(root: Path) -> Iterator[MetadataStore]:
    with closing(open_store(f"sqlite:///{root}/metadata.db")) as store:
        yield store


def lived(root: Path) -> None:
    """The first attempt; it may die anywhere."""
    with opened(root) as store:
        Life(root, store, 1).run()


def survived(root: Path) -> int:
    """A successor ends what the dead one began and proves everything; the offset from which it read, -1 if it
    had nothing to read.

    Raises:
        AssertionError: a row is missing or doubled, a file is no row's, or the audit found a fault.
    """
    with opened(root) as store:
        first = -1
        if not store.ledger(SUPERVISOR, 0, 10):
            generation = lead(store)
            if store.attempt("token-1") is not None:
                store.set_attempt_state(generation, "token-1", AttemptState.FAILED, "killed", NOON_MS)
            first = Life(root, store, 2).run()
        _prove(root, store)
    return first


def _prove(root: Path, store: MetadataStore) -> None:
    storage = LocalDeepStorage(root / "segments")
    generation = lead(store)
    for attempt in store.attempts(SUPERVISOR, True, 10):
        store.set_attempt_state(generation, attempt.token, AttemptState.FAILED, "over", NOON_MS)
    Sweeper(store, storage, generation, SystemClock()).sweep()
    found: list[int] = []
    kept: set[str] = set()
    for row in store.segments(TABLE, None, 100, False):
        key = str(row.segment.load_spec["key"])
        kept.add(key)
        found += cast("list[int]", pq.read_table(root / "segments" / key, columns=["n"])["n"].to_pylist())
    assert sorted(found) == ROWS, f"rows {sorted(found)}"
    quarantine = store.quarantine_files(TABLE, 10)
    assert [row.rows for row in quarantine] == [len(BAD)], quarantine
    kept |= {str(row.load_spec["key"]) for row in quarantine}
    left = {str(each.load_spec["key"]) for each in storage.list()}
    assert left == kept, f"files of no row: {left - kept}; rows without file: {kept - left}"
    offsets = store.offsets(SUPERVISOR, TOPIC)
    assert offsets is not None and offsets.committed == END
    report = audit_table(store, storage, TABLE, root)
    assert report.faults == [], report.faults
