"""A supervisor of two thousand tasks and ten thousand partitions stays quick."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ingest.metadata.records import DesiredState, GroupState, StreamOffsets
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AttemptRecord,
    AttemptState,
    SequenceRecord,
    SequenceRef,
    TaskHeartbeat,
)
from ingest.supervisor import messages as m
from ingest.supervisor.config import SupervisorState
from ingest.supervisor.machine import SupervisorMachine
from ingest.supervisor.state import Group
from tests.unit.protocol.lead import CONFIG

GROUPS, PARTITIONS = 2_000, 10_000
# Measured: 30 ms a tick, 13 µs a heartbeat. The bounds allow for a busy machine, not for work that
# grows with the square of the groups (minutes).
TICK_SECONDS_MAX = 0.5


class Counting(SupervisorMachine):
    """Counts the groups that were looked at."""

    steered = 0

    def _steer(self, group: Group) -> list[m.Command]:
        self.steered += 1
        return super()._steer(group)


def large_machine() -> Counting:
    """A supervisor whose groups all read."""
    groups = []
    for epoch in range(GROUPS):
        start = OffsetMap((p, 0) for p in range(epoch, PARTITIONS, GROUPS))
        record = SequenceRecord(SequenceRef("edits", epoch, 0), start, start, 1, 0, assigned=True)
        attempt = AttemptRecord(
            f"index_kafka_edits_{epoch}_0", 1, f"t{epoch}", "edits", "edits", epoch, AttemptState.RUNNING, True, 0
        )
        groups.append(GroupState("edits", epoch, tuple(start), (record,), (attempt,)))
    zeros = OffsetMap((p, 0) for p in range(PARTITIONS))
    offsets = StreamOffsets("edits", "edits", "id", zeros, zeros, zeros)
    machine = Counting(replace(CONFIG, task_count=GROUPS), 1)
    machine.handle(m.StateLoaded(0, 0, SupervisorState(DesiredState.RUNNING, offsets, tuple(groups))))
    return machine


@pytest.fixture(scope="module")
def large() -> Counting:
    return large_machine()


def test_a_tick_over_all_groups_is_far_below_its_period(large: Counting) -> None:
    started = time.process_time()
    large.handle(m.Tick(500, 500))
    assert time.process_time() - started < TICK_SECONDS_MAX


def test_what_one_task_says_costs_work_in_its_own_group_only(large: Counting) -> None:
    large.steered = 0
    large.handle(m.TaskBeat(600, TaskHeartbeat("t7", 0, OffsetMap(), "reading", None, 0, 0, 0, {})))
    assert large.steered == 1
