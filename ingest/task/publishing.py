"""The publish executor and the handoff executor: one thread each, so that neither ever blocks reading, nor the other.

A publish is merge, allocate, stage, push, transaction, in this order: a staged row exists before the
first byte of its file is sent, so an orphan always has a row (PR-20). Each try that uploads anew uses
paths of its own. When to try again is the task machine's decision.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from ingest.clock import Clock
from ingest.errors import AttemptRefused
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AllocateRequest,
    PendingSegment,
    PublishRequest,
    SequenceRecord,
    StagedFile,
    StageRequest,
)
from ingest.task.messages import Event, Publish, PublishEnded, PublishFailed, Refused
from ingest.task.ports import OverlordActions
from ingest.task.rows import Merged, MergedFile, TaskRows
from ingest.task.uploads import AT_ONCE, Uploads
from segments.errors import ServiceError
from segments.storage.base import DeepStorage
from segments.storage.layout import key_for, quarantine_key_for

log = structlog.get_logger()

HANDOFF_ASK_S: Final = 0.25


@dataclass(slots=True)
class _Prepared:
    """A sequence's files merged up to ``end``, kept until it is dropped, with the request once they are pushed."""

    merged: Merged
    end: OffsetMap
    tries: int = 0
    request: PublishRequest | None = None
    of_one_topic: bool = False


@dataclass(frozen=True, slots=True)
class PublishPorts:
    """What publishing needs of the task. ``post`` reaches the machine's mailbox; ``prove_topic`` raises a
    StreamError unless the topic is still the one the task reads; ``uploads_max`` files are pushed at once."""

    token: str
    rows: TaskRows
    actions: OverlordActions
    storage: DeepStorage
    clock: Clock
    post: Callable[[Event], None]
    prove_topic: Callable[[], None]
    uploads_max: int = AT_ONCE


