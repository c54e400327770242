"""What a metadata store decides, apart from how it stores: pure rules shared by every implementation.

A store gathers the rows a rule asks for under its locks, lets the rule judge, and writes what it
says. So the memory twin and the SQL store cannot disagree about the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ingest.errors import LeadershipLost
from ingest.metadata.file_rules import StagedClaim, judge_files, refused
from ingest.metadata.records import LedgerRow, NextSequence, NodeRecord, QuarantineRow, StreamOffsets
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AttemptRecord,
    PendingSegment,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    SequenceRef,
    SequenceState,
)
from segments.civil import format_iso_ms
from segments.identity import DataSource, SegmentId
from segments.interval import Interval

UNPUBLISHED = (SequenceState.OPEN, SequenceState.SEALED)
QUERY_ROLE = "query"


def check_generation(leading: int | None, claimed: int) -> None:
    """Refuses whoever does not lead (PR-23); ``leading`` is None after the last leader resigned."""
    if leading != claimed:
        now = "nobody leads" if leading is None else f"generation {leading} leads"
        raise LeadershipLost(f"generation {claimed} leads no more ({now}); nothing was written")


# ---------------------------------------------------------------- publish (PR-18)


@dataclass(frozen=True, slots=True)
class PublishView:
    """Everything the publish judgement looks at, read under the locks of PR-18."""

    generation: int | None  # that leads
    attempt: AttemptRecord | None
    record: SequenceRecord | None
    committed: OffsetMap  # of the request's partitions that have an offset row
    epochs: OffsetMap
    staged: tuple[StagedClaim, ...]
    allocated: frozenset[str]
    behind: str | None = None  # an unpublished sequence of an earlier group that shares a partition


def judge_publish(generation: int, request: PublishRequest, view: PublishView) -> PublishReply | None:
    """None when the request is to be applied, else why not; the ledger was looked up before.

    The order decides (PR-18): a retry after a lost reply found its ledger row and never comes here;
    then fencing, then offsets, then files.

    Raises:
        LeadershipLost: the calling overlord leads no more.
    """
    check_generation(view.generation, generation)
    return (
        _judge_fencing(request, view)
        or _judge_offsets(request, view)
        or judge_files(request, view.staged, view.allocated)
    )


def _judge_fencing(request: PublishRequest, view: PublishView) -> PublishReply | None:
    attempt, record = view.attempt, view.record
    if record is None:
        return refused(PublishOutcome.FENCED, f"no sequence {request.ref.name} was ever opened")
    if attempt is None or not attempt.state.is_live:
        return refused(PublishOutcome.FENCED, "the attempt's token is unknown, ended or fenced")
    if (attempt.supervisor, attempt.group) != (request.ref.supervisor, request.ref.group):
        return refused(PublishOutcome.FENCED, f"the attempt belongs to group {attempt.group} of {attempt.supervisor}")
    if record.state is SequenceState.VOID:
        return refused(PublishOutcome.CONFLICT, "the sequence was voided")
    if request.epochs != record.epochs or view.epochs != record.epochs:
        return refused(PublishOutcome.FENCED, f"reset epochs are now {view.epochs}, the request has {request.epochs}")
    return None


def _judge_offsets(request: PublishRequest, view: PublishView) -> PublishReply | None:
    record = view.record
    assert record is not None
    if record.state is SequenceState.OPEN:
        return refused(PublishOutcome.TOO_EARLY, "the sequence is still open")
    if record.state is SequenceState.CLOSED_EMPTY:
        return refused(PublishOutcome.CONFLICT, "the sequence was closed empty; there is nothing to publish")
    if view.behind is not None:
        # Where that one is empty in the shared partitions, offsets alone would let this one overtake it.
        return refused(PublishOutcome.TOO_EARLY, f"sequence {view.behind} is not published yet")
    assert record.end is not None
    if request.start != record.start or not record.end.reached(request.end):
        return refused(PublishOutcome.CONFLICT, f"the sequence is {record.start} to {record.end}")
    if request.end != record.end:
        return refused(PublishOutcome.TOO_EARLY, f"the sequence's end was raised to {record.end}")
    if any(view.committed[p] > start for p, start in request.start.items()):
        return refused(PublishOutcome.CONFLICT, f"offsets stand at {view.committed}, past {request.start}")
    if view.committed != request.start:
        return refused(PublishOutcome.TOO_EARLY, f"offsets stand at {view.committed}, before {request.start}")
    return None


# ---------------------------------------------------------------- sequences


def predecessor(record: SequenceRecord | None, unpublished: Iterable[SequenceRecord]) -> str | None:
    """The name of an unpublished sequence of an earlier group that shares a partition with ``record``. All of a
    partition's ranges are published in turn, empty ones too: a publish moves all partitions of a sequence at once."""
    if record is None:
        return None
    group, start = record.ref.group, record.start
    before = (r for r in unpublished if r.ref.group < group and not start.keys().isdisjoint(r.start))
    return next((r.ref.name for r in before), None)


