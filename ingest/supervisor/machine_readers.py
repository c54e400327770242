"""Whether what was read of a sequence still has a reader, before a supervisor ends it for good (pure)."""

from __future__ import annotations

from ingest.metadata.records import DesiredState
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import AttemptState, SequenceRecord
from ingest.supervisor.agreement import CheckpointRound
from ingest.supervisor.state import Group, Replica, SupervisorStateBase


class ReaderRules(SupervisorStateBase):
    """Rows that were answered must not leave the answers because a task died at the wrong moment.

    What a task reported is known. What it read in its last moment, up to a second, it answered all the same: it
    cannot lie beyond the end of the log as seen after its death, and no reader needs long to come as far.
    """

    def note_unheard(self, group: Group) -> None:
        """Somebody may have read more of it than was reported, and cannot say."""
        group.unheard_since_ms = self.seen_ms or 0
        group.unheard_ends = None

    def note_ended(self, group: Group, replica: Replica, state: AttemptState) -> None:
        """An attempt that ended well has said all it read."""
        if (
            replica.attempt.state in (AttemptState.RUNNING, AttemptState.STOPPING)
            and state is not AttemptState.SUCCEEDED
        ):
            self.note_unheard(group)

    def note_ends(self, looked_ms: int, log_ends: OffsetMap) -> None:
        """Of the first look that began after it."""
        for group in self.groups.values():
            since_ms = group.unheard_since_ms
            if since_ms is not None and since_ms <= looked_ms and group.unheard_ends is None:
                group.unheard_ends = log_ends.restrict(p for p in group.partitions if p in log_ends)

    def awaits_reader(self, group: Group) -> bool:
        """Whether what was read of the open sequence has no living reader who got as far: then its end
        waits, for a time, for a replacement that reads it again (PR-10). Past that time it is ended
        where it was last reported, and whoever can reads up to there."""
        record = group.open
        if record is None or self._is_below_log(group, record) or not self._is_missing(group, record):
            group.reader_wait_ms = group.reached_ms = None
            return False
        if group.reader_wait_ms is None:
            group.reader_wait_ms = self.now_ms + self.config.reread_ms
        return self.now_ms < group.reader_wait_ms

    def _is_below_log(self, group: Group, record: SequenceRecord) -> bool:
        log_starts = OffsetMap((p, o) for p, o in self.log_starts.items() if p in group.reported)
        return not record.start.reached(log_starts)

    def _is_missing(self, group: Group, record: SequenceRecord) -> bool:
        readers = [r.attempt for r in group.running() if r.attempt.positions_sequence == record.ref.number]
        living = furthest(record.start, *(a.positions for a in readers))
        if not living.reached(group.reported):
            group.reached_ms = None
            return True
        # The rest matters only where the epochs are raised: else whoever reads on shows it again.
        if group.unheard_since_ms is None or self.desired is DesiredState.RUNNING:
            return False
        if readers and group.reached_ms is None:
            group.reached_ms = self.now_ms
        settled = group.reached_ms is not None and self.now_ms - group.reached_ms >= self.config.settle_ms
        seen = group.unheard_ends is not None and living.reached(group.unheard_ends)
        if settled or seen:
            group.unheard_since_ms = None
        return not (settled or seen)

    def is_heard_out(self, group: Group, round_: CheckpointRound) -> bool:
        """Whether a round may end as those agree who answered. Where the epochs are raised, not while others
        have yet to read what somebody lost may have read; for one that is silent it waits like this once."""
        if self.desired is DesiredState.RUNNING:
            return True
        if round_.awaiting - group.excused:
            group.excused |= round_.awaiting
            self.note_unheard(group)
        waited = group.reader_wait_ms is not None and self.now_ms >= group.reader_wait_ms
        return waited or group.unheard_since_ms is None
