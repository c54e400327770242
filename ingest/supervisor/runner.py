"""The supervisor's shell: one thread, one mailbox, one machine; everything slow is an event that comes back.

Store commands run in this thread, in order, repeated while the database is away; calls to tasks run
in shared pools and the stream is looked at by a thread of its own, so that a silent task or broker
delays nobody. The runner ends when a newer leader exists: its owner rebuilds from the store.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import structlog

from ingest.errors import AttemptRefused, LeadershipLost, StoreUnreachable
from ingest.metadata.records import DesiredState, SupervisorRecord
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import PROTOCOL_VERSION, AttemptRecord, SealCommand, TaskCommand, TaskHeartbeat
from ingest.spec import SupervisorSpec
from ingest.spec.model import UNLIMITED
from ingest.supervisor.config import SupervisorConfig
from ingest.supervisor.deliveries import Delivery
from ingest.supervisor.discovery import StreamDiscovery, StreamView
from ingest.supervisor.health import Problem, Status
from ingest.supervisor.machine import SupervisorMachine
from ingest.supervisor.machine_exceptions import ExceptionsView
from ingest.supervisor.messages import (
    AttemptCreated,
    AttemptMoved,
    ClaimSlot,
    Command,
    CreateAttempt,
    DesiredChanged,
    Event,
    FreeSlot,
    KillAttempt,
    ReplicaLeaving,
    ResetOffsets,
    Rested,
    SendTask,
    SequenceSealed,
    StateLoaded,
    StoreRefused,
    TaskBeat,
    TaskRegistered,
    TaskSilent,
    TasksScaled,
    Tick,
)
from ingest.supervisor.ports import RunnerPorts
from ingest.supervisor.rates import MovingAverages
from ingest.supervisor.scaling import ScalingView
from ingest.supervisor.standstills import Standstills, told
from ingest.supervisor.store_commands import StoreCommands
from ingest.supervisor.watching import watch

log = structlog.get_logger()

TICK_MS = 200
STORE_RETRY_S = (0.1, 0.3, 1.0, 2.0)
PROBLEMS_KEPT = 3
BREAK_S = (0.2, 1.0, 5.0, 30.0)
WHOLE_AGAIN_MS = 60_000


@dataclass(frozen=True, slots=True)
class RunnerView:
    """A moment of a runner for reports; plain values, safe to keep."""

    config: SupervisorConfig
    spec: SupervisorSpec
    stream: StreamView
    beats: dict[str, TaskHeartbeat]
    health: Status
    reason: str | None
    problems: tuple[Problem, ...]
    waiting_for: tuple[str, ...]
    scaling: ScalingView | None
    exceptions: ExceptionsView | None
    rates: dict[str, dict[str, Any]]  # moving averages by token
    standing_ms: int  # for how long a task has not read that should; 0 while all do

    @property
    def stopped_version(self) -> int | None:
        """The version of the spec under which too many messages were bad, if reading has stopped (PR-16)."""
        return self.exceptions.version if self.exceptions is not None and self.exceptions.is_crossed else None


class _Ended(Exception):
    """Leaves the runner's loop from any depth."""


def config_of(spec: SupervisorSpec, version: int) -> SupervisorConfig:
    """What the machine needs of a spec."""
    limit = spec.tuning.max_parse_exceptions
    return SupervisorConfig(
        supervisor=spec.supervisor,
        datasource=spec.datasource,
        topic=spec.io.topic,
        spec_version=version,
        task_count=spec.io.task_count,
        replicas=spec.io.replicas,
        max_parse_exceptions=None if limit == UNLIMITED else limit,
        scaling=spec.io.auto_scaling,
        bounds=None if spec.io.bounds is None else OffsetMap(spec.io.bounds.ends),
        idle_after_ms=spec.io.idle.inactive_after_ms if spec.io.idle.enabled else None,
        reset_automatically=spec.tuning.reset_offset_automatically,
        patience_ms=min(spec.io.completion_timeout_ms, 120_000),
    )


