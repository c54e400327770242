"""Replicas of a supervisor: started, watched, replaced; who uploads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.offsets import OffsetMap
from ingest.protocol import AttemptState, CommitterCommand, SealCommand, SequenceRef, StopCommand, TaskHeartbeat
from ingest.supervisor import messages as m
from tests.unit.protocol.lead import CONFIG, Lead, one_replica, two_replicas

FIRST = SequenceRef("edits", 1, 0)


def fenced(commands: list[m.Command]) -> list[str]:
    return [c.token for c in commands if isinstance(c, m.MoveAttempt) and c.state is AttemptState.FENCED]


def created(commands: list[m.Command]) -> list[m.CreateAttempt]:
    return [c for c in commands if isinstance(c, m.CreateAttempt)]


def quiet(lead: Lead, for_ms: int, *speaking: str) -> list[m.Command]:
    """Time passes; only ``speaking`` are heard of."""
    done: list[m.Command] = []
    for _ in range(for_ms // 500):
        for token in speaking:
            done += lead.beat(token, 0, *lead.group.replicas[token].attempt.positions.values())
        done += lead.tick()
    return done


def test_a_group_starts_with_all_its_replicas_and_one_committer() -> None:
    lead = Lead(replace(CONFIG, replicas=3))
    replicas = list(lead.group.replicas.values())
    assert [r.slot for r in replicas] == [0, 1, 2]
    assert [r.attempt.committer for r in replicas] == [True, False, False]


def test_a_crashed_attempt_is_replaced_on_its_worker_after_a_growing_wait() -> None:
    lead = one_replica()
    lead.ended("t1")
    assert not created(lead.did) and not created(lead.tick(500))
    [create] = created(lead.tick(500))
    assert (create.task_id, create.attempt, create.prefer_worker) == ("index_kafka_edits_1_0", 2, "w1")
    lead.run("t2")
    lead.ended("t2")
    assert not created(lead.ticks(1_500))
    assert created(lead.ticks(1_000))


@pytest.mark.parametrize(("succeeded", "longest_ms"), [(None, 5_000), (False, 60_000)])
def test_a_storm_of_kills_delays_a_task_by_seconds_its_own_failures_by_ever_more(
    succeeded: bool | None, longest_ms: int
) -> None:
    lead, waits = one_replica(), []
    for number in range(1, 9):
        lead.ended(f"t{number}", succeeded)
        waits.append(lead.group.restart_ms - lead.now_ms)
        lead.ticks(longest_ms + 500)
        lead.run(f"t{number + 1}")
    assert waits == sorted(waits) and waits[:2] == [1_000, 2_000] and waits[-1] == longest_ms


def test_kills_do_not_lengthen_the_wait_after_a_tasks_own_failure() -> None:
    lead = one_replica()
    for number in range(1, 6):
        lead.ended(f"t{number}")
        lead.ticks(5_500)
        lead.run(f"t{number + 1}")
    lead.ended("t6", succeeded=False)
    assert lead.group.restart_ms - lead.now_ms == 1_000


def test_a_published_sequence_ends_the_growing_wait() -> None:
    lead = one_replica()
    lead.group.failures = lead.group.faults = 9
    lead.ask("t1", FIRST, 5, 5)
    lead.published(FIRST)
    assert lead.group.failures == lead.group.faults == 0


def test_a_replica_that_ends_well_while_others_read_is_replaced_without_blame() -> None:
    lead = two_replicas()
    lead.ended("t2", succeeded=True)
    assert created(lead.did + lead.ticks(1_000)) and lead.group.failures == 0


def test_a_silent_replica_is_fenced_and_killed_once_another_has_read_as_far() -> None:
    lead = two_replicas()
    lead.beat("t1", 0, 9, 9)
    lead.beat("t2", 0, 7, 9)
    assert not fenced(quiet(lead, 7_000, "t2"))
    lead.beat("t2", 0, 9, 9)
    assert fenced(lead.tick()) == ["t1"]
    assert m.KillAttempt("t1") in lead.did


def test_the_last_replica_is_probed_then_doubled_and_fenced_only_when_the_second_has_caught_up() -> None:
    lead = one_replica()
    lead.beat("t1", 0, 9, 9)
    done = quiet(lead, 8_000)
    assert not fenced(done) and not created(done)
    assert any(isinstance(c, m.SendTask) and isinstance(c.command, SealCommand) for c in done)
    [create] = created(quiet(lead, 3_000))
    assert create.task_id.endswith("_1")
    lead.run("t2", "w2")
    lead.beat("t2", 0, 8, 9)
    assert not fenced(quiet(lead, 2_000, "t2"))
    lead.beat("t2", 0, 9, 9)
    assert fenced(lead.tick()) == ["t1"]


def test_a_silent_last_replica_is_fenced_at_last_whatever_it_holds() -> None:
    lead = one_replica()
    lead.beat("t1", 0, 9, 9)
    assert fenced(quiet(lead, 70_000)) == ["t1"]


def test_one_that_speaks_again_makes_its_double_superfluous() -> None:
    lead = one_replica()
    lead.beat("t1", 0, 9, 9)
    quiet(lead, 11_000)
    lead.run("t2", "w2")
    lead.beat("t2", 0, 9, 9)
    lead.beat("t1", 0, 9, 9)
    assert lead.sent(StopCommand) == ["t2"]


def test_an_attempt_that_was_assigned_and_never_registers_is_given_up() -> None:
    lead = Lead()
    lead.store.assign_attempt(lead.generation, "t1", "w1")
    lead.post(m.AttemptAssigned(lead.now_ms, "t1", "w1"))
    assert fenced(lead.ticks(61_000)) == ["t1"]


def test_an_attempt_that_waits_for_a_slot_waits_without_end() -> None:
    lead = Lead()
    assert not fenced(lead.ticks(200_000))


def test_a_loop_that_stood_still_blames_nobody() -> None:
    lead = two_replicas()
    lead.beat("t1", 0, 9, 9)
    lead.beat("t2", 0, 9, 9)
    assert not fenced(lead.tick(120_000))
    lead.beat("t1", 0, 9, 9)
    lead.beat("t2", 0, 9, 9)
    assert not fenced(lead.ticks(2_000))


def test_another_replica_becomes_committer_when_the_committer_ends() -> None:
    lead = two_replicas()
    assert lead.group.committer == "t1"
    lead.ended("t1")
    assert lead.of(m.SetCommitter) == [m.SetCommitter("t2")]
    assert lead.sent(CommitterCommand) == ["t2"]
    record = lead.store.attempt("t2")
    assert record is not None and record.committer


def test_a_silent_committer_is_relieved_before_it_is_fenced() -> None:
    lead = two_replicas()
    lead.beat("t1", 0, 9, 9)
    done = quiet(lead, 7_000, "t2")
    assert m.SetCommitter("t2") in done and not fenced(done)


def test_a_committer_that_keeps_a_sequence_waiting_is_relieved() -> None:
    lead = two_replicas(patience_ms=4_000)
    lead.ask("t1", FIRST, 5, 5)
    done = quiet(lead, 9_000, "t1", "t2")
    assert m.SetCommitter("t2") in done


def test_a_leaving_replica_is_told_until_it_knows_and_has_a_successor_at_once() -> None:
    lead = one_replica()
    lead.post(m.ReplicaLeaving(lead.now_ms, "t1", "drain"))
    assert created(lead.did) and lead.sent(StopCommand) == ["t1"]
    stops = [c for c in lead.ticks(2_000) if isinstance(c, m.SendTask) and isinstance(c.command, StopCommand)]
    assert len(stops) == 2
    stop = stops[0].command
    after = lead.took("t1", stop) + lead.ticks(3_000)
    assert not any(isinstance(c, m.SendTask) and isinstance(c.command, StopCommand) for c in after)
    freed = [c for c in after if isinstance(c, m.FreeSlot)]
    assert freed == [m.FreeSlot("t1")], "what it read is published: it only waits for query nodes"


def test_a_task_that_an_earlier_leader_told_to_leave_gets_a_successor_from_the_next_one() -> None:
    lead = one_replica()
    lead.post(m.TaskBeat(lead.now_ms, TaskHeartbeat("t1", 0, OffsetMap(), "stopping", None, 0, 0, 0, {})))
    assert created(lead.did + lead.ticks(1_000))
    assert not lead.sent(StopCommand), "it knows"


def test_fewer_replicas_stop_the_surplus_one_gracefully_if_another_has_its_rows() -> None:
    lead = two_replicas()
    lead.beat("t1", 0, 5, 5)
    lead.beat("t2", 0, 6, 5)
    lead.post(m.DesiredChanged(lead.now_ms, lead.machine.desired, replace(CONFIG, replicas=1)))
    assert lead.sent(StopCommand) == []
    lead.beat("t1", 0, 6, 5)
    assert lead.sent(StopCommand) == ["t2"]


def test_a_task_of_an_older_protocol_is_kept_until_its_sequence_ends_and_then_replaced() -> None:
    lead = one_replica()
    replica = lead.group.replicas["t1"]
    replica.attempt = replace(replica.attempt, protocol=0)
    assert not lead.ticks(3_000) or not lead.sent(StopCommand)
    lead.ask("t1", FIRST, 5, 5)
    assert created(lead.did) and lead.sent(StopCommand) == ["t1"]


def test_attempt_numbers_go_on_under_a_new_leader() -> None:
    lead = one_replica()
    lead.ended("t1")
    leader = lead.store.take_leadership("o2", "o2", lead.store.leadership())
    assert leader is not None
    lead.generation = leader.generation
    lead.machine = type(lead.machine)(CONFIG, leader.generation)
    loaded = lead.loaded()
    ended = tuple(lead.store.attempts("edits", False, 10))
    lead.post(replace(loaded, state=replace(loaded.state, ended=ended)))
    [create] = created(lead.did)
    assert (create.attempt, create.prefer_worker) == (2, "w1")
