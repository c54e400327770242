"""Another number of tasks: partitions move by release and acquire, and what lies before has first claim on slots."""

from __future__ import annotations

from dataclasses import replace

from ingest.metadata.records import DesiredState
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRef, SequenceState
from ingest.spec import AutoScaling
from ingest.supervisor import messages as m
from tests.unit.protocol.lead import CONFIG, Lead
from tests.unit.protocol.task_builder import at


def two_groups(partitions: int = 4) -> Lead:
    """Groups (0, 2, ...) and (1, 3, ...), one running task each: t1 and t2."""
    lead = Lead(replace(CONFIG, task_count=2), partitions)
    lead.run("t1", "w1")
    lead.run("t2", "w1")
    return lead


def scaled(lead: Lead, count: int) -> list[m.Command]:
    config = replace(lead.machine.config, task_count=count)
    return lead.desire(DesiredState.RUNNING, config)


def released(lead: Lead, token: str, group: int, *offsets: int) -> list[m.Command]:
    """The group's task reports where it stands in the round that releases its partitions."""
    partitions = lead.machine.groups[group].partitions
    round_ = lead.machine.groups[group].round
    assert round_ is not None
    positions = dict(zip(partitions, offsets, strict=True))
    return lead.paused(token, round_.number, 0, *(positions.get(p, 0) for p in range(max(partitions) + 1)))


def test_partitions_are_acquired_where_they_were_released_and_only_when_all_are() -> None:
    lead = two_groups()
    scaled(lead, 1)
    released(lead, "t1", 1, 5, 6)
    assert not lead.of(m.OpenGroup), "partitions 1 and 3 are still read by their old group"
    released(lead, "t2", 2, 7, 8)
    [opened] = lead.of(m.OpenGroup)
    assert isinstance(opened, m.OpenGroup) and opened.partitions == (0, 1, 2, 3)
    assert lead.store.sequences("edits", 3, 0)[0].start == at(5, 7, 6, 8)


def test_a_group_that_keeps_its_partitions_reads_on() -> None:
    lead = Lead(replace(CONFIG, task_count=2), partitions=3)
    lead.run("t1", "w1")
    lead.run("t2", "w1")
    scaled(lead, 3)
    waiting = {epoch: group.release_reason for epoch, group in lead.machine.groups.items()}
    assert waiting == {1: "partitions", 2: ""}, "partition 1 stays where it is"


def test_a_leader_that_dies_between_the_two_facts_leaves_the_second_to_the_next() -> None:
    lead = two_groups()
    scaled(lead, 1)
    released(lead, "t1", 1, 5, 6)
    lead.take_over(lead.generation, replace(CONFIG, task_count=1, spec_version=lead.machine.config.spec_version))
    lead.tick()
    assert lead.machine.groups[1].open is None and lead.machine.groups[2].round is not None
    released(lead, "t2", 2, 7, 8)
    assert lead.store.sequences("edits", 3, 0)[0].start == at(5, 7, 6, 8)


def test_the_oldest_range_of_a_partition_claims_a_slot_when_its_tasks_are_dead() -> None:
    lead = two_groups()
    scaled(lead, 1)
    released(lead, "t1", 1, 5, 6)
    released(lead, "t2", 2, 7, 8)
    lead.ended("t1")
    lead.ticks(2_000)
    [replacement] = [r.token for r in lead.machine.groups[1].replicas.values()]
    assert lead.machine.groups[1].replicas[replacement].claimed
    assert not any(r.claimed for r in lead.machine.groups[3].replicas.values()), "whoever reads on waits its turn"


def test_a_range_behind_an_unpublished_one_claims_nothing_until_that_is_published() -> None:
    lead = Lead(replace(CONFIG, task_count=1), partitions=2)
    lead.run("t1", "w1")
    scaled(lead, 2)
    released(lead, "t1", 1, 5, 6)
    lead.run("t2", "w1")
    lead.beat("t2", 0, 9)
    scaled(lead, 1)
    assert lead.machine.groups[2].round is not None
    released(lead, "t2", 2, 9)
    lead.ended("t2")
    lead.ticks(2_000)
    [second] = lead.machine.groups[2].replicas.values()
    assert not second.claimed, "its range starts where that of group 1 ends, which is not published"
    lead.published(SequenceRef("edits", 1, 0))
    assert lead.of(m.ClaimSlot) == [m.ClaimSlot(second.token)]
    assert lead.store.sequences("edits", 2, 0)[0].state is SequenceState.SEALED


