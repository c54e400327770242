"""How a supervisor's groups come and go: offsets, plan, release and acquire, reset, void, rest."""

from __future__ import annotations

from dataclasses import replace

from ingest.metadata.records import AuditRow, DesiredState, NextSequence, ResetWish
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import AttemptState, PublishOutcome, SequenceRecord, SequenceState
from ingest.supervisor.assignment import PartitionSet, assign
from ingest.supervisor.machine_replicas import ReplicaRules
from ingest.supervisor.messages import (
    AddPartitions,
    Command,
    GroupOpened,
    InitOffsets,
    OffsetsStored,
    OpenGroup,
    PublishSeen,
    RaiseEpochs,
    ResetAsked,
    ResetOffsets,
    Rested,
    SequencesVoided,
    StateLoaded,
    StreamSeen,
    VoidSequences,
)
from ingest.supervisor.state import Group, PendingReset, Replica
from ingest.supervisor.stream_faults import held_through, stream_fault


class GroupRules(ReplicaRules):
    """A partition changes hands by two facts: released (its end saved), then acquired at that end."""

    # ------------------------------------------------------------ recovery

    def on_state_loaded(self, event: StateLoaded) -> list[Command]:
        """Goes on from the store: every saved fact is told again, which finishes rounds in progress."""
        had_open = {group.epoch for group in self.groups.values() if group.open is not None and self.loaded}
        before = self.groups
        self.wall_ms = event.wall_ms
        self.desired = event.state.desired
        self.offsets = event.state.offsets
        self._take_wishes(event.state.resets)
        self.published_exceptions = event.state.parse_exceptions
        self.alike_since = event.state.alike_since or self.config.spec_version
        self.loaded, self.storing_offsets = True, False
        self.reloading = self.reload_sent = False
        self.opening = set()
        number = self.next_round()
        self.groups, self.group_of = {}, {}
        commands: list[Command] = []
        for stored in event.state.groups:
            group = Group(stored.group, tuple(stored.partitions), {}, waiting_since_ms=self.now_ms)
            group.take_records(stored.sequences, number)
            group.reported = stored.reported
            for attempt in stored.attempts:
                replica = Replica(attempt, self.now_ms)
                group.replicas[attempt.token] = replica
                self.group_of[attempt.token] = group.epoch
                if attempt.committer:
                    group.committer = attempt.token
            self._remember(group, before.get(group.epoch), event)
            self.groups[group.epoch] = group
            voided = group.epoch in had_open and group.is_done
            commands += self._end_all(group, "its sequences are void") if voided else []
            commands += [command for replica in group.running() for command in self.tell(group, replica)]
        return commands

    def _remember(self, group: Group, before: Group | None, event: StateLoaded) -> None:
        """Attempt numbers and workers of ended attempts, so that none is used twice."""
        if before is not None:
            group.attempt_numbers.update(before.attempt_numbers)
            group.last_workers.update(before.last_workers)
            group.failures, group.faults, group.restart_ms = before.failures, before.faults, before.restart_ms
            group.unheard_since_ms, group.unheard_ends = before.unheard_since_ms, before.unheard_ends
            group.excused = before.excused
            group.parse_exceptions.update((n, c) for n, c in before.parse_exceptions.items() if n in group.sequences)
            for token, replica in before.replicas.items():
                if token in group.replicas:
                    group.replicas[token].heard_ms = replica.heard_ms
        for attempt in (*event.state.ended, *(replica.attempt for replica in group.replicas.values())):
            if attempt.group == group.epoch:
                known = group.attempt_numbers.get(attempt.task_id, 0)
                group.attempt_numbers[attempt.task_id] = max(known, attempt.attempt)
                if attempt.worker:
                    group.last_workers.setdefault(attempt.task_id, attempt.worker)
                lost = attempt.state in (AttemptState.FAILED, AttemptState.FENCED) and attempt.address is not None
                if before is None and lost:
                    self.note_unheard(group)

    def _end_all(self, group: Group, why: str) -> list[Command]:
        """Its rows are read again by others: every attempt is fenced."""
        group.round = None
        replicas = list(group.replicas.values())
        return [command for replica in replicas for command in self.end_attempt(replica, AttemptState.FENCED, why)]

    # ------------------------------------------------------------ offsets and plan

    def on_stream_seen(self, event: StreamSeen) -> list[Command]:
        """First look: all starts in one transaction. Later looks: rows for new partitions (PR-2, PR-11)."""
        if event.topic not in (None, self.config.topic):
            return []  # of the topic before: its offsets mean nothing in this one
        self.health.run_succeeded()
        event = self._seen_by_now(event)
        self.topic_id = event.topic_id
        self.log_starts, self.log_ends = event.log_starts, event.log_ends
        self.note_ends(event.now_ms, event.log_ends)
        self._judge_stream(event)
        if self.storing_offsets or self.desired is DesiredState.TERMINATED or not event.starts:
            return []
        if self.offsets is None:
            self.storing_offsets = True
            return [InitOffsets(event.topic_id, event.starts)]
        new = {p: o for p, o in event.starts.items() if p not in self.offsets.committed}
        if not new:
            return []
        self.storing_offsets = True
        return [AddPartitions(OffsetMap(new))]

    def _seen_by_now(self, seen: StreamSeen) -> StreamSeen:
        """A log holds at least what was committed since it was looked at: the news of a look may wait behind
        a slow store, and must not pass for a truncation (PR-17)."""
        if self.offsets is None:
            return seen
        late = {
            p: committed
            for p, committed in self.offsets.committed.items()
            if p in seen.log_ends and seen.committed.get(p, 0) <= seen.log_ends[p] < committed
        }
        return replace(seen, log_ends=seen.log_ends.with_(OffsetMap(late))) if late else seen

    def _judge_stream(self, seen: StreamSeen) -> None:
        """Names what the stream no longer holds; moves just those offsets when the spec says so (PR-24).

        What was read counts by its readers and by where unpublished sequences start: the committed
        offsets known here may be older.
        """
        if self.offsets is None:
            return
        stored, held, bounds = (
            self.offsets,
            held_through(self.offsets.committed, self.groups.values()),
            self.config.bounds,
        )
        if bounds is not None:  # whatever becomes of a partition that was read to its end is no fault
            held = OffsetMap((p, offset) for p, offset in held.items() if offset < bounds.get(p, 0))
            stored = replace(stored, committed=stored.committed.restrict(held))
        read = bounds is not None and not held
        fault = None if read else stream_fault(self.config.topic, stored, held, seen)
        self.health.named = None if fault is None else fault.reason
        if fault is not None and self.config.reset_automatically and not self.resets:
            deadline_ms = self.now_ms + self.config.reset_ms
            self.resets.append(
                PendingReset(fault.moves, fault.reason, seen.topic_id, deadline_ms, forwards=fault.expired)
            )

    def on_offsets_stored(self, event: OffsetsStored) -> list[Command]:
        """After a reset the store has voided sequences: what is known here is read again."""
        self.offsets = event.offsets
        self.storing_offsets = False
        if any(reset.resetting for reset in self.resets):
            self.resets = [reset for reset in self.resets if not reset.resetting]
            return self.reload()
        return []

    def _update_plan(self) -> None:
        """Plans anew only when partitions or taskCount changed; else groups being replaced would
        drift from one plan to the next."""
        assert self.offsets is not None
        wanted = (tuple(self.offsets.committed), self.task_count)
        if wanted != self.plan_for:
            current = [group.partitions for group in self.groups.values() if group.open is not None]
            self.plan = assign(current, wanted[0], wanted[1])
            self.planned = frozenset(self.plan)
            self.plan_for = wanted

    def steer_groups(self) -> list[Command]:
        """Marks groups that must release their partitions, and opens groups over free ones."""
        if self.offsets is None:
            return []
        self._update_plan()
        for group in self.groups.values():
            if group.open is not None:
                group.release_reason = self._reason_to_release(group)
        if not self.reads or self.storing_offsets:
            return []
        owned = {p for group in self.groups.values() if group.open is not None for p in group.partitions}
        owned |= {p for reset in self.resets for p in reset.moves} | {p for ps in self.opening for p in ps}
        owned |= {p for group in self.groups.values() if group.voiding for p in group.partitions}
        commands: list[Command] = []
        for partitions in self.plan:
            if owned.isdisjoint(partitions):
                self.opening.add(partitions)
                commands.append(OpenGroup(partitions, self._opening_terms(partitions)))
        return commands

    def _reason_to_release(self, group: Group) -> str:
        if self.desired is not DesiredState.RUNNING:
            return self.desired.name.lower()
        if self.stopped is not None:
            return "parse exceptions"
        if self.complete:
            return "complete"
        if self.idle:
            return "idle"
        if any(p in reset.moves for reset in self.resets for p in group.partitions):
            return "reset"
        return "" if group.partitions in self.planned else "partitions"

    def _opening_terms(self, partitions: PartitionSet) -> NextSequence:
        """A range that is read again keeps the stored time of the earliest one it covers (PR-15)."""
        inherited = [self.inherited_ms[p] for p in partitions if p in self.inherited_ms]
        return NextSequence(self.config.spec_version, min([self.wall_ms, *inherited]))

    def on_group_opened(self, event: GroupOpened) -> list[Command]:
        record = event.record
        partitions = tuple(record.start)
        self.opening.discard(partitions)
        for partition in partitions:
            self.inherited_ms.pop(partition, None)
        group = Group(record.ref.group, partitions, {}, waiting_since_ms=self.now_ms)
        group.take_records((record,), self.next_round())
        self.groups.setdefault(group.epoch, group)
        return []

    # ------------------------------------------------------------ publishes and conflicts

    def on_publish_seen(self, event: PublishSeen) -> list[Command]:
        group = self.groups.get(event.ref.group)
        if group is None or event.ref.number not in group.sequences:
            return []
        if event.outcome in (PublishOutcome.PUBLISHED, PublishOutcome.ALREADY):
            # Earlier ones too: offsets move in order, and the answer to their publish may have been lost.
            for number in [number for number in group.sequences if number <= event.ref.number]:
                record = group.sequences.pop(number)
                exact = event.parse_exceptions if number == event.ref.number else group.exceptions_of(record)
                group.parse_exceptions.pop(number, None)
                self.published_exceptions += exact if record.spec_version == self.config.spec_version else 0
                self._note_committed(record)
            group.failures = group.faults = 0
            self.health.progressed()
            return []
        if event.outcome is PublishOutcome.CONFLICT and not group.voiding:
            return self.void_from(group, event.ref.number, "conflict")
        return []

    def _note_committed(self, record: SequenceRecord) -> None:
        if self.offsets is not None and record.end is not None:
            reached = furthest(self.offsets.committed.restrict(record.end), record.end)
            self.offsets = replace(self.offsets, committed=self.offsets.committed.with_(reached))

    def give_up_old_spec(self, group: Group) -> list[Command]:
        """No attempt can finish what was opened under an earlier spec: a posted one reads it again under
        its own terms (PR-14). A moment's absence is not enough, and who lives may still finish it; a resumption
        is no cure, and voided in a suspension the rows would leave the answers."""
        record = next(iter(group.in_order()), None)
        hopeless = group.failures >= self.config.failed_restarts and not group.running() and not group.voiding
        if record is None or not hopeless or record.spec_version >= self.alike_since:
            return []
        return self.void_from(group, record.ref.number, f"no attempt could finish it under spec {record.spec_version}")

    def void_from(self, group: Group, number: int, why: str) -> list[Command]:
        """Gives up the group's unpublished sequences and all that depend on them (PR-13)."""
        group.voiding = True
        group.round = None
        detail = {"reason": why, "sequences": self._ranges(group)}
        return [VoidSequences(group.epoch, number, AuditRow(self.wall_ms, self.config.supervisor, "void", detail))]

    @staticmethod
    def _ranges(group: Group) -> dict[str, dict[str, object]]:
        """What is given up, for the audit trail: each range, the open one as far as it was reported, and
        how many offsets that is."""
        ranges: dict[str, dict[str, object]] = {}
        for record in group.in_order():
            end = furthest(record.start, group.reported) if record.end is None else record.end
            count = sum(end[p] - start for p, start in record.start.items())
            ranges[record.ref.name] = {"start": record.start.to_json(), "end": end.to_json(), "offsets": count}
        return ranges

    def on_sequences_voided(self, event: SequencesVoided) -> list[Command]:
        """Attempts of groups that have nothing left are fenced; their partitions are free to open."""
        asked = self.groups.get(event.group)
        if not event.records and asked is not None:  # published or void already: asking again would go on for ever
            asked.voiding = False
            return self.reload()
        commands: list[Command] = []
        touched = {record.ref.group for record in event.records} | {event.group}
        for record in event.records:
            self._inherit(record)
            group = self.groups.get(record.ref.group)
            if group is not None:
                group.sequences.pop(record.ref.number, None)
        for epoch in sorted(touched):
            group = self.groups.get(epoch)
            if group is not None:
                group.voiding = False
                group.round = None
                commands += self._end_all(group, "its sequences are void") if group.is_done else []
        return commands

    def _inherit(self, record: SequenceRecord) -> None:
        if record.state is not SequenceState.VOID:
            return
        for partition in record.start:
            known = self.inherited_ms.get(partition, record.opened_at_ms)
            self.inherited_ms[partition] = min(known, record.opened_at_ms)

    # ------------------------------------------------------------ reset and rest

    def on_reset_asked(self, event: ResetAsked) -> list[Command]:
        known = event.wish is not None and any(reset.wish == event.wish for reset in self.resets)
        if not known:
            self._await_reset(event)
        return []

    def _await_reset(self, asked: ResetAsked) -> None:
        wait_ms = 0 if asked.discard else self.config.reset_ms
        deadline_ms = self.now_ms + wait_ms
        self.resets.append(PendingReset(asked.moves, asked.reason, asked.topic_id, deadline_ms, asked.wish))

    def _take_wishes(self, wishes: tuple[ResetWish, ...]) -> None:
        """Stored wishes outlive a leader; one that is no longer stored is carried out."""
        waiting = {wish.wish_id for wish in wishes}
        self.resets = [reset for reset in self.resets if reset.wish is None or reset.wish in waiting]
        for reset in self.resets:
            reset.resetting = False  # had the store carried it out, it would be gone: it refused, so once more
        for wish in wishes:
            self.on_reset_asked(
                ResetAsked(self.now_ms, wish.moves, wish.discard, topic_id=wish.topic_id, wish=wish.wish_id)
            )

    def advance_resets(self) -> list[Command]:
        """Moves offsets when what was read is published, or when its deadline has passed (PR-24)."""
        commands: list[Command] = []
        self._keep_what_is_held()
        for reset in list(self.resets):
            holders = [g for g in self.groups.values() if not g.is_done and set(g.partitions) & set(reset.moves)]
            waits = bool(holders) and self.now_ms < reset.deadline_ms
            if reset.resetting or waits or self.offsets is None:
                continue
            reset.resetting, moves = True, reset.moves
            lost = {name: range_ for group in holders for name, range_ in self._ranges(group).items()}
            before = OffsetMap((p, o) for p, o in self.offsets.committed.items() if p in moves)
            detail = {"moves": moves.to_json(), "from": before.to_json(), "reason": reset.reason, "voided": lost}
            audit = AuditRow(self.wall_ms, self.config.supervisor, "reset", detail)
            self.rested = False
            commands.append(ResetOffsets(moves, reset.topic_id, audit, reset.wish))
        return commands

    def _keep_what_is_held(self) -> None:
        """A restarted task may still hold what nobody seemed to hold: then nothing of it is moved."""
        unheld = [reset for reset in self.resets if reset.forwards and not reset.resetting]
        if not unheld or self.offsets is None:
            return
        held = held_through(self.offsets.committed, self.groups.values())
        for reset in unheld:
            reset.moves = OffsetMap((p, o) for p, o in reset.moves.items() if o > held.get(p, -1))
        self.resets = [reset for reset in self.resets if reset.moves]

    def rest(self) -> list[Command]:
        """Suspended, terminated, stopped or idle with nothing left to publish: raises the epochs, so that no query
        node waits for positions that nobody will reach again (PR-4)."""
        busy = (
            any(not g.is_done or g.creating or g.voiding for g in self.groups.values()) or self.opening or self.resets
        )
        if self.reads:
            self.rested = False
        if self.reads or self.rested or busy or self.storing_offsets:
            return []
        self.rested = True
        rested: list[Command] = [Rested(self.desired)]
        if self.offsets is None or not self.offsets.committed:
            return rested
        resting = "complete" if self.complete else "idle" if self.idle else self.desired.value
        detail = {"reason": self.stopped or resting}
        audit = AuditRow(self.wall_ms, self.config.supervisor, "rest", detail)
        self.storing_offsets = True
        return [RaiseEpochs(audit), *rested]

    def is_being_reset(self, group: Group) -> bool:
        return any(reset.resetting and p in reset.moves for reset in self.resets for p in group.partitions)

    def forget_done(self) -> None:
        """A group without sequences and attempts is history."""
        for epoch, group in list(self.groups.items()):
            if group.is_done and not group.replicas and not group.creating and not group.voiding:
                del self.groups[epoch]
