"""Supervisors with one rule removed each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingest.metadata import rules as store_rules
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import AttemptState, PublishOutcome, SealCommand, SequenceState
from ingest.supervisor import agreement, machine_groups, machine_replicas, machine_rounds, state
from ingest.supervisor.agreement import RoundStep
from ingest.supervisor.messages import Command, SealSequence, SendTask
from tests.simulation.mutation import Mutant

Round = agreement.CheckpointRound
Rounds = machine_rounds.RoundRules
Replicas = machine_replicas.ReplicaRules
Groups = machine_groups.GroupRules


def nothing(*_: Any, **__: Any) -> list[Command]:
    return []


def _wait_of_failures(self: Any, group: Any, killed: bool) -> int:
    return int(min(self.config.restart_ms << group.failures, self.config.restart_max_ms))


def _one_replicas_end(self: Any) -> OffsetMap:
    """The first report, not the furthest of all."""
    start = self.record.start
    first = next(iter(self.positions.values()), start)
    return OffsetMap((p, max(o, first.get(p, o))) for p, o in start.items())


def _end_without_start(self: Any) -> OffsetMap:
    reports = [p for p in self.positions.values() if p]
    return OffsetMap((p, max((r.get(p, 0) for r in reports), default=o)) for p, o in self.record.start.items())


def _take_raw(self: Any, token: str, sequence: int, positions: OffsetMap) -> None:
    self.awaiting.discard(token)
    self.positions[token] = positions


def _take_any_report(self: Any, token: str, report: Any) -> bool:
    if self.step is not RoundStep.PAUSING:
        return False
    self._take(token, self.record.ref.number, report.positions)
    return True


_end_pausing = Rounds._end_pausing


def _tell_before_saving(machine: Any, group: Any, round_: Any) -> list[Command]:
    """Every replica hears the end, then it is saved."""
    commands = _end_pausing(machine, group, round_)
    early: list[Command] = []
    for command in commands:
        if isinstance(command, SealSequence):
            sealed = replace(
                round_.record,
                end=command.end,
                state=SequenceState.CLOSED_EMPTY if command.end == round_.record.start else SequenceState.SEALED,
                released=command.following is None,
            )
            records = [*(r for r in group.in_order() if r.end is not None), sealed]
            if command.following is not None:
                ref = replace(sealed.ref, number=sealed.ref.number + 1)
                records.append(replace(round_.record, ref=ref, start=command.end))
            seal = SealCommand(machine.generation, round_.number, tuple(records))
            early += [SendTask(replica.token, seal) for replica in group.running()]
    return [*early, *commands]


_advance_round = Rounds.advance_round


def _no_deadline(machine: Any, group: Any) -> list[Command]:
    return [] if group.round is not None and group.round.awaiting else _advance_round(machine, group)


def _void_always(self: Any) -> bool:
    return bool(self.agreed_end() == self.record.start)


def _no_resume(machine: Any, group: Any, round_: Any) -> list[Command]:
    group.round = None
    return []


def _give_up_saving(machine: Any, event: Any) -> list[Command]:
    """The seal's answer is taken, its round is not ended."""
    group = machine.groups.get(event.records[0].ref.group)
    if group is not None:
        group.take_records(event.records, machine.next_round())
    return []


def _end_of_a_committer(machine: Any, group: Any) -> list[Command]:
    """Once chosen, the committer stays, dead or alive."""
    present = group.replicas.get(group.committer or "")
    if present is None or present.ending:
        return []
    return _choose_committer(machine, group)


_choose_committer = Replicas.choose_committer


def _only_the_newest_publish(machine: Any, event: Any) -> list[Command]:
    group = machine.groups.get(event.ref.group)
    if group is not None and event.outcome in (PublishOutcome.PUBLISHED, PublishOutcome.ALREADY):
        group.sequences.pop(event.ref.number, None)
        return []
    return _on_publish_seen(machine, event)


_on_publish_seen = Groups.on_publish_seen