class SupervisorRunner:
    """Owns one machine; its thread is the only one that touches it."""

    def __init__(self, record: SupervisorRecord, spec: SupervisorSpec, generation: int, ports: RunnerPorts) -> None:
        self._ports = ports
        self._spec = spec
        self._config = config_of(spec, record.version)
        self._generation = generation
        self._machine = SupervisorMachine(self._config, generation)
        self._commands = StoreCommands(ports.store, ports.queue, generation, ports.clock)
        self._mailbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._addresses: dict[str, str] = {}
        self._beats: dict[str, TaskHeartbeat] = {}
        self._rates: dict[str, MovingAverages] = {}
        self._standstills = Standstills()
        self._standing_ms = 0
        self._store_problems: deque[Problem] = deque(maxlen=PROBLEMS_KEPT)
        self._health = Status("PENDING", "PENDING", True)
        self._reason: str | None = None
        self._waiting_for: tuple[str, ...] = ()
        self._scaling: ScalingView | None = None
        self._exceptions: ExceptionsView | None = None
        self._discovery = self._discover(spec)
        self._thread = threading.Thread(target=self._run, name=f"supervisor-{spec.supervisor}", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._discovery.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Ends the thread; tasks go on by themselves until a leader speaks to them again."""
        self._stopping.set()
        self._discovery.stop()
        self._mailbox.put(Tick(self._ports.clock.monotonic_ms(), self._ports.clock.now_ms()))
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def post(self, event: Event) -> None:
        """Hands an event over; safe from any thread; never blocks."""
        self._mailbox.put(event)

    def change(self, record: SupervisorRecord, spec: SupervisorSpec) -> None:
        """An operator's wish that is already stored: another spec, suspend, resume or terminate."""
        config = config_of(spec, record.version)
        other = spec.posted != self._spec.posted
        if other:  # what the old spec's starts were judged by must not come after the new one
            self._discovery.stop()
        self.post(DesiredChanged(self._ports.clock.monotonic_ms(), record.desired, config, other))
        if other:
            self._spec = spec
            self._discovery = self._discover(spec)
            self._discovery.start()

    def look_now(self) -> None:
        """Looks at the stream without waiting for its period."""
        self._discovery.look_now()

    def view(self) -> RunnerView:
        health = self._machine.health
        return RunnerView(
            self._config,
            self._spec,
            self._discovery.view,
            dict(self._beats),
            self._health,
            self._reason,
            (*health.problems, *self._store_problems),
            self._waiting_for,
            self._scaling,
            self._exceptions,
            {token: rates.document() for token, rates in list(self._rates.items())},
            self._standing_ms,
        )

    # ---------------------------------------------------------------- the loop

    def _discover(self, spec: SupervisorSpec) -> StreamDiscovery:
        return watch(spec, self._generation, self._ports, self.post, self._read_by_tasks)

    def _read_by_tasks(self) -> OffsetMap:
        return furthest(*(beat.positions for beat in list(self._beats.values())))

    def _run(self) -> None:
        """Whatever breaks here breaks this supervisor alone; it begins again from the store."""
        breaks = 0
        while not self._stopping.is_set():
            began_ms = self._ports.clock.monotonic_ms()
            try:
                self._supervise()
            except _Ended:
                return
            except LeadershipLost:
                self._ports.on_lost()
                return
            except Exception as error:
                log.exception("supervisor broke", supervisor=self._config.supervisor, generation=self._generation)
                now_ms = self._ports.clock.now_ms()
                self._store_problems.append(Problem(now_ms, type(error).__name__, str(error), stream=False))
                breaks = 0 if self._ports.clock.monotonic_ms() - began_ms > WHOLE_AGAIN_MS else breaks
                self._stopping.wait(BREAK_S[min(breaks, len(BREAK_S) - 1)])
                breaks += 1
                self._begin_again()

    def _begin_again(self) -> None:
        """A machine that knows nothing but the rounds it has used: tasks refuse lower ones."""
        rounds = self._machine.round_number
        self._machine = SupervisorMachine(self._config, self._generation)
        self._machine.round_number = rounds
        self._discovery.look_now()

    def _supervise(self) -> None:
        self._handle(self._durably(lambda: self._commands.state(self._config)))
        next_tick_ms = 0
        while not self._stopping.is_set():
            # Everything that has arrived is handled before a deadline is judged (PR-25).
            self._drain(max(0, next_tick_ms - self._ports.clock.monotonic_ms()))
            now_ms = self._ports.clock.monotonic_ms()
            if now_ms >= next_tick_ms:
                next_tick_ms = now_ms + TICK_MS
                self._handle(Tick(now_ms, self._ports.clock.now_ms()))
                self._judge_health()
                self._leave_if_terminated()

    def _leave_if_terminated(self) -> None:
        """Nothing left to publish is not enough: a task without a supervisor would never be told to end,
        nor its end be stored."""
        machine = self._machine
        gone = machine.rested and machine.desired is DesiredState.TERMINATED and not machine.groups
        if gone and not machine.reloading:
            self._ports.on_terminated(self._config.supervisor)

    def _judge_health(self) -> None:
        machine = self._machine
        started = any(group.replicas for group in machine.groups.values())
        stopping = bool(machine.groups) and machine.desired is not DesiredState.RUNNING
        now_ms = self._ports.clock.monotonic_ms()
        health = machine.health.status(machine.desired, stopping, started)
        lasting = self._standstills.lasting(now_ms)
        if any(each.is_ill for each in lasting) and health.healthy:
            health = Status("UNHEALTHY_TASKS", "UNHEALTHY_TASKS", False)
        if machine.is_completed and health.healthy:
            health = Status("COMPLETED", "COMPLETED", True)
        elif machine.idle and health.state == "RUNNING":
            health = Status("IDLE", "IDLE", True)
        # Together, so that no status names a reason and calls itself healthy.
        self._health, self._reason = health, machine.health.reason
        self._waiting_for = (*machine.waiting_for(), *told(lasting, now_ms, self._ports.clock.now_ms()))
        was_standing, self._standing_ms = self._standing_ms > 0, now_ms - lasting[0].since_ms if lasting else 0
        if was_standing != bool(lasting):
            note = log.warning if lasting else log.info
            note(
                "reading stands still" if lasting else "reading goes on",
                supervisor=self._config.supervisor,
                why=[each.why for each in lasting],
            )
        self._exceptions = machine.exceptions_view()
        self._scaling = None if machine.scaler is None else machine.scaler.view(machine.task_count)

    def _drain(self, wait_ms: int) -> None:
        with suppress(queue.Empty):
            self._handle(self._mailbox.get(timeout=wait_ms / 1_000))
            for _ in range(self._mailbox.qsize()):
                self._handle(self._mailbox.get_nowait())

    def _handle(self, event: Event) -> None:
        pending: deque[Event] = deque([event])
        while pending and not self._stopping.is_set():
            event = pending.popleft()
            self._note(event)
            for command in self._machine.handle(event):
                completion = self._execute(command)
                if completion is not None:
                    pending.append(completion)

    def _note(self, event: Event) -> None:
        """Keeps what reports and deliveries need of the events that pass."""
        match event:
            case StateLoaded(state=state):
                live = {attempt.token: attempt for group in state.groups for attempt in group.attempts}
                for token in [token for token in (*self._addresses, *self._beats) if token not in live]:
                    self._forget(token)  # it ended in a transaction of others: a void, say
                for attempt in live.values():
                    self._note_address(attempt)
                self._commands.resume_starts(self._config, state)
            case TaskRegistered(attempt=attempt) | AttemptMoved(attempt=attempt) | AttemptCreated(attempt=attempt):
                self._note_address(attempt)
            case TaskBeat(beat=beat) if self._machine.find(beat.token) is not None:
                # Of one that has ended meanwhile it is too late: nobody would forget it any more.
                self._beats[beat.token] = beat
                self._rates.setdefault(beat.token, MovingAverages()).take(
                    self._ports.clock.monotonic_ms(), beat.counters
                )
                self._standstills.heard(beat, self._ports.clock.monotonic_ms())
            case DesiredChanged(config=config):
                self._config = config
            case TasksScaled(task_count=count):
                self._ports.on_scaled(self._config.supervisor, self._machine.task_count, count)
            case SequenceSealed(records=records):
                self._ports.on_sealed(records)
                self._replace_older(records[0].ref.group)
            case _:
                pass

    def _replace_older(self, group: int) -> None:
        """A task of an older protocol was adopted; at its sequence's end one of ours takes over."""
        known = self._machine.groups.get(group)
        for replica in () if known is None else tuple(known.replicas.values()):
            if replica.attempt.protocol < PROTOCOL_VERSION and not replica.leaving:
                reason = f"protocol {replica.attempt.protocol} is older than {PROTOCOL_VERSION}"
                self.post(ReplicaLeaving(self._ports.clock.monotonic_ms(), replica.token, reason))

    def _note_address(self, attempt: AttemptRecord) -> None:
        if attempt.state.is_live:
            if attempt.address is not None:
                self._addresses[attempt.token] = attempt.address
        else:
            self._forget(attempt.token)

    def _forget(self, token: str) -> None:
        self._addresses.pop(token, None)
        self._beats.pop(token, None)
        self._rates.pop(token, None)
        self._standstills.gone(token)
        self._ports.deliveries.forget(token)

    # ---------------------------------------------------------------- commands

    def _execute(self, command: Command) -> Event | None:
        match command:
            case SendTask(token, message):
                self._send(token, message)
            case KillAttempt(token):
                self._ports.queue.kill(token)
            case ClaimSlot(token):
                self._ports.queue.claim(token)
            case FreeSlot(token):
                self._ports.queue.free(token)
            case CreateAttempt():
                token = self._ports.tokens()
                return self._durably(lambda: self._commands.create_attempt(self._config, command, token))
            case ResetOffsets(wish=int()):
                carried_out = self._durably(lambda: self._commands.execute(self._config, command))
                self._ports.on_wish()
                return carried_out
            case Rested(desired):
                log.info("supervisor rested", supervisor=self._config.supervisor, desired=desired.value)
            case _:
                return self._durably(lambda: self._commands.execute(self._config, command))
        return None

    def _durably(self, action: Callable[[], Event]) -> Event:
        """Repeats a store action until it is done, refused, or this leader's time is over."""
        tries = 0
        while not self._stopping.is_set():
            try:
                return action()
            except StoreUnreachable as error:
                now_ms = self._ports.clock.now_ms()
                self._store_problems.append(Problem(now_ms, "StoreUnreachable", str(error), stream=False))
                self._stopping.wait(STORE_RETRY_S[min(tries, len(STORE_RETRY_S) - 1)])
                tries += 1
            except LeadershipLost:
                self._ports.on_lost()
                raise _Ended from None
            except (StoreConflict, AttemptRefused) as error:
                log.warning("store refused", supervisor=self._config.supervisor, error=str(error))
                return StoreRefused(self._ports.clock.monotonic_ms(), str(error))
        raise _Ended

    def _send(self, token: str, command: TaskCommand) -> None:
        address = self._addresses.get(token)
        if address is None:
            self.post(TaskSilent(self._ports.clock.monotonic_ms(), token, command))
            return
        message = command
        if isinstance(command, SealCommand):
            message = replace(command, specs=self._commands.specs(self._config, command.sequences))
        self._ports.deliveries.send(Delivery(address, token, command, message, self.post))