class PublishExecutor:
    """Publishes one sequence at a time. ``submit`` and ``forget`` are safe from any thread."""

    def __init__(self, ports: PublishPorts) -> None:
        self._ports = ports
        self._jobs: queue.SimpleQueue[Publish | None] = queue.SimpleQueue()
        self._prepared: dict[int, _Prepared] = {}
        self._uploads = Uploads(ports.storage, ports.clock, ports.uploads_max)
        self._thread = threading.Thread(target=self._run, name="publish", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Lets the running publish end if it does so in time; the process may end without it."""
        self._jobs.put(None)
        self._thread.join(timeout_s)

    def submit(self, command: Publish) -> None:
        self._jobs.put(command)

    def forget(self, number: int) -> None:
        """The sequence is dropped or void: its merged files are no longer needed."""
        prepared = self._prepared.pop(number, None)
        if prepared is not None:
            for file in prepared.merged.files:
                file.local.unlink(missing_ok=True)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._ports.post(self._publish(job))

    def _publish(self, job: Publish) -> Event:
        number, clock = job.record.ref.number, self._ports.clock
        started_ms = clock.monotonic_ms()
        try:
            prepared = self._prepare(job.record)
            if not prepared.of_one_topic:
                # A re-created topic is read on for a moment before it is noticed. Asked after the last
                # poll of the range, the id proves that none of its records is among these.
                self._ports.prove_topic()
                prepared.of_one_topic = True
            if prepared.request is None or not job.again:
                self._upload(job.record, prepared)
            assert prepared.request is not None
            reply = self._ports.actions.publish(prepared.request)
        except AttemptRefused as error:
            return Refused(clock.monotonic_ms(), str(error))
        except ServiceError as error:
            log.warning("publish failed", sequence=job.record.ref.name, error=str(error))
            return PublishFailed(clock.monotonic_ms(), number, str(error))
        except Exception as error:  # a thread that dies would leave the sequence publishing for ever
            log.exception("publish broke", sequence=job.record.ref.name)
            return PublishFailed(clock.monotonic_ms(), number, f"{type(error).__name__}: {error}")
        log.info(
            "publish answered",
            sequence=job.record.ref.name,
            outcome=reply.outcome.value,
            rows=prepared.merged.rows_stored,
            segments=len(prepared.request.segments),
            took_ms=clock.monotonic_ms() - started_ms,
        )
        return PublishEnded(clock.monotonic_ms(), number, reply)

    def _prepare(self, record: SequenceRecord) -> _Prepared:
        number = record.ref.number
        found = self._prepared.get(number)
        assert record.end is not None
        # An end can be raised after a merge (PR-9): files of the shorter range must not pass for the longer.
        if found is not None and found.end == record.end and all(file.local.exists() for file in found.merged.files):
            return found
        prepared = _Prepared(self._ports.rows.merge(record, self._allocator(record)), record.end)
        self._prepared[number] = prepared
        return prepared

    def _allocator(self, record: SequenceRecord) -> Callable[[int, int], PendingSegment]:
        def allocate(start_ms: int, end_ms: int) -> PendingSegment:
            return self._ports.actions.allocate(AllocateRequest(self._ports.token, record.ref, start_ms, end_ms))

        return allocate

    def _upload(self, record: SequenceRecord, prepared: _Prepared) -> None:
        """Stages and pushes every file on paths of this try."""
        prepared.request = None
        prepared.tries += 1
        keys = [self._key(record, file, prepared.tries) for file in prepared.merged.files]
        staged = tuple(
            StagedFile(key, None if file.segment is None else str(file.segment.id), file.size_bytes)
            for key, file in zip(keys, prepared.merged.files, strict=True)
        )
        if staged:
            self._ports.actions.stage(StageRequest(self._ports.token, record.ref, staged))
        locals_ = [file.local for file in prepared.merged.files]
        self._uploads.push_all(list(zip(locals_, keys, strict=True)))
        prepared.request = self._request(record, prepared.merged, keys)

    def _key(self, record: SequenceRecord, file: MergedFile, number: int) -> str:
        name = f"{self._ports.token}-{number}"
        if file.segment is None:
            return quarantine_key_for(record.ref.supervisor, record.ref.name, name)
        return key_for(file.segment.id, name)

    def _request(self, record: SequenceRecord, merged: Merged, keys: list[str]) -> PublishRequest:
        assert record.end is not None
        segments: list[dict[str, Any]] = []
        quarantine: dict[str, Any] | None = None
        for file, key in zip(merged.files, keys, strict=True):
            load_spec = self._ports.storage.load_spec(key)
            if file.segment is None:
                quarantine = {
                    "path": key,
                    "rows": merged.quarantined_rows,
                    "sizeBytes": file.size_bytes,
                    "loadSpec": load_spec,
                }
            else:
                segments.append(replace(file.segment, load_spec=load_spec).to_json())
        return PublishRequest(
            token=self._ports.token,
            ref=record.ref,
            start=record.start,
            end=record.end,
            epochs=record.epochs,
            segments=tuple(segments),
            quarantine=quarantine,
            counts=merged.counts,
            rows_in=merged.rows_in,
            rows_stored=merged.rows_stored,
            watermark_ms=merged.watermark_ms,
        )


class HandoffExecutor:
    """Waits until every live query node has acknowledged what was published, asking more often meanwhile.

    ``ask`` sends a heartbeat, whose answer tells the served version. Methods are safe from any thread.
    """

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._changed = threading.Condition()
        self._awaited: dict[int, int] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="handoff", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def wait_for(self, number: int, version: int) -> None:
        """The sequence was published at that table version."""
        with self._changed:
            self._awaited[number] = version
            self._changed.notify_all()

    def forget(self, number: int) -> None:
        """The sequence was dropped."""
        with self._changed:
            if self._awaited.pop(number, None) is not None:
                log.info("handed off", sequence=number)

    @property
    def pending(self) -> int:
        with self._changed:
            return len(self._awaited)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._awaited or self._stopping)
                if self._stopping:
                    return
            self._ask()
            with self._changed:
                self._changed.wait_for(lambda: not self._awaited or self._stopping, HANDOFF_ASK_S)