def _acquire_owned(partitions: Any, unpublished: Any, committed: Any) -> OffsetMap:
    """A group may take what an open sequence still owns."""
    return OffsetMap((p, committed[p]) for p in partitions)


def _open_at_once(machine: Any) -> list[Command]:
    saved, machine.groups = machine.groups, {}
    try:
        commands = _steer_groups(machine)
    finally:
        machine.groups = saved
    return [*commands, *_steer_groups(machine)]


_steer_groups = Groups.steer_groups


def _never_missing(machine: Any, group: Any) -> list[Command]:
    """A silent replica counts as present, however long."""
    return _start_missing(machine, group)


_start_missing = Replicas.start_missing


def _tell_only_newest(self: Any) -> Any:
    """The newest sequence without the sealed ones before it."""
    return self.in_order()[-1:] or self.last_records[-1:]


def _forget_open_groups(machine: Any, event: Any) -> list[Command]:
    """A new leader starts from nothing instead of the store."""
    return _on_state_loaded(machine, replace(event, state=replace(event.state, groups=())))


_on_state_loaded = Groups.on_state_loaded


def _reload_keeps_voided(machine: Any, event: Any) -> list[Command]:
    machine.offsets = event.offsets
    machine.storing_offsets = False
    machine.resets = [reset for reset in machine.resets if not reset.resetting]
    return []


def _rest_without_epochs(machine: Any) -> list[Command]:
    return [c for c in _rest(machine) if type(c).__name__ != "RaiseEpochs"] if not machine.storing_offsets else []


_rest = Groups.rest


def _void_and_keep(machine: Any, event: Any) -> list[Command]:
    group = machine.groups.get(event.group)
    if group is not None:
        group.voiding = False
    return []


def _attempts_of_zero(machine: Any, replica: Any) -> int:
    return -1


def _only_release(machine: Any, group: Any) -> Any:
    return agreement.RoundReason.RELEASE if group.open is not None and group.release_reason else None


def _fence_at_once(machine: Any, group: Any) -> list[Command]:
    silent = [r for r in list(group.replicas.values()) if machine.silent_ms(r) >= 0 and not r.ending]
    return [c for r in silent for c in machine.end_attempt(r, AttemptState.FENCED, "silent")]


def _reset_at_once(machine: Any, event: Any) -> list[Command]:
    return _on_reset_asked(machine, replace(event, discard=True))


_on_reset_asked = Groups.on_reset_asked


def _only_what_the_living_say(self: Any) -> OffsetMap:
    """What an ended attempt had read does not count."""
    start = self.record.start
    return furthest(start, *(p.restrict(q for q in p if q in start) for p in self.positions.values()))


def _still_resetting(machine: Any, wishes: Any) -> None:
    flags = [(reset, reset.resetting) for reset in machine.resets]
    _take_wishes(machine, wishes)
    for reset, was in flags:
        reset.resetting = was


_take_wishes = Groups._take_wishes


def _never_waits(machine: Any, group: Any) -> bool:
    return False


