"""How a supervisor keeps its replicas: starts, watches, replaces, chooses who uploads."""

from __future__ import annotations

from dataclasses import replace

from ingest.protocol import AttemptState, CommitterCommand, SequenceRecord, StopCommand, TaskHeartbeat
from ingest.supervisor.health import STOPPING
from ingest.supervisor.machine_rounds import RoundRules
from ingest.supervisor.messages import (
    AttemptAssigned,
    AttemptCreated,
    AttemptMoved,
    ClaimSlot,
    Command,
    CommitterSet,
    CreateAttempt,
    FreeSlot,
    KillAttempt,
    MoveAttempt,
    ReplicaLeaving,
    SendTask,
    SetCommitter,
    TaskBeat,
    TaskEnded,
    TaskRegistered,
)
from ingest.supervisor.state import Group, Replica


class ReplicaRules(RoundRules):
    """Silence is not death: the last replica that holds rows is fenced only when another has read as far."""

    # ------------------------------------------------------------ starting

    def wanted(self, group: Group) -> int:
        """A group that reads has all its replicas; one that only publishes needs somebody who can."""
        if group.open is not None:
            return self.config.replicas
        return 0 if group.is_done else 1

    def start_missing(self, group: Group) -> list[Command]:
        """Replaces what is gone, and starts a second attempt beside a last one that is silent too long."""
        counted = [r for r in group.replicas.values() if not (r.ending or r.leaving or self.is_lost(r))]
        missing = self.wanted(group) - len(counted) - group.creating
        if missing <= 0 or group.voiding or self.now_ms < group.restart_ms:
            return []
        commands: list[Command] = []
        for _ in range(missing):
            commands.append(self._create(group, len(commands)))
        group.creating += missing
        return commands

    def _create(self, group: Group, already: int) -> Command:
        taken = {replica.slot for replica in group.replicas.values()}
        free = [slot for slot in range(len(taken) + already + 1) if slot not in taken]
        task_id = f"index_kafka_{self.config.supervisor}_{group.epoch}_{free[already]}"
        group.attempt_numbers[task_id] = group.attempt_numbers.get(task_id, 0) + 1
        return CreateAttempt(
            group=group.epoch,
            task_id=task_id,
            attempt=group.attempt_numbers[task_id],
            committer=group.committer is None and already == 0 and not group.setting_committer,
            prefer_worker=group.last_workers.get(task_id),
            avoid_workers=tuple(sorted({r.attempt.worker for r in group.replicas.values() if r.attempt.worker})),
        )

    def claim_slot(self, group: Group) -> list[Command]:
        """The oldest unpublished range of its partitions has first claim on a slot: whoever reads on behind
        it may hold all the others, and cannot publish before it (PR-12)."""
        first = next(iter(group.in_order()), None)
        if group.open is not None or first is None or self.offsets is None:
            return []  # a group that still reads has no successor elsewhere
        here = [r for r in group.replicas.values() if not (r.ending or r.leaving or self.is_lost(r))]
        if any(r.claimed or r.attempt.is_placed for r in here) or not here or not self.is_next_to_publish(first):
            return []
        chosen = min(here, key=lambda r: (r.slot, r.token))
        chosen.claimed = True
        return [ClaimSlot(chosen.token)]

    def free_slots(self, group: Group) -> list[Command]:
        """Tasks whose rows are all published wait for query nodes, which may wait for what others have yet to
        read: they must not hold the slots that these wait for. A replica that leaves is one of them once
        every range with an end is published, since it reads no further."""
        sealed = [record for record in group.in_order() if record is not group.open]
        waiting = [r for r in group.running() if not r.freed and (group.is_done or (r.left and not sealed))]
        for replica in waiting:
            replica.freed = True
        return [FreeSlot(replica.token) for replica in waiting]

    def is_next_to_publish(self, record: SequenceRecord) -> bool:
        """Whether nothing unpublished lies before it in any of its partitions. Offsets may stand past its
        start where it holds nothing: its publish settles that."""
        assert self.offsets is not None
        return self.offsets.committed.reached(record.start)

    def on_attempt_created(self, event: AttemptCreated) -> list[Command]:
        group = self.groups.get(event.attempt.group)
        if group is None:
            return []
        group.creating = max(group.creating - 1, 0)
        group.replicas[event.attempt.token] = Replica(event.attempt, self.now_ms)
        self.group_of[event.attempt.token] = group.epoch
        if event.attempt.committer:
            group.committer = event.attempt.token
        return []

    def on_attempt_assigned(self, event: AttemptAssigned) -> list[Command]:
        found = self.find(event.token)
        if found is not None and found[1].attempt.state is AttemptState.PENDING:
            _, replica = found
            replica.attempt = replace(replica.attempt, state=AttemptState.ASSIGNED, worker=event.worker)
            replica.heard_ms = self.now_ms
        return []

    def on_task_registered(self, event: TaskRegistered) -> list[Command]:
        """It runs. Its welcome held what is saved; it is told once more, which settles every race."""
        found = self.find(event.attempt.token)
        if found is None:
            return []
        group, replica = found
        replica.attempt = event.attempt
        replica.heard_ms = self.now_ms
        replica.told = None
        return self.tell(group, replica)

    # ------------------------------------------------------------ watching

    def on_task_beat(self, event: TaskBeat) -> list[Command]:
        found = self.find(event.beat.token)
        if found is None:
            return []
        group, replica = found
        replica.heard_ms = self.now_ms
        group.take_positions(event.beat.sequence, event.beat.positions)
        for number, count in event.beat.parse_exceptions.items():
            group.take_exceptions(number, count)
        replica.attempt = replace(
            replica.attempt,
            positions=event.beat.positions,
            positions_sequence=event.beat.sequence,
            heartbeat_ms=self.wall_ms,
        )
        replica.behind = event.beat.behind
        replica.read = event.beat.read
        self.note_stopping(replica, event.beat)
        return []

    def note_stopping(self, replica: Replica, beat: TaskHeartbeat) -> None:
        """An earlier leader may have told it to leave and have died: only the task still knows, and a
        successor must start, since it reads no further."""
        if beat.status == STOPPING:
            replica.leaving = replica.left = True

    def silent_ms(self, replica: Replica) -> int:
        """How much longer than allowed nothing was heard of it; negative while all is well."""
        if replica.attempt.state is AttemptState.PENDING:
            return -1  # waits for a slot, however long
        assigned = replica.attempt.state is AttemptState.ASSIGNED
        allowed = self.config.start_ms if assigned else self.config.silence_ms
        return self.now_ms - replica.heard_ms - allowed

    def is_lost(self, replica: Replica) -> bool:
        """Silent for so long that another one is started beside it."""
        return self.silent_ms(replica) >= self.config.beside_ms

    def fence_silent(self, group: Group) -> list[Command]:
        """Fences a silent replica once nothing is lost by it: it holds no rows, another one has read
        as far, or its host must be taken for burnt (PR-25)."""
        commands: list[Command] = []
        for replica in list(group.replicas.values()):
            over_ms = self.silent_ms(replica)
            if over_ms < 0 or replica.ending:
                continue
            never_ran = replica.attempt.state is AttemptState.ASSIGNED
            covered = any(
                other is not replica and other.runs and self.silent_ms(other) < 0 and other.reached(replica)
                for other in group.replicas.values()
            )
            if never_ran or covered or over_ms >= self.config.burnt_ms:
                commands += self.end_attempt(replica, AttemptState.FENCED, "silent")
            else:
                commands += self._probe(group, replica)
        return commands

    def _probe(self, group: Group, replica: Replica) -> list[Command]:
        """Any answer proves that it lives."""
        return self.tell(group, replica) if self.now_ms >= replica.tell_ms else []

    # ------------------------------------------------------------ ending

    def end_attempt(self, replica: Replica, state: AttemptState, error: str | None) -> list[Command]:
        """First in the store, so that its token is refused; then its process."""
        if replica.ending:
            return []
        replica.ending = True
        move = MoveAttempt(replica.token, state, error)
        return [move, KillAttempt(replica.token)] if state is AttemptState.FENCED else [move]

    def on_task_ended(self, event: TaskEnded) -> list[Command]:
        found = self.find(event.token)
        if found is None:
            return []
        group, replica = found
        succeeded = event.succeeded is True
        self.health.task_ended(self.wall_ms, succeeded, event.error or f"{replica.attempt.task_id} was killed")
        if not succeeded and self.now_ms >= group.restart_ms:  # replicas that die together are one failure
            group.restart_ms = self.now_ms + self.restart_wait_ms(group, event.succeeded is None)
            group.failures = min(group.failures + 1, 16)
            group.faults = min(group.faults + (event.succeeded is False), 16)
        state = AttemptState.SUCCEEDED if succeeded else AttemptState.FAILED
        ended = self.end_attempt(replica, state, None if succeeded else event.error or "killed")
        if not succeeded or group.is_done or replica.leaving:
            return ended
        # The store told it that nothing is left, so a publish was not heard of here: look before another starts.
        group.restart_ms = self.now_ms + self.config.restart_ms
        return [*ended, *self.reload()]

    def restart_wait_ms(self, group: Group, killed: bool) -> int:
        """Each failure of a task's own doubles the wait for the next one, since its spec is likely to fail it
        again. A process that was ended from outside (a signal, its machine) says nothing about the spec: however
        many go that way, reading goes on in seconds."""
        config = self.config
        if killed:
            return min(config.restart_ms << group.failures, config.restart_killed_max_ms)
        return min(config.restart_ms << group.faults, config.restart_max_ms)

    def on_attempt_moved(self, event: AttemptMoved) -> list[Command]:
        """Ended for good: it leaves the group, its round and its office."""
        found = self.find(event.attempt.token)
        if found is None or event.attempt.state.is_live:
            return []
        group, replica = found
        self.note_ended(group, replica, event.attempt.state)
        del group.replicas[replica.token]
        self.group_of.pop(replica.token, None)
        if replica.attempt.worker:
            group.last_workers[replica.attempt.task_id] = replica.attempt.worker
        if group.committer == replica.token:
            group.committer = None
        return self.leave_round(group, replica.token)

    def on_replica_leaving(self, event: ReplicaLeaving) -> list[Command]:
        """It shall hand off early and end; a successor starts at once."""
        found = self.find(event.token)
        if found is not None:
            found[1].leaving = True
        return []

    def stop_leaving(self, group: Group) -> list[Command]:
        """Asks replicas to stop gracefully: those leaving, surplus ones, and all of a group the store
        has nothing unpublished for (its sequences are published or void)."""
        staying = [r for r in group.running() if not r.leaving]
        surplus = staying[self.config.replicas :] if group.open is not None else []
        for replica in surplus:
            others = [r for r in staying if r is not replica and self.silent_ms(r) < 0]
            replica.leaving = any(r.reached(replica) for r in others)
        commands: list[Command] = []
        if group.is_done:
            waiting = [r for r in group.replicas.values() if not r.runs and not r.ending]
            commands += [c for r in waiting for c in self.end_attempt(r, AttemptState.FENCED, "not needed any more")]
        for replica in group.running():
            if (replica.leaving or group.is_done) and not replica.left and self.now_ms >= replica.stop_ms:
                replica.stop_ms = self.now_ms + self.config.retell_ms
                stop = StopCommand(self.generation, True, "leaving" if replica.leaving else "nothing left to read")
                commands.append(SendTask(replica.token, stop))
        return commands

    # ------------------------------------------------------------ committer

    def choose_committer(self, group: Group) -> list[Command]:
        """The one that uploads: runs, is heard of, and does not keep the oldest sequence waiting."""
        self._watch_patience(group)
        if group.setting_committer or (group.is_done and group.committer is not None):
            return []
        present = group.replicas.get(group.committer or "")
        running = [r for r in group.running() if self.silent_ms(r) < 0]
        fit = [r for r in running if not r.leaving] or running
        impatient = self.now_ms - group.waiting_since_ms >= self.config.patience_ms
        comes = present is not None and not present.runs and not present.ending and group.oldest_seen < 0
        others = [r for r in fit if r is not present]
        if comes or not others or (present in fit and not impatient):
            return []
        group.setting_committer = True
        group.waiting_since_ms = self.now_ms
        return [SetCommitter(others[0].token)]

    def _watch_patience(self, group: Group) -> None:
        """Restarts the patience whenever the oldest sealed sequence is another one."""
        oldest = min((n for n, r in group.sequences.items() if r.end is not None), default=-1)
        if oldest != group.oldest_seen or oldest < 0:
            group.oldest_seen = oldest
            group.waiting_since_ms = self.now_ms

    def on_committer_set(self, event: CommitterSet) -> list[Command]:
        """Stored: now both are told. Two that upload for a moment are settled by the ledger."""
        found = self.find(event.token)
        if found is None:
            return []
        group, _ = found
        group.setting_committer = False
        group.committer = event.token
        return [
            SendTask(replica.token, CommitterCommand(self.generation, replica.token == event.token))
            for replica in group.running()
        ]
