"""What a metadata store decides about replays of quarantine files, apart from how it stores (pure)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ingest.errors import AttemptRefused
from ingest.metadata.file_rules import StagedClaim, judge_files, refused
from ingest.metadata.records import LedgerRow, QuarantineRow, ReplayRecord, SupervisorRecord
from ingest.metadata.rules import check_generation, ledger_row
from ingest.metadata.store import StoreConflict
from ingest.protocol import PublishOutcome, PublishReply, PublishRequest, SequenceRecord, SequenceRef

WAITING: Final = "published"
REPLAYED: Final = "replayed"
EXPIRED: Final = "expired"
BEGUN: Final = "begun"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a file's records came from: the topic, and the stored time of the sequence that read them first."""

    topic: str
    opened_at_ms: int


@dataclass(frozen=True, slots=True)
class ReplayView:
    """What the judgement looks at, read under locks."""

    generation: int | None  # that leads
    replay: ReplayRecord | None
    file: QuarantineRow | None
    staged: tuple[StagedClaim, ...]
    allocated: frozenset[str]


def may_begin(file: QuarantineRow | None, supervisor: SupervisorRecord | None) -> bool:
    """Whether the file's records wait.

    Raises:
        StoreConflict: no spec says what to make of them.
    """
    if file is None or file.state != WAITING:
        return False
    if supervisor is None:
        raise StoreConflict(f"supervisor {file.ref.supervisor!r} is unknown: no spec says how to read {file.path}")
    if supervisor.datasource != file.datasource:
        raise StoreConflict(
            f"supervisor {supervisor.supervisor!r} fills table {supervisor.datasource!r} now; post a spec for "
            f"{file.datasource!r} under its name to replay {file.path}"
        )
    return True


def begun(
    file: QuarantineRow,
    origin: Origin,
    supervisor: SupervisorRecord,
    group: int,
    generation: int,
    stamp: tuple[str, int],
) -> ReplayRecord:
    """The new try; ``stamp`` is its token and the time."""
    token, now_ms = stamp
    return ReplayRecord(
        ref=SequenceRef(file.ref.supervisor, group, 0),
        token=token,
        datasource=file.datasource,
        topic=origin.topic,
        path=file.path,
        generation=generation,
        spec_version=supervisor.version,
        opened_at_ms=origin.opened_at_ms,
        state=BEGUN,
        begun_ms=now_ms,
    )


def require_begun(replay: ReplayRecord | None, generation: int) -> ReplayRecord:
    """Raises AttemptRefused unless the replay is this generation's and has not ended."""
    if replay is None or replay.state != BEGUN or replay.generation != generation:
        raise AttemptRefused("the replay has ended; begin another")
    return replay


def judge_replay(generation: int, request: PublishRequest, view: ReplayView) -> PublishReply | None:
    """None when the request is to be applied, else why not; the ledger was looked up before (PR-18).

    Raises:
        LeadershipLost: the calling overlord leads no more.
    """
    check_generation(view.generation, generation)
    replay, file = view.replay, view.file
    if replay is None or replay.state != BEGUN or replay.generation != generation or replay.ref != request.ref:
        return refused(PublishOutcome.FENCED, "the replay has ended")
    if file is None or file.state != WAITING:
        state = "gone" if file is None else file.state
        return refused(PublishOutcome.CONFLICT, f"{replay.path} is {state}")
    messages = sum(counts.messages for counts in request.counts.values())
    if messages != file.rows:
        raise StoreConflict(f"{messages} messages were counted, {file.path} holds {file.rows}; nothing was written")
    return judge_files(request, view.staged, view.allocated)


def replay_ledger(request: PublishRequest, replay: ReplayRecord, version: int, now_ms: int) -> LedgerRow:
    """The permanent proof of a replay."""
    record = SequenceRecord(
        request.ref, request.start, request.epochs, replay.spec_version, replay.opened_at_ms, end=request.end
    )
    return replace(ledger_row(request, record, replay.topic, version, now_ms), replayed_path=replay.path)