MUTANTS = [
    Mutant(
        "broken-spec-kept",
        "a posted spec gives up what no attempt could finish",
        "PR-14",
        lambda: [(Groups, "give_up_old_spec", nothing)],
    ),
    Mutant(
        "reported-forgotten",
        "no end lies below what was reported, also by the dead",
        "PR-10",
        lambda: [(Round, "agreed_end", _only_what_the_living_say)],
    ),
    Mutant(
        "no-reader-awaited",
        "a release waits for a reader who got as far again",
        "PR-10",
        lambda: [(Rounds, "awaits_reader", _never_waits)],
    ),
    Mutant(
        "refused-reset-stays",
        "a refused reset is tried again",
        "PR-24",
        lambda: [(Groups, "_take_wishes", _still_resetting)],
    ),
    Mutant(
        "one-replicas-end",
        "the furthest positions are taken, not one replica's",
        "CK-2",
        lambda: [(Round, "agreed_end", _one_replicas_end)],
    ),
    Mutant(
        "end-below-start",
        "an end is never below the start",
        "PR-10",
        lambda: [(Round, "agreed_end", _end_without_start), (Round, "_take", _take_raw)],
    ),
    Mutant(
        "any-report", "a late report answers no other round", "CK-4", lambda: [(Round, "take_report", _take_any_report)]
    ),
    Mutant("tell-before-saving", "saved before told", "CK-5", lambda: [(Rounds, "_end_pausing", _tell_before_saving)]),
    Mutant(
        "no-deadline", "every step of a round has a deadline", "LV-1", lambda: [(Rounds, "advance_round", _no_deadline)]
    ),
    Mutant(
        "empty-never-closes",
        "release closes a sequence even if nothing was read",
        "PR-10",
        lambda: [(Round, "is_void", _void_always)],
    ),
    Mutant(
        "saved-not-told",
        "what is saved is told",
        "CK-5",
        lambda: [(Rounds, "on_sequence_sealed", _give_up_saving), (Rounds, "tell_untold", nothing)],
    ),
    Mutant(
        "no-new-committer",
        "an ended committer is replaced",
        "PB-7",
        lambda: [(Replicas, "choose_committer", _end_of_a_committer)],
    ),
    Mutant(
        "newest-publish-only",
        "a publish proves those before it",
        "PB-1",
        lambda: [(Groups, "on_publish_seen", _only_the_newest_publish)],
    ),
    Mutant(
        "acquire-unreleased",
        "a partition is released before it is acquired",
        "PR-11",
        lambda: [(store_rules, "acquired_start", _acquire_owned), (Groups, "steer_groups", _open_at_once)],
    ),
    Mutant(
        "silent-forever",
        "a silent replica is fenced in the end",
        "PR-25",
        lambda: [(Replicas, "fence_silent", nothing), (Replicas, "silent_ms", _attempts_of_zero)],
    ),
    Mutant(
        "newest-fact-only",
        "a replacement gets every saved checkpoint of its group",
        "CK-6",
        lambda: [(state.Group, "facts", _tell_only_newest)],
    ),
    Mutant(
        "leader-from-nothing",
        "a new leader goes on from the store",
        "CK-7",
        lambda: [(Groups, "on_state_loaded", _forget_open_groups)],
    ),
    Mutant(
        "reset-not-reread",
        "after a reset the store is read again",
        "PR-24",
        lambda: [(Groups, "on_offsets_stored", _reload_keeps_voided)],
    ),
    Mutant("rest-keeps-epochs", "a rest raises the epochs", "PR-4", lambda: [(Groups, "rest", _rest_without_epochs)]),
    Mutant(
        "void-not-noted",
        "voided sequences are given up by the supervisor",
        "PR-13",
        lambda: [(Groups, "on_sequences_voided", _void_and_keep)],
    ),
    Mutant(
        "no-cut-over",
        "a new spec ends the open sequence",
        "I-26",
        lambda: [(Rounds, "reason_to_end", _only_release)],
    ),
    Mutant(
        "last-fenced-at-once",
        "the last replica that holds rows is not fenced for silence at once",
        "PR-25",
        lambda: [(Replicas, "fence_silent", _fence_at_once)],
    ),
    Mutant(
        "stall-counts",
        "time in which the loop stood still does not count",
        "PR-25",
        lambda: [(state, "STALL_MS", 10**9)],
    ),
    Mutant(
        "window-not-inherited",
        "a range read again keeps the time of the earliest it covers",
        "PR-15",
        lambda: [(Groups, "_inherit", nothing)],
    ),
    Mutant(
        "reset-before-publish",
        "a reset first publishes what was read",
        "PR-24",
        lambda: [(Groups, "on_reset_asked", _reset_at_once)],
    ),
    Mutant(
        "kills-are-failures",
        "a task that was ended from outside is started again within seconds",
        "LV-5",
        lambda: [(Replicas, "restart_wait_ms", _wait_of_failures)],
    ),
    Mutant("ends-not-taken", "an ended process is replaced", "LV-1", lambda: [(Replicas, "on_task_ended", nothing)]),
]