def seal_sequence(
    record: SequenceRecord, end: OffsetMap, following: NextSequence | None, attempts_placed: bool
) -> tuple[SequenceRecord, SequenceRecord | None]:
    """An open sequence with its end saved, and its successor (None: the partitions are released).

    The successor counts as assigned from the start when a worker has an attempt of the group: it reads on
    into it without being told by another start command (PR-7). StoreConflict: its start has moved past ``end`` (PR-9).
    """
    assert record.state is SequenceState.OPEN
    assert end.keys() == record.start.keys(), f"end {end} names other partitions than {record.start}"
    if not end.reached(record.start):
        raise StoreConflict(f"sequence {record.ref.name} starts at {record.start} now, its end cannot be {end}")
    state = SequenceState.CLOSED_EMPTY if end == record.start else SequenceState.SEALED
    sealed = replace(record, state=state, end=end, released=following is None)
    if following is None:
        return sealed, None
    successor = SequenceRecord(
        ref=replace(record.ref, number=record.ref.number + 1),
        start=end,
        epochs=record.epochs,
        spec_version=following.spec_version,
        opened_at_ms=following.opened_at_ms,
        assigned=attempts_placed,
    )
    return sealed, successor


def stored_seal(record: SequenceRecord | None, ref: SequenceRef) -> SequenceRecord | None:
    """What a repeated seal is answered with, None when the sequence is still open (first wins, CK-2).

    Raises:
        StoreConflict: no such sequence, or it was voided.
    """
    if record is None:
        raise StoreConflict(f"sequence {ref.name} does not exist")
    if record.state is SequenceState.VOID:
        raise StoreConflict(f"sequence {ref.name} was voided; read its group anew")
    return None if record.state is SequenceState.OPEN else record


def acquired_start(
    partitions: Iterable[int], unpublished: Iterable[SequenceRecord], committed: Mapping[int, int]
) -> OffsetMap:
    """Where a new group starts: at the last saved end of each partition, else at its committed offset.

    Raises:
        StoreConflict: an open sequence owns a partition, or it has no offset row (PR-11).
    """
    start: dict[int, int] = {}
    for partition in partitions:
        if partition not in committed:
            raise StoreConflict(f"partition {partition} has no offset row yet")
        start[partition] = committed[partition]
    for record in unpublished:
        for partition in record.start:
            if partition not in start:
                continue
            if record.end is None:
                raise StoreConflict(f"partition {partition} is owned by the open sequence {record.ref.name}")
            start[partition] = max(start[partition], record.end[partition])
    return OffsetMap(start)


