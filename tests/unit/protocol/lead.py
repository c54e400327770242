"""A supervisor machine on a real memory store, every store command executed at once, nothing lost."""

from __future__ import annotations

from dataclasses import replace

from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.records import DesiredState
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AttemptRecord,
    AttemptState,
    CheckpointAsk,
    PauseCommand,
    PauseReport,
    PublishOutcome,
    SealCommand,
    SequenceRef,
    TaskCommand,
    TaskHeartbeat,
)
from ingest.supervisor import messages as m
from ingest.supervisor.config import SupervisorConfig, SupervisorState
from ingest.supervisor.machine import SupervisorMachine
from ingest.supervisor.state import Group

WALL_MS = 1_760_000_000_000
CONFIG = SupervisorConfig("edits", "edits", "edits", spec_version=1, restart_ms=1_000)


class Lead:
    """``did`` are the commands of the last call in order, ``sent`` those of them that go to tasks."""

    def __init__(self, config: SupervisorConfig = CONFIG, partitions: int = 2) -> None:
        self.store = MemoryMetadataStore()
        leader = self.store.take_leadership("o1", "o1", None)
        assert leader is not None
        self.store.put_supervisor(leader.generation, "edits", "edits", {}, DesiredState.RUNNING, 0)
        self.now_ms = 0
        self.tokens = 0
        self.did: list[m.Command] = []
        self.take_over(leader.generation, config)
        self.see(partitions)

    def take_over(self, generation: int, config: SupervisorConfig = CONFIG) -> None:
        """A machine of this generation goes on from the store."""
        self.generation = generation
        self.machine = SupervisorMachine(config, generation)
        self.post(self.loaded())

    def loaded(self) -> m.StateLoaded:
        record = self.store.supervisor("edits")
        assert record is not None
        groups = tuple(self.store.groups("edits"))
        scaled = self.store.last_audit("edits", "scale")
        ended = tuple(self.store.attempts("edits", False, 100))
        state = SupervisorState(record.desired, self.store.offsets("edits", "edits"), groups, ended, scaled=scaled)
        return m.StateLoaded(self.now_ms, WALL_MS + self.now_ms, state)

    # ------------------------------------------------------------ events

    def post(self, event: m.Event) -> list[m.Command]:
        self.did = []
        queue = self.machine.handle(event)
        while queue:
            command = queue.pop(0)
            self.did.append(command)
            completed = self.apply(command)
            if completed is not None:
                queue += self.machine.handle(completed)
        return self.did

    def see(self, partitions: int) -> list[m.Command]:
        starts = OffsetMap((p, 0) for p in range(partitions))
        return self.post(m.StreamSeen(self.now_ms, "id", starts))

    def tick(self, after_ms: int = 500) -> list[m.Command]:
        self.now_ms += after_ms
        return self.post(m.Tick(self.now_ms, WALL_MS + self.now_ms))

    def ticks(self, for_ms: int) -> list[m.Command]:
        """Ticks twice a second; all commands of that time."""
        done: list[m.Command] = []
        for _ in range(for_ms // 500):
            done += self.tick()
        return done

    def run(self, token: str, worker: str = "w1") -> None:
        """Assigned, started, registered."""
        self.store.assign_attempt(self.generation, token, worker)
        self.post(m.AttemptAssigned(self.now_ms, token, worker))
        record = self.store.register_attempt(self.generation, token, token, 1, self.now_ms)
        self.post(m.TaskRegistered(self.now_ms, record))

    def beat(self, token: str, sequence: int, *offsets: int, bad: dict[int, int] | None = None) -> list[m.Command]:
        """``bad``: bad messages by sequence."""
        positions = OffsetMap(enumerate(offsets))
        beat = TaskHeartbeat(token, sequence, positions, "reading", None, 0, 0, 0, {}, parse_exceptions=bad or {})
        self.store.record_positions(self.generation, token, sequence, positions, self.now_ms)
        return self.post(m.TaskBeat(self.now_ms, beat))

    def ask(self, token: str, ref: SequenceRef, *offsets: int) -> list[m.Command]:
        ask = CheckpointAsk(token, ref, OffsetMap(enumerate(offsets)), "rows")
        return self.post(m.CheckpointAsked(self.now_ms, ask))

    def paused(self, token: str, round_number: int, sequence: int, *offsets: int) -> list[m.Command]:
        report = PauseReport(round_number, sequence, OffsetMap(enumerate(offsets)))
        command = PauseCommand(self.generation, round_number, 8_000)
        return self.post(m.TaskAnswered(self.now_ms, token, command, report))

    def took(self, token: str, command: TaskCommand) -> list[m.Command]:
        return self.post(m.TaskAnswered(self.now_ms, token, command))

    def ended(self, token: str, succeeded: bool | None = None) -> list[m.Command]:
        return self.post(m.TaskEnded(self.now_ms, token, succeeded, None))

    def published(self, ref: SequenceRef, bad: int = 0) -> list[m.Command]:
        """As if the store had published it: it counts as no longer unpublished."""
        self.publish_unheard(ref)
        return self.post(m.PublishSeen(self.now_ms, "t1", ref, PublishOutcome.PUBLISHED, bad))

    def publish_unheard(self, ref: SequenceRef) -> None:
        """The same, but the supervisor hears nothing of it."""
        key = (ref.supervisor, ref.group)
        record = self.store.state.sequences[key][ref.number]
        assert record.end is not None
        stream = self.store.state.streams["edits", "edits"]
        self.store.state.streams["edits", "edits"] = replace(stream, committed=stream.committed.with_(record.end))
        self.store.state.unpublished["edits"] = tuple(r for r in self.store.state.unpublished["edits"] if r.ref != ref)

    def desire(self, desired: DesiredState, config: SupervisorConfig | None = None) -> list[m.Command]:
        """``config``: of another spec, posted."""
        if config is None or config.spec_version == self.store.state.supervisors["edits"].version:
            version = self.store.set_desired(self.generation, "edits", desired, 0).version
        else:
            spec = {"version": config.spec_version}
            version = self.store.put_supervisor(self.generation, "edits", "edits", spec, desired, 0).version
        told = replace(config or self.machine.config, spec_version=version)
        return self.post(m.DesiredChanged(self.now_ms, desired, told))

    # ------------------------------------------------------------ what came of it

    @property
    def group(self) -> Group:
        """The newest group."""
        return self.machine.groups[max(self.machine.groups)]

    def of(self, *kinds: type) -> list[m.Command]:
        return [command for command in self.did if isinstance(command, kinds)]

    def sent(self, kind: type) -> list[str]:
        """To whom a command of this kind went."""
        return [c.token for c in self.did if isinstance(c, m.SendTask) and isinstance(c.command, kind)]

    def seal_sent_to(self, token: str) -> SealCommand:
        [seal, *_] = [
            c.command
            for c in reversed(self.did)
            if isinstance(c, m.SendTask) and c.token == token and isinstance(c.command, SealCommand)
        ]
        return seal

    # ------------------------------------------------------------ the store

    def apply(self, command: m.Command) -> m.Event | None:
        store, gen, now_ms = self.store, self.generation, self.now_ms
        match command:
            case m.InitOffsets(topic_id, starts):
                return m.OffsetsStored(now_ms, store.init_offsets(gen, "edits", "edits", "edits", topic_id, starts))
            case m.AddPartitions(starts):
                return m.OffsetsStored(now_ms, store.add_partitions(gen, "edits", "edits", starts))
            case m.ResetOffsets(moves, topic_id, audit):
                return m.OffsetsStored(now_ms, store.reset_offsets(gen, "edits", "edits", moves, topic_id, audit))
            case m.RaiseEpochs(audit):
                return m.OffsetsStored(now_ms, store.reset_offsets(gen, "edits", "edits", None, None, audit))
            case m.ScaleTasks(task_count, audit):
                store.append_audit(gen, audit)
                return m.TasksScaled(now_ms, task_count)
            case m.OpenGroup(partitions, following):
                return m.GroupOpened(now_ms, store.open_group(gen, "edits", "edits", partitions, following))
            case m.SealSequence(ref, end, following, bad):
                return m.SequenceSealed(now_ms, store.seal(gen, ref, end, following, bad))
            case m.VoidSequences(group, number, audit):
                voided = store.void(gen, "edits", group, number, audit)
                return m.SequencesVoided(now_ms, group, tuple(voided))
            case _:
                return self._apply_to_attempt(command)

    def _apply_to_attempt(self, command: m.Command) -> m.Event | None:
        store, gen, now_ms = self.store, self.generation, self.now_ms
        match command:
            case m.CreateAttempt():
                self.tokens += 1
                record = AttemptRecord(
                    command.task_id,
                    command.attempt,
                    f"t{self.tokens}",
                    "edits",
                    "edits",
                    command.group,
                    AttemptState.PENDING,
                    command.committer,
                    now_ms,
                )
                return m.AttemptCreated(now_ms, store.create_attempt(gen, record)[0])
            case m.MoveAttempt(token, state, error):
                return m.AttemptMoved(now_ms, store.set_attempt_state(gen, token, state, error, now_ms))
            case m.SetCommitter(token):
                store.set_committer(gen, token)
                return m.CommitterSet(now_ms, token)
            case m.Reload():
                return self.loaded()
            case _:
                return None


def two_replicas(**changes: object) -> Lead:
    """One group over partitions 0 and 1, replicas t1 (committer) and t2 running."""
    lead = Lead(replace(CONFIG, replicas=2, **changes))  # type: ignore[arg-type]
    lead.run("t1", "w1")
    lead.run("t2", "w2")
    return lead


def one_replica(**changes: object) -> Lead:
    lead = Lead(replace(CONFIG, **changes))  # type: ignore[arg-type]
    lead.run("t1", "w1")
    return lead
