"""Replays a quarantine file: reads its records by the newest spec and publishes what they become, all in one step.

For the leader. Until that step nothing is visible and the file waits as before; after it the file is ``replayed``.
Whatever fails before it, or dies, leaves staged files that the sweeper takes; whoever asks again begins anew, or is
told that it is done. So each record becomes rows once, or stays in a quarantine file with its newest reason.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import structlog

from ingest.appenderator.merging import MergedSequence
from ingest.appenderator.replaying import Reread, Sources, reread
from ingest.clock import Clock
from ingest.errors import IngestError, OverlordUnreachable, StoreUnreachable, StreamError
from ingest.metadata.records import QuarantineRow, ReplayRecord
from ingest.metadata.store import MetadataStore
from ingest.offsets import OffsetMap
from ingest.protocol import (
    PendingSegment,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    StagedFile,
)
from ingest.spec import parse_supervisor_spec
from ingest.stream.schemas import SchemaSources
from ingest.supervisor.ports import TokenSource
from ingest.task.uploads import UPLOAD_S, Upload, UploadTimedOut
from segments.errors import ServiceError
from segments.storage.base import DeepStorage
from segments.storage.layout import key_for, quarantine_key_for

log = structlog.get_logger()

PATIENCE_MS: Final = 30_000
"""How long a schema registry may be away before a replay gives up, having changed nothing."""
ASK_AGAIN_S: Final = 0.1
PUBLISH_TRIES: Final = 20


class ReplayRefused(IngestError):
    """The file cannot be replayed now; nothing was changed."""

    effect_known_absent = True


@dataclass(frozen=True, slots=True)
class ReplayPorts:
    """``scratch`` is a local folder; a replay leaves nothing in it."""

    store: MetadataStore
    storage: DeepStorage
    tokens: TokenSource
    clock: Clock
    scratch: Path
    schemas: SchemaSources | None = None


class Replays:
    """One replay at a time. Safe from any thread."""

    def __init__(self, ports: ReplayPorts) -> None:
        self._ports = ports
        self._running = threading.Lock()
        self._pause = threading.Event()  # never set: its wait is a pause

    def replay(self, generation: int, table: str, path: str) -> dict[str, Any]:
        """Takes all records of one file; the report says what became of them. Repeating it tells so again.

        Raises:
            ReplayRefused: another replay is running, or the file is unknown or given up.
            NotReplayable, SpecError, StreamError, StoreConflict, StorageError: the message says why; nothing was
                changed, and the file waits.
            OverlordUnreachable: whether it was done is not known; ask again.
        """
        if not self._running.acquire(blocking=False):
            raise ReplayRefused("another replay is running; ask again when it is done")
        try:
            token = self._ports.tokens()
            begun = self._ports.store.begin_replay(generation, table, path, token, self._ports.clock.now_ms())
            if begun is None:
                return self._told(table, path)
            try:
                return self._run(generation, begun)
            except BaseException:
                with suppress(ServiceError):
                    self._ports.store.end_replays(generation, token)
                raise
        finally:
            self._running.release()

    def _told(self, table: str, path: str) -> dict[str, Any]:
        """The report of a file that does not wait any more."""
        file = self._ports.store.quarantine_file(table, path)
        if file is None:
            raise ReplayRefused(f"table {table!r} has no quarantine file {path!r}")
        if file.state != "replayed":
            raise ReplayRefused(f"{path} was given up for its age or size: its records are not there any more")
        return {"path": path, "replayedBy": file.replayed_by, "records": file.rows, "already": True}

    def _run(self, generation: int, begun: ReplayRecord) -> dict[str, Any]:
        ports = self._ports
        file = ports.store.quarantine_file(begun.datasource, begun.path)
        assert file is not None
        folder = Path(tempfile.mkdtemp(dir=ports.scratch, prefix="replay-"))
        try:
            source = folder / "quarantined.parquet"
            ports.storage.pull(file.load_spec, source)
            work = folder / "work"
            work.mkdir()
            done = self._reread(generation, begun, source, work)
            request = self._uploaded(generation, begun, done)
            reply = self._published(generation, request)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if reply.outcome not in (PublishOutcome.PUBLISHED, PublishOutcome.ALREADY):
            raise ReplayRefused(f"{begun.path} was not replayed: {reply.detail}; ask again")
        log.info("quarantine replayed", datasource=begun.datasource, sequence=begun.ref.name, rows=request.rows_in)
        return _report(file, begun, done.merged, reply)

    def _reread(self, generation: int, begun: ReplayRecord, source: Path, work: Path) -> Reread:
        ports = self._ports
        spec, _ = parse_supervisor_spec(ports.store.spec(begun.ref.supervisor, begun.spec_version))
        record = SequenceRecord(begun.ref, OffsetMap(), OffsetMap(), begun.spec_version, begun.opened_at_ms)

        def allocate(start_ms: int, end_ms: int) -> PendingSegment:
            now_ms = ports.clock.now_ms()
            return ports.store.allocate_replayed(generation, begun.token, start_ms, end_ms, now_ms)

        deadline_ms = ports.clock.monotonic_ms() + PATIENCE_MS

        def wait(trouble: StreamError) -> None:
            if ports.clock.monotonic_ms() > deadline_ms:
                raise trouble
            self._pause.wait(ASK_AGAIN_S)

        places = ports.store.places(begun.ref.supervisor, begun.topic)
        numbers = {(place.topic, place.partition): place.number for place in places}
        sources = Sources(begun.topic, numbers, work, ports.schemas, wait)
        return reread(source, spec, record, allocate, sources)

    def _uploaded(self, generation: int, begun: ReplayRecord, done: Reread) -> PublishRequest:
        """Stages and pushes every file, and says what is to be published."""
        ports, merged = self._ports, done.merged
        pushed: list[tuple[Path, StagedFile]] = []
        for file in merged.files:
            key = key_for(file.segment.id, begun.token)
            pushed.append((file.path, StagedFile(key, str(file.segment.id), file.segment.size_bytes)))
        if merged.quarantine is not None:
            key = quarantine_key_for(begun.ref.supervisor, begun.ref.name, begun.token)
            pushed.append((merged.quarantine.path, StagedFile(key, None, merged.quarantine.size_bytes)))
        staged = [file for _, file in pushed]
        ports.store.stage_replayed(generation, begun.token, staged, ports.clock.now_ms())
        for local, to in pushed:
            self._push(local, to.path)
        return _request(begun, done, staged, ports.storage)

    def _push(self, local: Path, key: str) -> None:
        upload = Upload(self._ports.storage, local, key)
        if not upload.done_within(UPLOAD_S):
            raise UploadTimedOut(f"the upload of {key} did not end within {UPLOAD_S:.0f} s; ask again")
        if upload.failure is not None:
            raise upload.failure

    def _published(self, generation: int, request: PublishRequest) -> PublishReply:
        """Asks until there is an answer: what was committed is told so, however often it is asked."""
        last: StoreUnreachable | None = None
        for _ in range(PUBLISH_TRIES):
            try:
                return self._ports.store.publish_replay(generation, request, self._ports.clock.now_ms())
            except StoreUnreachable as error:
                last = error
                self._pause.wait(ASK_AGAIN_S)
        raise OverlordUnreachable(f"whether the replay was published is not known ({last}); ask again") from last


def _request(begun: ReplayRecord, done: Reread, staged: Sequence[StagedFile], storage: DeepStorage) -> PublishRequest:
    merged = done.merged
    by_id = {file.segment_id: file for file in staged}
    segments = []
    for made in merged.files:
        load_spec = storage.load_spec(by_id[str(made.segment.id)].path)
        segments.append(replace(made.segment, load_spec=load_spec).to_json())
    quarantine: dict[str, Any] | None = None
    if merged.quarantine is not None:
        kept = by_id[None]
        rows, load_spec = merged.quarantine.rows, storage.load_spec(kept.path)
        quarantine = {"path": kept.path, "rows": rows, "sizeBytes": kept.size_bytes, "loadSpec": load_spec}
    return PublishRequest(
        token=begun.token,
        ref=begun.ref,
        start=done.start,
        end=done.end,
        epochs=OffsetMap(),
        segments=tuple(segments),
        quarantine=quarantine,
        counts=merged.counts,
        rows_in=merged.rows_in,
        rows_stored=merged.rows_stored,
    )


def _report(file: QuarantineRow, begun: ReplayRecord, merged: MergedSequence, reply: PublishReply) -> dict[str, Any]:
    """What became of the records, each in one number; ``rows`` is what the good ones hold."""
    names = ("good", "partly_good", "unparseable", "filtered", "tombstones", "early", "late")
    counted = {name: sum(getattr(counts, name) for counts in merged.counts.values()) for name in names}
    return {
        "path": file.path,
        "replayedBy": begun.ref.name,
        "records": file.rows,
        "already": False,
        "rows": merged.rows_in,
        "quarantined": 0 if merged.quarantine is None else merged.quarantine.rows,
        "counts": counted,
        "specVersion": begun.spec_version,
        "version": reply.version,
    }