def test_tasks_that_only_wait_for_query_nodes_hold_no_slot() -> None:
    lead = two_groups(2)
    scaled(lead, 1)
    released(lead, "t1", 1, 5)
    released(lead, "t2", 2, 7)
    assert not lead.of(m.FreeSlot)
    lead.published(SequenceRef("edits", 1, 0))
    assert lead.of(m.FreeSlot) == [m.FreeSlot("t1")]
    lead.published(SequenceRef("edits", 2, 0))
    assert lead.of(m.FreeSlot) == [m.FreeSlot("t2")], "said once by each leader"
    lead.take_over(lead.generation, replace(CONFIG, task_count=1))
    assert lead.of(m.FreeSlot) == [m.FreeSlot("t1"), m.FreeSlot("t2")]


BY_LAG = AutoScaling(
    task_count_min=1,
    task_count_max=4,
    collection_interval_ms=1_000,
    collection_range_ms=2_000,
    start_delay_ms=1_000,
    period_ms=1_000,
    scale_out_threshold=100,
    scale_in_threshold=10,
    scale_out_delay_ms=2_000,
    scale_in_delay_ms=60_000,
)
SCALED = replace(CONFIG, scaling=BY_LAG)


def behind(lead: Lead, lag: int, partitions: int = 4) -> None:
    """The stream was seen that far ahead of what is committed."""
    ends = OffsetMap((p, lag // partitions) for p in range(partitions))
    lead.post(m.StreamSeen(lead.now_ms, "id", OffsetMap(), OffsetMap((p, 0) for p in range(partitions)), ends))


def scaling_lead() -> Lead:
    lead = Lead(SCALED, partitions=4)
    lead.run("t1", "w1")
    return lead


def test_lag_adds_tasks_and_the_decision_is_a_row_before_anything_moves() -> None:
    lead = scaling_lead()
    behind(lead, 400)
    done = lead.ticks(3_500)
    [scale] = [c for c in done if isinstance(c, m.ScaleTasks)]
    assert scale.task_count == 3
    row = lead.store.last_audit("edits", "scale")
    assert row is not None and (row.detail["from"], row.detail["taskCount"], row.detail["lag"]) == (1, 3, 400)
    assert lead.group.release_reason == "partitions"
    released(lead, "t1", 1, 5, 6, 7, 8)
    assert [g.partitions for g in lead.machine.groups.values() if g.open] == [(0, 1), (2,), (3,)]


def test_no_further_step_is_taken_while_partitions_move() -> None:
    lead = scaling_lead()
    behind(lead, 400)
    lead.ticks(3_500)
    assert not [c for c in lead.ticks(2_000) if isinstance(c, m.ScaleTasks)]
    released(lead, "t1", 1, 5, 6, 7, 8)
    assert not [c for c in lead.ticks(6_000) if isinstance(c, m.ScaleTasks)]
    assert lead.machine.scaler is not None
    assert "not published yet" in str(lead.machine.scaler.held_back)
    lead.published(SequenceRef("edits", 1, 0))
    assert not [c for c in lead.ticks(2_000) if isinstance(c, m.ScaleTasks)], "its task still serves query nodes"
    lead.ended("t1", True)
    assert [c.task_count for c in lead.ticks(2_000) if isinstance(c, m.ScaleTasks)] == [4]


def test_the_next_leader_lays_the_tasks_out_as_was_decided() -> None:
    lead = scaling_lead()
    behind(lead, 400)
    lead.ticks(3_500)
    lead.take_over(lead.generation, SCALED)
    assert lead.machine.task_count == 3
    other_bounds = replace(SCALED, scaling=replace(BY_LAG, task_count_max=2))
    lead.take_over(lead.generation, other_bounds)
    assert lead.machine.task_count == 1, "what was decided between other bounds counts no more"


def test_reading_the_store_again_keeps_the_samples() -> None:
    lead = scaling_lead()
    behind(lead, 400)
    lead.ticks(3_500)
    behind(lead, 400)
    lead.ticks(1_500)
    lead.post(lead.loaded())
    assert lead.machine.scaler is not None and lead.machine.scaler.view(3).samples > 0


def test_a_posted_spec_with_the_same_bounds_keeps_the_number_of_tasks() -> None:
    lead = scaling_lead()
    behind(lead, 400)
    lead.ticks(3_500)
    lead.desire(DesiredState.RUNNING, replace(SCALED, spec_version=2))
    assert lead.machine.task_count == 3
    lead.desire(DesiredState.RUNNING, replace(CONFIG, spec_version=3, task_count=2))
    assert lead.machine.task_count == 2 and lead.machine.scaler is None


def test_suspended_or_without_sight_of_the_stream_it_does_not_scale() -> None:
    lead = scaling_lead()
    behind(lead, 400)
    lead.post(m.StreamFailed(lead.now_ms, "no broker"))
    assert not [c for c in lead.ticks(5_000) if isinstance(c, m.ScaleTasks)]
    lead.desire(DesiredState.SUSPENDED)
    behind(lead, 400)
    assert not [c for c in lead.ticks(5_000) if isinstance(c, m.ScaleTasks)]
