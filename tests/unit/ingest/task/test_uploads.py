"""Uploads of one publish: several at once, one that outlives its deadline, one that fails in a way nobody foresaw."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from ingest.clock import SystemClock
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AllocateRequest,
    PendingSegment,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    SequenceRef,
    SequenceState,
    StageRequest,
)
from ingest.task import messages as m
from ingest.task import uploads
from ingest.task.ports import OverlordActions
from ingest.task.publishing import PublishExecutor, PublishPorts
from ingest.task.rows import Allocate, Merged, MergedFile, TaskRows
from ingest.task.uploads import Uploads
from segments.data_segment import LoadSpec
from segments.storage.memory import MemoryDeepStorage
from tests.in_process import eventually

RECORD = SequenceRecord(
    SequenceRef("wiki", 1, 0), OffsetMap({0: 0}), OffsetMap({0: 0}), 1, 0, SequenceState.SEALED, OffsetMap({0: 9})
)


class SlowStorage(MemoryDeepStorage):
    """The first push begins, and lands only when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()
        self.pushed: list[str] = []
        self.deleted: list[str] = []

    def delete(self, load_spec: LoadSpec) -> None:
        super().delete(load_spec)
        self.deleted.append(str(load_spec["key"]))

    def push(self, local: Path, key: str) -> LoadSpec:
        self.pushed.append(key)
        if len(self.pushed) == 1:
            self.let.wait(10)
        return super().push(local, key)


class OneFile:
    """Rows that merge to one file of rejected records."""

    def __init__(self, local: Path) -> None:
        self._local = local

    def merge(self, _record: SequenceRecord, _allocate: Allocate) -> Merged:
        return Merged((MergedFile(self._local, 4, None),), 0, {}, 0, 0, OffsetMap())


class Accepts:
    """Takes every file and publishes every request."""

    def __init__(self) -> None:
        self.requests: list[PublishRequest] = []

    def allocate(self, request: AllocateRequest) -> PendingSegment:
        raise AssertionError(request)

    def stage(self, request: StageRequest) -> None:
        assert request.files

    def publish(self, request: PublishRequest) -> PublishReply:
        self.requests.append(request)
        return PublishReply(PublishOutcome.PUBLISHED, 1)


@pytest.fixture
def local(tmp_path: Path) -> Path:
    file = tmp_path / "merged"
    file.write_bytes(b"rows")
    return file


def publish_twice(storage: MemoryDeepStorage, local: Path) -> tuple[m.Event, m.Event, Accepts]:
    """What two tries of one publish say."""
    accepts = Accepts()
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    rows, actions = cast(TaskRows, OneFile(local)), cast(OverlordActions, accepts)
    executor = PublishExecutor(PublishPorts("token", rows, actions, storage, SystemClock(), events.put, lambda: None))
    executor.start()
    said: list[m.Event] = []
    for _ in range(2):
        executor.submit(m.Publish(RECORD, again=False))
        said.append(events.get(timeout=10))
    executor.stop(5)
    return said[0], said[1], accepts


def test_what_an_upload_brings_after_its_deadline_is_removed(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "UPLOAD_S", 0.05)
    storage = SlowStorage()
    first, second, accepts = publish_twice(storage, local)
    assert isinstance(first, m.PublishFailed) and "did not end within" in first.error
    assert isinstance(second, m.PublishEnded) and len(accepts.requests) == 1
    late, taken = storage.pushed
    storage.let.set()
    eventually(lambda: late in storage.deleted)
    assert [file.key for file in storage.list()] == [taken]


def test_a_file_is_not_taken_for_uploaded_when_the_upload_broke(local: Path) -> None:
    storage = MemoryDeepStorage()
    storage.fail_next("push", OSError("the disk spoke in tongues"))
    first, second, accepts = publish_twice(storage, local)
    assert isinstance(first, m.PublishFailed) and "tongues" in first.error
    assert isinstance(second, m.PublishEnded) and len(accepts.requests) == 1


class GatedStorage(MemoryDeepStorage):
    """Pushes of keys with a gate land when it is opened; how many were under way at once is counted."""

    def __init__(self, *gated: str) -> None:
        super().__init__()
        self.gates = {key: threading.Event() for key in gated}
        self.begun: list[str] = []
        self.under_way = self.most = 0
        self.counting = threading.Condition()

    def push(self, local: Path, key: str) -> LoadSpec:
        with self.counting:
            self.begun.append(key)
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            self.counting.notify_all()
        try:
            if key in self.gates:
                assert self.gates[key].wait(10)
            return super().push(local, key)
        finally:
            with self.counting:
                self.under_way -= 1

    def until_under_way(self, number: int) -> None:
        with self.counting:
            assert self.counting.wait_for(lambda: self.under_way >= number, 10)

    def keys(self) -> list[str]:
        return [file.key for file in self.list()]


def in_background(pushing: Uploads, files: list[tuple[Path, str]]) -> queue.SimpleQueue[Exception | None]:
    """What the call ends with."""
    said: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def push() -> None:
        try:
            pushing.push_all(files)
        except Exception as error:
            said.put(error)
        else:
            said.put(None)

    threading.Thread(target=push, daemon=True).start()
    return said


def test_files_are_uploaded_side_by_side_as_many_as_the_bound_allows(local: Path) -> None:
    keys = [f"{number:02}" for number in range(20)]
    storage = GatedStorage(*keys[:4])
    said = in_background(Uploads(storage, SystemClock(), 4), [(local, key) for key in keys])
    storage.until_under_way(4)
    assert said.empty() and storage.begun == keys[:4]
    for gate in storage.gates.values():
        gate.set()
    assert said.get(timeout=10) is None
    assert storage.keys() == keys and storage.most == 4


def test_the_first_failure_ends_a_call_begins_nothing_more_and_what_is_under_way_removes_itself(local: Path) -> None:
    storage = GatedStorage("a", "b", "c")
    storage.fail_next("push", OSError("no route"))
    pushing = Uploads(storage, SystemClock(), 3)
    said = in_background(pushing, [(local, key) for key in "abcdefgh"])
    storage.until_under_way(3)
    storage.gates["c"].set()
    assert "no route" in str(said.get(timeout=10)) and storage.begun == ["a", "b", "c"]
    pushing.push_all([(local, key) for key in "xyz"])  # in the one place that is left
    storage.gates["a"].set()
    storage.gates["b"].set()
    eventually(lambda: storage.under_way == 0 and storage.keys() == ["x", "y", "z"])
    assert storage.most == 3


def test_who_hangs_past_its_deadline_holds_no_place(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "UPLOAD_S", 0.05)
    storage = GatedStorage("a")
    pushing = Uploads(storage, SystemClock(), 1)
    with pytest.raises(uploads.UploadTimedOut, match="of a did not end within"):
        pushing.push_all([(local, "a"), (local, "b")])
    monkeypatch.setattr(uploads, "UPLOAD_S", 60.0)
    pushing.push_all([(local, "c")])
    storage.gates["a"].set()
    eventually(lambda: storage.under_way == 0 and storage.keys() == ["c"])
