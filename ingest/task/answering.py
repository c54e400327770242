"""Which of a task's sequences answer a query at a table version (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.protocol import SequenceRecord
from ingest.task.machine_state import TaskView
from ingest.task.messages import TaskStatus
from segments.live import LiveAsk, LiveStatus


def live_sequences(view: TaskView, ask: LiveAsk) -> tuple[LiveStatus, tuple[int, ...]]:
    """The numbers of the held sequences that are live at the asked version, in order.

    The committed vector alone decides (PR-1): live is what starts at or past it. A task that has
    already dropped something published later than the asked version says TOO_OLD, never less rows
    (PR-6); one that has not learnt its sequences yet says NOT_THERE; another reset epoch than the
    asked one is EPOCH (PR-24). Whether the ranges of all groups join without gap or overlap is for
    the asking node to judge.
    """
    if ask.version < view.dropped_through:
        return LiveStatus.TOO_OLD, ()
    if view.status is TaskStatus.STARTING:
        return LiveStatus.NOT_THERE, ()
    held = [record for record, _, _, _ in view.sequences]
    live = [record for record in held if all(record.start[p] >= ask.vector.get(p, 0) for p in record.start)]
    if any(not _same_epochs(record, ask.epochs) for record in live):
        return LiveStatus.EPOCH, ()
    return LiveStatus.OK, tuple(record.ref.number for record in live)


def _same_epochs(record: SequenceRecord, epochs: Mapping[int, int]) -> bool:
    return all(epochs.get(partition, epoch) == epoch for partition, epoch in record.epochs.items())
