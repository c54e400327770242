"""An upload that outlives its deadline, and one that fails in a way nobody foresaw."""

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
from ingest.task import publishing
from ingest.task.ports import OverlordActions
from ingest.task.publishing import PublishExecutor, PublishPorts
from ingest.task.rows import Allocate, Merged, MergedFile, TaskRows
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
    monkeypatch.setattr(publishing, "UPLOAD_S", 0.05)
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
