"""Any course of calls gets the same answers from the memory store and from SQLite."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ingest.errors import AttemptRefused, LeadershipLost
from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.records import AuditRow, DesiredState
from ingest.metadata.sql import open_store
from ingest.metadata.store import MetadataStore, StoreConflict
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AllocateRequest,
    AttemptState,
    PublishRequest,
    SequenceRecord,
    SequenceState,
    StagedFile,
    StageRequest,
)
from tests.contract.metadata.test_attempts import pending
from tests.contract.metadata.world import HOUR_MS, NOON_MS, SPEC, SUPERVISOR, TABLE, TOPIC, World, following

EXPECTED = (StoreConflict, AttemptRefused, LeadershipLost)
PARTITIONS = (0, 1, 2)
steps = st.integers(0, 3)
picks = st.integers(0, 1_000)


class Twins(RuleBasedStateMachine):
    """Calls both stores with the same arguments and compares what they say."""

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "metadata.db"
        shutil.copy(self.template, path)
        self.stores: tuple[MetadataStore, MetadataStore] = (MemoryMetadataStore(), open_store(f"sqlite:///{path}"))
        self.generation = 0
        self.clock = NOON_MS
        self.tokens: list[str] = []
        self.requests: list[PublishRequest] = []
        self.seen_version = 0

    def teardown(self) -> None:
        self.stores[1].close()
        self.folder.cleanup()

    def both(self, call: Callable[[MetadataStore], Any]) -> Any:
        answers = [self.answer(store, call) for store in self.stores]
        assert answers[0] == answers[1]
        return answers[0]

    @staticmethod
    def answer(store: MetadataStore, call: Callable[[MetadataStore], Any]) -> Any:
        try:
            return call(store)
        except EXPECTED as error:
            return type(error).__name__, str(error)

    def now(self) -> int:
        self.clock += 1
        return self.clock

    def audit(self) -> AuditRow:
        return AuditRow(self.now(), SUPERVISOR, "test", {"n": self.clock})

    def records(self) -> list[SequenceRecord]:
        return [r for group in self.groups() for r in self.stores[0].sequences(SUPERVISOR, group, 0)]

    def groups(self) -> range:
        """Epochs of all groups ever opened: they are given out without gaps."""
        known = itertools.takewhile(lambda g: self.stores[0].sequences(SUPERVISOR, g, 0), itertools.count(1))
        return range(1, 1 + sum(1 for _ in known))

    @initialize()
    def start(self) -> None:
        for store in self.stores:
            world = World(store)
            world.start(partitions=len(PARTITIONS))
            self.generation = world.generation

    @rule(node=st.sampled_from(["a", "b"]))
    def take_over(self, node: str) -> None:
        taken = self.both(lambda s: s.take_leadership(node, node, s.leadership()))
        self.generation = taken.generation

    @rule(spec=st.sampled_from([SPEC, {"v": 2}]), desired=st.sampled_from(list(DesiredState)))
    def supervise(self, spec: dict[str, Any], desired: DesiredState) -> None:
        now_ms = self.now()
        if desired is DesiredState.TERMINATED:
            self.both(lambda s: s.set_desired(self.generation, SUPERVISOR, desired, now_ms))
        else:
            self.both(lambda s: s.put_supervisor(self.generation, SUPERVISOR, TABLE, spec, desired, now_ms))

    @rule(partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def open_group(self, partitions: set[int]) -> None:
        self.both(lambda s: s.open_group(self.generation, SUPERVISOR, TOPIC, sorted(partitions), following()))

    @precondition(lambda self: self.records())
    @rule(pick=picks, steps=st.lists(steps, min_size=3, max_size=3), last=st.booleans())
    def seal(self, pick: int, steps: list[int], last: bool) -> None:
        self.seal_at(self.records()[-1 - pick % min(4, len(self.records()))], steps, last)

    def seal_at(self, record: SequenceRecord, steps: list[int], last: bool) -> None:
        end = OffsetMap((p, start + steps[p % 3]) for p, start in record.start.items())
        self.both(lambda s: s.seal(self.generation, record.ref, end, None if last else following()))

    @precondition(lambda self: self.records())
    @rule(pick=picks)
    def create_attempt(self, pick: int) -> None:
        self.attempt_for(self.records()[pick % len(self.records())])

    def attempt_for(self, record: SequenceRecord) -> None:
        ref, token = record.ref, f"t{len(self.tokens)}"
        self.tokens.append(token)
        self.both(lambda s: s.create_attempt(self.generation, pending(token, ref.group)))

    @rule(
        partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1),
        ends=st.lists(steps, min_size=3, max_size=3),
        last=st.booleans(),
        publish=st.booleans(),
    )
    def progress(self, partitions: set[int], ends: list[int], last: bool, publish: bool) -> None:
        """The ordinary course: read a group's open sequence, seal it, perhaps publish it."""
        opened = [r for r in self.records() if r.state is SequenceState.OPEN and not partitions.isdisjoint(r.start)]
        if not opened:
            self.open_group(partitions)
            opened = [r for r in self.records() if r.state is SequenceState.OPEN]
        self.attempt_for(opened[-1])
        self.seal_at(opened[-1], ends, last)
        self.prepare(len(self.tokens) - 1, 1, last)
        if publish and self.requests:
            self.publish(len(self.requests) - 1, "")

    @precondition(lambda self: self.tokens)
    @rule(pick=picks, state=st.sampled_from(list(AttemptState)))
    def move_attempt(self, pick: int, state: AttemptState) -> None:
        token, now_ms = self.tokens[pick % len(self.tokens)], self.now()
        self.both(lambda s: s.set_attempt_state(self.generation, token, state, None, now_ms))

    @precondition(lambda self: self.tokens)
    @rule(pick=picks, sequence=steps, positions=st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 9)))
    def report(self, pick: int, sequence: int, positions: dict[int, int]) -> None:
        token, now_ms = self.tokens[pick % len(self.tokens)], self.now()
        at = OffsetMap(positions)
        self.both(lambda s: s.record_positions(self.generation, token, sequence, at, now_ms))
        self.both(lambda s: s.set_committer(self.generation, token))

    @precondition(lambda self: self.tokens and self.records())
    @rule(pick=picks, hours=st.integers(0, 2), quarantined=st.booleans())
    def prepare(self, pick: int, hours: int, quarantined: bool) -> None:
        """Allocates and stages a sequence that is not yet published, when one of its attempts lives."""
        token = self.tokens[pick % len(self.tokens)]
        attempt = self.stores[0].attempt(token)
        mine = [r for r in self.records() if attempt and r.ref.group == attempt.group and r.end is not None]
        if not mine:
            return
        record = mine[pick % len(mine)]
        count = len(self.requests)

        def prepare(store: MetadataStore) -> PublishRequest:
            world = World(store, self.generation)
            world.ids = iter(range(1_000 * count, 1_000 * (count + 1)))  # type: ignore[assignment]
            return world.prepare(token, record, hours, int(quarantined))

        made = self.both(prepare)
        if isinstance(made, PublishRequest):
            self.requests.append(made)

    @precondition(lambda self: self.requests)
    @rule(pick=picks, changed=st.sampled_from(["", "token", "epochs", "end"]))
    def publish(self, pick: int, changed: str) -> None:
        request, now_ms = self.requests[pick % len(self.requests)], self.now()
        if changed == "token":
            request = replace(request, token=self.tokens[pick % len(self.tokens)])
        elif changed == "epochs":
            request = replace(request, epochs=request.epochs.with_({next(iter(request.epochs)): 9}))
        elif changed == "end":
            request = replace(request, end=request.end.with_({next(iter(request.end)): 9}))
        self.both(lambda s: s.publish(self.generation, request, now_ms))

    @precondition(lambda self: self.tokens and self.records())
    @rule(pick=picks, other=picks)
    def allocate_or_stage_for_anybody(self, pick: int, other: int) -> None:
        token, ref = self.tokens[pick % len(self.tokens)], self.records()[other % len(self.records())].ref
        now_ms = self.now()
        ask = AllocateRequest(token, ref, NOON_MS, NOON_MS + HOUR_MS * (1 + pick % 2))
        self.both(lambda s: s.allocate(self.generation, ask, now_ms))
        files = (StagedFile(f"path-{pick % 5}", None, 1),)
        self.both(lambda s: s.stage(self.generation, StageRequest(token, ref, files), now_ms))

    @precondition(lambda self: self.records())
    @rule(pick=picks, raise_epochs=st.booleans())
    def void(self, pick: int, raise_epochs: bool) -> None:
        ref, audit = self.records()[pick % len(self.records())].ref, self.audit()
        self.both(lambda s: s.void(self.generation, SUPERVISOR, ref.group, ref.number, audit, raise_epochs))

    @precondition(lambda self: self.tokens and self.records())
    @rule(pick=picks, step=steps)
    def raise_end(self, pick: int, step: int) -> None:
        record = self.records()[pick % len(self.records())]
        end = OffsetMap((p, o + step) for p, o in (record.end or record.start).items())
        token = self.tokens[pick % len(self.tokens)]
        self.both(lambda s: s.raise_end(self.generation, token, record.ref, end))

    @rule(moves=st.dictionaries(st.sampled_from((*PARTITIONS, 3)), st.integers(0, 20), min_size=1))
    def reset(self, moves: dict[int, int]) -> None:
        audit, to = self.audit(), OffsetMap(moves)
        self.both(lambda s: s.reset_offsets(self.generation, SUPERVISOR, TOPIC, to, None, audit))

    @rule(starts=st.dictionaries(st.sampled_from((2, 3, 4)), st.integers(0, 20), min_size=1))
    def add_partitions(self, starts: dict[int, int]) -> None:
        self.both(lambda s: s.add_partitions(self.generation, SUPERVISOR, TOPIC, OffsetMap(starts)))

    @rule(used=st.booleans(), pick=picks)
    def mark(self, used: bool, pick: int) -> None:
        ids = [str(row.segment.id) for row in self.stores[0].segments(TABLE, None, 99, True)]
        self.both(lambda s: s.mark_segments(self.generation, TABLE, ids[pick % 3 :], used, NOON_MS))

    @rule(pick=picks)
    def sweep(self, pick: int) -> None:
        """Row ids differ between the stores, paths do not."""

        def sweep(store: MetadataStore) -> list[str]:
            rows = store.staged_of_ended(99)
            paths = {row.row_id: row.path for row in rows}
            chosen = [row.row_id for row in rows if len(row.path) % 2 == pick % 2]
            deleting = store.begin_delete(self.generation, chosen)
            store.finish_delete(self.generation, deleting, NOON_MS)
            return sorted(paths[row_id] for row_id in deleting)

        self.both(sweep)

    @rule(node=st.sampled_from(["q1", "q2"]), version=st.integers(0, 9), late=st.booleans())
    def acknowledge(self, node: str, version: int, late: bool) -> None:
        now_ms = self.now() - 5_000 * late
        self.both(lambda s: s.renew_node(node, ["query"], "a", now_ms, {TABLE: version}, {}))
        self.both(lambda s: s.served_version(TABLE, {"q2": now_ms}))

    @invariant()
    def both_show_the_same(self) -> None:
        if not self.generation:
            return
        since = self.seen_version
        state = self.both(lambda s: s.table(TABLE, since))
        self.both(lambda s: s.table(TABLE, None))
        self.both(lambda s: s.groups(SUPERVISOR))
        self.both(lambda s: s.offsets(SUPERVISOR, TOPIC))
        self.both(lambda s: s.ledger(SUPERVISOR, 0, 99))
        self.both(lambda s: s.attempts(None, None, 99))
        self.both(lambda s: [(r.path, r.state, r.token, r.removed_ms) for r in s.staged_of_ended(99)])
        self.both(lambda s: s.quarantine_files(TABLE, 99))
        self.both(lambda s: (s.supervisors(), s.history(SUPERVISOR), s.audit(None, 99), s.nodes(), s.leadership()))
        self.both(lambda s: [s.sequences(SUPERVISOR, group, 0) for group in self.groups()])
        if state.version % 3 == 0:
            self.seen_version = state.version

    @invariant()
    def offsets_follow_the_ledger(self) -> None:
        """Per partition and since its last reset, published ranges join from the start to the committed offset."""
        stored = self.stores[0].offsets(SUPERVISOR, TOPIC)
        if stored is None:
            return
        reached = dict(stored.starts)
        for row in self.stores[0].ledger(SUPERVISOR, 0, 999):
            for p, start in row.start.items():
                if row.epochs[p] == stored.epochs[p]:
                    assert start == reached[p]
                    reached[p] = row.end[p]
        assert reached == dict(stored.committed)


EXAMPLES = {"fast": (5, 30), "many": (300, 60)}


@pytest.mark.parametrize("size", ["fast", pytest.param("many", marks=pytest.mark.slow)])
def test_memory_and_sqlite_answer_alike(sqlite_template: Path, size: str) -> None:
    examples, stateful = EXAMPLES[size]
    Twins.template = sqlite_template
    run_state_machine_as_test(
        Twins,
        settings=settings(
            max_examples=examples,
            stateful_step_count=stateful,
            deadline=None,
            derandomize=size == "fast",
            suppress_health_check=list(HealthCheck),
        ),
    )