def dependents(first: Iterable[SequenceRef], unpublished: Sequence[SequenceRecord]) -> list[SequenceRecord]:
    """The unpublished sequences among ``first`` and all that can no longer publish once those are
    void: later ones of the same group, and those of later groups that start where they end.

    Chains per partition are linear and group epochs grow, so one pass in (group, number) order
    suffices.
    """
    wanted = set(first)
    doomed: list[SequenceRecord] = []
    broken: set[int] = set()  # partitions whose chain has lost a range
    groups: set[int] = set()
    for record in sorted(unpublished, key=lambda r: (r.ref.group, r.ref.number)):
        if record.ref in wanted or record.ref.group in groups or not broken.isdisjoint(record.start):
            doomed.append(record)
            groups.add(record.ref.group)
            broken.update(p for p, start in record.start.items() if record.end is None or record.end[p] > start)
    return doomed


def raised_end(
    record: SequenceRecord | None, end: OffsetMap, later: Sequence[SequenceRecord], attempts: Iterable[AttemptRecord]
) -> tuple[SequenceRecord, SequenceRecord | None]:
    """The sequence with a raised end and its successor moved along (PR-9's last sentence).

    ``later``: unpublished sequences that share a partition and follow it; ``attempts``: all of its
    group, ended ones included, whose reported positions tell what was read.

    Raises:
        StoreConflict: not sealed, published, or somebody may have read past the old end.
    """
    if record is None or record.state is not SequenceState.SEALED or record.end is None:
        raise StoreConflict("only a sealed, unpublished sequence can have its end raised")
    if not end.reached(record.end) or end.keys() != record.end.keys():
        raise StoreConflict(f"end {end} does not reach the saved end {record.end}")
    if end == record.end:
        return record, None
    number = record.ref.number + 1
    for successor in later:
        if successor.ref.group != record.ref.group or successor.ref.number != number or successor.end is not None:
            raise StoreConflict(f"sequence {successor.ref.name} already continues from the saved end {record.end}")
    for attempt in attempts:
        past = attempt.positions_sequence > number or (
            attempt.positions_sequence == number and any(attempt.positions.get(p, o) > o for p, o in record.end.items())
        )
        if past:
            raise StoreConflict(f"attempt {attempt.task_id} has read past the saved end {record.end}")
    return replace(record, end=end), replace(later[0], start=end) if later else None


# ---------------------------------------------------------------- tables and nodes


def allocated_version(existing: Iterable[str], now_ms: int) -> str:
    """The version of a new segment: the highest in its time chunk, or an ISO time for the first there."""
    return max(existing, default=format_iso_ms(now_ms))


def served_version(current: int, nodes: Iterable[NodeRecord], datasource: str, gone: Mapping[str, int]) -> int:
    """The lowest version that a live query node may still have to fetch for, at most the current one."""
    live = (n for n in nodes if QUERY_ROLE in n.roles and gone.get(n.node) != n.renewed_ms)
    acknowledged = (n.acknowledged[datasource] for n in live if datasource in n.acknowledged)
    return min(acknowledged, default=current) if current else 0


