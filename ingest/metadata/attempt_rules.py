"""How a stored attempt may change: only forwards, and never back to life (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ingest.errors import AttemptRefused
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import AttemptRecord, AttemptState, SequenceRecord, SequenceRef, SequenceState

_ORDER = {AttemptState.PENDING: 0, AttemptState.ASSIGNED: 1, AttemptState.RUNNING: 2, AttemptState.STOPPING: 3}


def require_live(attempt: AttemptRecord | None) -> AttemptRecord:
    """The attempt, if its token still counts.

    Raises:
        AttemptRefused: unknown, ended or fenced.
    """
    if attempt is None:
        raise AttemptRefused("no attempt has this token; it was never created here")
    if not attempt.state.is_live:
        raise AttemptRefused(f"attempt {attempt.attempt} of task {attempt.task_id} is {attempt.state.value}")
    return attempt


def require_member(attempt: AttemptRecord | None, ref: SequenceRef) -> AttemptRecord:
    """A live attempt of the sequence's group.

    Raises:
        AttemptRefused: not live, or of another group.
    """
    live = require_live(attempt)
    if (live.supervisor, live.group) != (ref.supervisor, ref.group):
        raise AttemptRefused(f"task {live.task_id} belongs to group {live.group}, not to sequence {ref.name}")
    return live


def numbered(attempt: AttemptRecord, taken: int) -> AttemptRecord:
    """The attempt under a number that none of its task had before, ``taken`` being the highest: its name is that of
    its folder, and a leader knows the newest ones only (PR-19)."""
    return replace(attempt, attempt=max(attempt.attempt, taken + 1))


def assigned(attempt: AttemptRecord | None, worker: str) -> AttemptRecord:
    """The attempt once a worker was chosen for it; a repeated choice changes nothing.

    Raises:
        StoreConflict: another worker has it.
    """
    live = require_live(attempt)
    if live.state is AttemptState.PENDING:
        return replace(live, state=AttemptState.ASSIGNED, worker=worker)
    if live.worker != worker:
        raise StoreConflict(f"task {live.task_id} was given to worker {live.worker}, not to {worker}")
    return live


def registered(attempt: AttemptRecord | None, address: str, protocol: int, now_ms: int) -> AttemptRecord:
    """The attempt once its process said where it listens; one that is stopping goes on stopping."""
    live = require_live(attempt)
    state = AttemptState.STOPPING if live.state is AttemptState.STOPPING else AttemptState.RUNNING
    return replace(live, state=state, address=address, protocol=protocol, heartbeat_ms=max(now_ms, live.heartbeat_ms))


IDLE_NOTED_MS = 10_000


def positioned(attempt: AttemptRecord | None, sequence: int, positions: OffsetMap, now_ms: int) -> AttemptRecord:
    """The attempt with reported positions: furthest within one sequence, nothing from an earlier one.

    That a task is alive without having read is noted every ``IDLE_NOTED_MS`` only: an idle task shall cost no
    write a second, and nothing is decided by the stored time (who leads counts the beats it hears itself).
    """
    live = require_live(attempt)
    if sequence < live.positions_sequence:
        sequence, positions = live.positions_sequence, live.positions
    elif sequence == live.positions_sequence:
        positions = furthest(live.positions, positions)
    same = sequence == live.positions_sequence and positions == live.positions
    if same and 0 <= now_ms - live.heartbeat_ms < IDLE_NOTED_MS:
        return live
    return replace(live, positions=positions, positions_sequence=sequence, heartbeat_ms=max(now_ms, live.heartbeat_ms))


def moved(attempt: AttemptRecord | None, state: AttemptState, error: str | None, now_ms: int) -> AttemptRecord:
    """The attempt in a later state; unchanged when the move would lead backwards or out of an end."""
    if attempt is None:
        raise AttemptRefused("no attempt has this token; it was never created here")
    if not attempt.state.is_live:
        return attempt
    if state.is_live:
        return replace(attempt, state=state) if _ORDER[state] > _ORDER[attempt.state] else attempt
    return replace(attempt, state=state, error=error, ended_ms=now_ms, committer=False)


def check_new_file(record: SequenceRecord | None, ref: SequenceRef) -> None:
    """Refuses ids and staged files for a sequence that can never publish them."""
    if record is None:
        raise StoreConflict(f"sequence {ref.name} does not exist")
    if record.state in (SequenceState.VOID, SequenceState.PUBLISHED, SequenceState.CLOSED_EMPTY):
        raise StoreConflict(f"sequence {ref.name} is {record.state.value}; nothing more can be published for it")


def reported(attempts: Iterable[AttemptRecord], open_sequence: SequenceRecord | None) -> OffsetMap:
    """The furthest positions made durable in the group's open sequence, by whichever attempt (PR-7)."""
    if open_sequence is None:
        return OffsetMap()
    number = open_sequence.ref.number
    return furthest(*(a.positions for a in attempts if a.positions_sequence == number))
