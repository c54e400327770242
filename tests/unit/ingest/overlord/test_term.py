"""What a new leader finds in the store and takes over."""

from __future__ import annotations

from ingest.clock import ManualClock, SystemClock
from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.records import DesiredState, NextSequence
from ingest.offsets import OffsetMap
from ingest.overlord.duties import Sweeper
from ingest.overlord.term import OverlordPorts, Term
from ingest.protocol import AttemptRecord, AttemptState, PauseReport, SequenceRef, StagedFile, StageRequest, TaskCommand
from ingest.stream.memory import MemoryStream, MemorySupplier
from segments.data_segment import LoadSpec
from segments.errors import StorageUnavailable
from segments.storage.memory import MemoryDeepStorage
from tests.in_process import eventually, spec


class NoTasks:
    """There are none."""

    def send(self, address: str, token: str, command: TaskCommand) -> PauseReport | None:
        raise AssertionError("nobody to send to")


def led() -> tuple[MemoryMetadataStore, int]:
    store = MemoryMetadataStore()
    taken = store.take_leadership("one", "one:1", None)
    assert taken is not None
    return store, taken.generation


def opened(store: MemoryMetadataStore, generation: int, supervisor: str) -> SequenceRef:
    posted = spec() | {"id": supervisor}
    store.put_supervisor(generation, supervisor, "clicks", posted, DesiredState.RUNNING, 0)
    store.init_offsets(generation, supervisor, "clicks", "clicks", None, OffsetMap({0: 0}))
    return store.open_group(generation, supervisor, "clicks", (0,), NextSequence(1, 0)).ref


def attempt(ref: SequenceRef, token: str) -> AttemptRecord:
    return AttemptRecord(f"task-{token}", 1, token, ref.supervisor, "clicks", ref.group, AttemptState.PENDING, False, 0)


def test_a_terminated_supervisor_with_rows_to_publish_is_taken_over_however_long_ago_it_had_a_task() -> None:
    store, generation = led()
    old = opened(store, generation, "old")
    store.create_attempt(generation, attempt(old, "of-old"))
    store.set_attempt_state(generation, "of-old", AttemptState.FAILED, "its disk", 0)
    store.set_desired(generation, "old", DesiredState.TERMINATED, 0)
    other = opened(store, generation, "other")
    for number in range(1_100):
        store.create_attempt(generation, attempt(other, f"other-{number}"))
        store.set_attempt_state(generation, f"other-{number}", AttemptState.FAILED, "its stream", 0)
    ports = OverlordPorts(
        store, MemoryDeepStorage(), NoTasks(), lambda *_: MemorySupplier(MemoryStream(), "clicks"), str, SystemClock()
    )
    term = Term(generation, ports, lambda: None)
    term.start()
    try:
        # Nobody but its supervisor gives up what was opened and never read.
        eventually(lambda: store.unfinished_supervisors() == ["other"])
    finally:
        term.stop()


class Stubborn(MemoryDeepStorage):
    """Keeps one file, whatever is asked."""

    def __init__(self, kept: str) -> None:
        super().__init__()
        self.kept = self.load_spec(kept)
        self.deleted: list[LoadSpec] = []

    def delete(self, load_spec: LoadSpec) -> None:
        if load_spec == self.kept:
            raise StorageUnavailable("the server refuses this one")
        self.deleted.append(load_spec)


def test_a_file_that_cannot_be_removed_does_not_keep_the_others() -> None:
    store, generation = led()
    ref = opened(store, generation, "clicks")
    storage, tokens = Stubborn("clicks/0"), [f"t{number}" for number in range(3)]
    for number, token in enumerate(tokens):
        store.create_attempt(generation, attempt(ref, token))
        store.stage(generation, StageRequest(token, ref, (StagedFile(f"clicks/{number}", None, 1),)), 0)
        store.set_attempt_state(generation, token, AttemptState.FAILED, "gone", 0)
    assert Sweeper(store, storage, generation, ManualClock()).sweep() == 2
    assert storage.deleted == [storage.load_spec("clicks/1"), storage.load_spec("clicks/2")]
    left = {row.path: (row.state, row.removed_ms is None) for row in store.staged_of_ended(9)}
    assert left.pop("clicks/0") == ("deleting", True), "it is tried again"
    assert set(left.values()) == {("deleting", False)}