def furthest_acknowledged(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    """Acknowledged versions never go back."""
    return {**old, **{name: max(version, old.get(name, 0)) for name, version in new.items()}}


# ---------------------------------------------------------------- offsets


def meant(stored: StreamOffsets, moves: OffsetMap | None, topic_id: str | None) -> tuple[OffsetMap, str | None]:
    """A reset without ``moves`` leaves every partition where it is, whatever was committed until just now."""
    return (stored.committed, stored.topic_id) if moves is None else (moves, topic_id)


def reset_stream(
    stored: StreamOffsets, moves: OffsetMap, topic_id: str | None, others: Mapping[int, int] | None = None
) -> StreamOffsets:
    """The stream with the named partitions moved and their epochs raised; new partitions are added. ``others`` are
    the epochs of the supervisor's other streams, which share its numbers of partitions: no epoch is of two streams."""
    raised = {p: max(stored.epochs.get(p, -1), (others or {}).get(p, -1)) + 1 for p in moves}
    return replace(
        stored,
        topic_id=stored.topic_id if topic_id is None else topic_id,
        committed=stored.committed.with_(moves),
        epochs=stored.epochs.with_(raised),
        starts=stored.starts.with_(moves),
    )


def raise_epochs(
    stored: StreamOffsets, doomed: Sequence[SequenceRecord], unpublished: Sequence[SequenceRecord]
) -> StreamOffsets:
    """The stream with the epochs of the doomed sequences' partitions raised where they stand (PR-4).

    Raises:
        StoreConflict: a sequence that stays would be fenced by its own epoch.
    """
    partitions = sorted({p for record in doomed for p in record.start})
    going = {record.ref for record in doomed}
    for record in unpublished:
        if record.ref not in going and not record.start.keys().isdisjoint(partitions):
            raise StoreConflict(
                f"sequence {record.ref.name} is still unpublished; void from it on, or publish it first"
            )
    return reset_stream(stored, stored.committed.restrict(partitions), None)


def followers(record: SequenceRecord, unpublished: Iterable[SequenceRecord]) -> list[SequenceRecord]:
    """Unpublished sequences that share a partition with ``record`` and come after it, in order."""
    key = (record.ref.group, record.ref.number)
    return [
        r
        for r in sorted(unpublished, key=lambda r: (r.ref.group, r.ref.number))
        if (r.ref.group, r.ref.number) > key and not r.start.keys().isdisjoint(record.start)
    ]


# ---------------------------------------------------------------- what a publish writes


def pending_segment(datasource: str, start_ms: int, end_ms: int, version: str, number: int) -> PendingSegment:
    """A newly numbered segment id in its text form."""
    name = SegmentId(DataSource(datasource), Interval(start_ms, end_ms), version, number)
    return PendingSegment(str(name), version, number)


def ledger_row(request: PublishRequest, record: SequenceRecord, topic: str, version: int, now_ms: int) -> LedgerRow:
    """The permanent proof of this publish."""
    return LedgerRow(
        ref=request.ref,
        topic=topic,
        start=request.start,
        end=request.end,
        epochs=request.epochs,
        counts=dict(request.counts),
        rows_in=request.rows_in,
        rows_stored=request.rows_stored,
        segment_ids=tuple(str(segment["id"]) for segment in request.segments),
        quarantine_path=None if request.quarantine is None else str(request.quarantine["path"]),
        spec_version=record.spec_version,
        version=version,
        published_ms=now_ms,
        token=request.token,
    )


def quarantine_row(file: Mapping[str, Any], datasource: str, ref: SequenceRef, now_ms: int) -> QuarantineRow:
    """The row of a sequence's quarantine file (PR-21)."""
    load_spec = dict(file["loadSpec"])
    return QuarantineRow(
        datasource, ref, str(file["path"]), int(file["rows"]), int(file["sizeBytes"]), load_spec, now_ms
    )


Visibility = tuple[tuple[int, int | None], ...]


def marked(visibility: Visibility, used: bool, version: int) -> Visibility:
    """A segment's visibility after it was marked used (a new row) or unused (its last row ends), PR-3."""
    if used:
        return (*visibility, (version, None))
    *earlier, (added, removed) = visibility
    assert removed is None
    return (*earlier, (added, version))


def first_epoch(highest: int | None) -> int:
    """The reset epoch of a stream's first offsets, above the ``highest`` of all streams its supervisor read before:
    positions that were answered there must not pass for positions here (PR-4)."""
    return 0 if highest is None else highest + 1


def with_partitions(stored: StreamOffsets, starts: OffsetMap, others: Mapping[int, int] | None = None) -> StreamOffsets:
    """The stream with rows for those of ``starts`` that it did not know (PR-11); ``others`` as for a reset."""
    new = OffsetMap((p, o) for p, o in starts.items() if p not in stored.committed)
    lowest = min(stored.epochs.values(), default=0)
    epochs = {p: max(lowest, (others or {}).get(p, -1) + 1) for p in new}
    return replace(
        stored,
        committed=stored.committed.with_(new),
        epochs=stored.epochs.with_(epochs),
        starts=stored.starts.with_(new),
    )
