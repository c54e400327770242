"""The overlord: leads by a lease, runs one supervisor per spec while it does, and answers tasks, workers and operators.

Started and stopped once per process. An overlord that does not lead refuses everything that changes
something with ``NotLeading``, which names who does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ingest.clock import Clock
from ingest.errors import OtherDatabase, OverlordUnreachable, SpecError, StoreUnreachable
from ingest.metadata.records import DesiredState, Leadership, ResetWish, SupervisorRecord
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from ingest.overlord.backfilling import backfill_wish
from ingest.overlord.carrying import gone_back_to
from ingest.overlord.changing import WrongState, check_change
from ingest.overlord.hidden import is_hidden, supervisor_of, unhidden
from ingest.overlord.judging import judge_spec
from ingest.overlord.leader import LeaderElection, LeaderSettings
from ingest.overlord.refusals import NotLeading, UnknownPartition, UnknownSupervisor
from ingest.overlord.reports import facts_of
from ingest.overlord.tally import Tally
from ingest.overlord.term import OverlordPorts, Term
from ingest.protocol import AttemptRecord, TaskSpec, WorkerHeartbeat, WorkerOrders
from ingest.spec import SupervisorSpec, parse_supervisor_spec
from ingest.supervisor.messages import HandOffAsked, ResetAsked
from ingest.supervisor.report import parse_errors, row_stats, stats, status
from ingest.supervisor.runner import SupervisorRunner
from ingest.task.ports import OverlordActions


@dataclass(frozen=True, slots=True)
class Planned:
    """A judged spec beside the present one; ``refusal`` says why it would not be taken now."""

    spec: SupervisorSpec
    warnings: tuple[str, ...]
    present: SupervisorSpec | None
    refusal: str | None


@dataclass(frozen=True, slots=True)
class Offered:
    """What became of a posted spec: the stored record, warnings for people, and whether it says something new."""

    record: SupervisorRecord
    warnings: tuple[str, ...]
    modified: bool


class Overlord:
    """See the module. Every method but ``start`` and ``stop`` is safe from any thread."""

    def __init__(self, ports: OverlordPorts, settings: LeaderSettings) -> None:
        self._ports = ports
        self._lock = threading.Lock()
        # Wishes reach a supervisor's runner in the order in which they were stored: one at a time.
        self._wishing = threading.Lock()
        self._term: Term | None = None
        self._election = LeaderElection(ports.store, settings, ports.clock, self._gain, self._lose)
        self.settings = settings

    def start(self) -> None:
        self._election.start()

    def stop(self) -> None:
        """Stops supervising and gives the lease back. Tasks run on."""
        self._election.stop()

    def _gain(self, generation: int) -> None:
        term = Term(generation, self._ports, lambda: self._election.report_loss(generation))
        try:
            term.start()
        except BaseException:
            term.stop()
            raise
        with self._lock:
            self._term = term

    def _lose(self) -> None:
        with self._lock:
            term, self._term = self._term, None
        if term is not None:
            term.stop()

    # ---------------------------------------------------------------- for tasks and workers

    @property
    def clock(self) -> Clock:
        return self._ports.clock

    @property
    def tally(self) -> Tally:
        """What was counted since the process began."""
        return self._ports.tally

    def leading(self) -> Term:
        """The present term.

        Raises:
            NotLeading: another overlord leads, or nobody yet.
        """
        term = self._term
        if term is None:
            leader = self.leader()
            raise NotLeading(None if leader is None else leader.address)
        return term

    @property
    def is_leading(self) -> bool:
        """Whether this overlord leads and its supervisors run."""
        return self._term is not None

    def leader(self) -> Leadership | None:
        """Who leads by the store; None when nobody does or the store is away."""
        try:
            return self._ports.store.leadership()
        except StoreUnreachable:
            return None

    @property
    def actions(self) -> OverlordActions:
        """The task actions of the present term; raises NotLeading."""
        return self.leading().actions

    def beat(self, beat: WorkerHeartbeat) -> WorkerOrders:
        """``ingest.worker.ports.OverlordWorkers``. Raises OtherDatabase."""
        term = self.leading()
        own = self._ports.store.database_id()
        if beat.database and own and beat.database != own:
            raise OtherDatabase(f"the tasks of worker {beat.worker} belong to database {beat.database}, not to {own}")
        if beat.generation > term.generation:
            # Either this leader has been replaced, or the database has lost a leader.
            try:
                self._ports.store.testify(beat.generation, {})
            except StoreUnreachable as error:
                raise OverlordUnreachable(str(error)) from error
        return replace(term.roster.beat(beat), database=own)

    def workers(self) -> list[tuple[WorkerHeartbeat, int]]:
        """Middle managers as last heard, with the age of their beat in milliseconds."""
        now_ms = self._ports.clock.monotonic_ms()
        return [(beat, now_ms - seen_ms) for beat, seen_ms in self.leading().roster.workers()]

    def waiting_tasks(self) -> list[TaskSpec]:
        """Attempts that no worker has room for."""
        return self.leading().roster.waiting()

    # ---------------------------------------------------------------- for operators

    @contextmanager
    def _wish(self, supervisor: str) -> Iterator[Term]:
        """One wish at a time. One whose answer was lost may be stored, and asking again would be answered that all
        is so already: the supervisor is told of it as soon as the store can be read."""
        with self._wishing:
            term = self.leading()
            try:
                yield term
            except StoreUnreachable as error:
                if not error.effect_known_absent:
                    term.catch_up(supervisor, self._wishing)
                raise

    def submit(self, posted: Any) -> tuple[SupervisorRecord, tuple[str, ...]]:
        """``offer`` without its answer whether anything changed."""
        offered = self.offer(posted)
        return offered.record, offered.warnings

    def offer(self, posted: Any, *, skip_unmodified: bool = False) -> Offered:
        """Stores a posted spec and supervises it. With ``skip_unmodified`` one that is just what is stored, and is
        to run as it does, changes nothing: it does not even start again what has stopped.

        Raises:
            SpecError, NotLeading, StoreUnreachable, StoreConflict.
            WrongState: it names another topic while tasks of the old one still hold rows.
        """
        spec, warnings = judge_spec(self._unhidden(posted))
        desired = DesiredState.SUSPENDED if spec.suspended else DesiredState.RUNNING
        with self._wish(spec.supervisor) as term:
            present = self._ports.store.supervisor(spec.supervisor)
            same = present is not None and present.spec == spec.posted and present.desired is desired
            if present is not None and same and skip_unmodified:
                return Offered(present, warnings, modified=False)
            stopped = self._stopped_version(term, spec.supervisor)
            try:
                record = self._put(term, spec, desired, present)
            except StoreConflict:  # the leader went on in the meantime: judged again, it is refused in plain words
                record = self._put(term, spec, desired, present)
            if record.version == stopped and desired is DesiredState.RUNNING:  # the same spec: a start all the same
                record = self._start_again(term, record)
            term.supervise(record, spec)
        return Offered(record, warnings, modified=not same)

    def _put(
        self, term: Term, spec: SupervisorSpec, desired: DesiredState, present: SupervisorRecord | None
    ) -> SupervisorRecord:
        store, now_ms = self._ports.store, self._now_ms()
        guard = check_change(store, spec)
        back = gone_back_to(store, present, spec)
        # A wish, so that it is carried out before anything is read; with the spec or not at all.
        wish = ResetWish(0, spec.supervisor, spec.io.topic, back, None, False, now_ms) if back else None
        return store.put_supervisor(
            term.generation, spec.supervisor, spec.datasource, spec.posted, desired, now_ms, guard, wish
        )

    def plan(self, posted: Any) -> Planned:
        """How ``submit`` would judge a spec now; nothing is stored.

        Raises:
            SpecError, NotLeading, StoreUnreachable.
        """
        spec, warnings = judge_spec(self._unhidden(posted))
        self.leading()
        stored = self._ports.store.supervisor(spec.supervisor)
        refusal: str | None = None
        if stored is not None and stored.datasource != spec.datasource:
            refusal = f"supervisor {spec.supervisor!r} fills table {stored.datasource!r}; it cannot fill another"
        try:
            check_change(self._ports.store, spec)
        except WrongState as error:
            refusal = refusal or str(error)
        gone = stored is None or stored.desired is DesiredState.TERMINATED
        present = None if gone or stored is None else parse_supervisor_spec(stored.spec)[0]
        return Planned(spec, warnings, present, refusal)

    def _unhidden(self, posted: Any) -> Any:
        """A spec that was got from here shows no secret; posted again it means those that are stored."""
        if not is_hidden(posted):
            return posted
        supervisor = supervisor_of(posted)
        stored = None if supervisor is None else self._ports.store.supervisor(supervisor)
        found, problems = unhidden(posted, None if stored is None else stored.spec)
        if problems:
            raise SpecError(problems)
        return found

    def suspend(self, supervisor: str) -> SupervisorRecord:
        return self._desire(supervisor, DesiredState.SUSPENDED)

    def resume(self, supervisor: str) -> SupervisorRecord:
        return self._desire(supervisor, DesiredState.RUNNING)

    def terminate(self, supervisor: str) -> SupervisorRecord:
        """What was read is published; then the tasks end and the supervisor is gone for good."""
        return self._desire(supervisor, DesiredState.TERMINATED)

    def _desire(self, supervisor: str, desired: DesiredState) -> SupervisorRecord:
        with self._wish(supervisor) as term:
            present = self._ports.store.supervisor(supervisor)
            if present is None or present.desired is DesiredState.TERMINATED:
                raise self._unknown(supervisor)
            if present.desired is not desired:
                record = self._ports.store.set_desired(term.generation, supervisor, desired, self._now_ms())
            elif desired is DesiredState.RUNNING and self._stopped_version(term, supervisor) == present.version:
                record = self._start_again(term, present)
            else:
                raise WrongState(f"supervisor {supervisor!r} is already {desired.value}")
            spec, _ = parse_supervisor_spec(record.spec)
            term.supervise(record, spec)
        return record

    @staticmethod
    def _stopped_version(term: Term, supervisor: str) -> int | None:
        runner = term.runner(supervisor)
        return None if runner is None else runner.view().stopped_version

    def _start_again(self, term: Term, record: SupervisorRecord) -> SupervisorRecord:
        return self._ports.store.start_again(term.generation, record.supervisor, record.version, self._now_ms())

    def reset(self, supervisor: str, *, discard: bool = False) -> OffsetMap:
        """Moves every partition to where a new supervisor would start; returns these offsets.

        What was read is published first, for up to a minute; with ``discard`` it is given up at once. The moves
        are carried out by the supervisor, soon.
        """
        view = self._runner(supervisor).view()
        io = view.spec.io
        starts = view.stream.log_starts if io.use_earliest_offset else view.stream.log_ends
        starts = starts if io.bounds is None else OffsetMap(io.bounds.starts)
        if not starts:
            raise WrongState(f"the stream of {supervisor!r} has not been reached yet, so no offset is known")
        self.reset_offsets(supervisor, starts, discard=discard)
        return starts

    def reset_offsets(self, supervisor: str, moves: OffsetMap, *, discard: bool = False) -> None:
        """Moves the named partitions to the given offsets (PR-24).

        The wish is stored when this returns: whoever leads carries it out, once.
        """
        with self._wish(supervisor) as term:
            runner, store = self._runner(supervisor), self._ports.store
            view = runner.view()
            topic, topic_id = view.spec.io.topic, view.stream.topic_id
            stored = store.offsets(supervisor, topic)
            if stored is None:
                raise WrongState(f"the stream of {supervisor!r} has not been reached yet: there is no offset to move")
            if any(partition not in stored.committed for partition in moves):
                raise UnknownPartition(supervisor, moves, stored.committed)
            wish = ResetWish(0, supervisor, topic, moves, topic_id, discard, self._now_ms())
            wish_id = store.ask_reset(term.generation, wish).wish_id
            now_ms = self._ports.clock.monotonic_ms()
            runner.post(ResetAsked(now_ms, moves, discard, topic_id=topic_id, wish=wish_id))

    def backfill(self, supervisor: str, task_count: int | None) -> str:
        """Jumps to the latest offsets, as by ``reset_offsets``, and leaves what is skipped to a new bounded supervisor,
        whose name it returns. Raises CannotBackfill, SpecError."""
        with self._wish(supervisor) as term:
            runner, store = self._runner(supervisor), self._ports.store
            view = runner.view()
            name = f"{supervisor}_backfill_{self._ports.tokens()[-8:]}"
            stored = store.offsets(supervisor, view.spec.io.topic)
            wish = store.ask_reset(term.generation, backfill_wish(view, stored, name, task_count, self._now_ms()))
            now_ms = self._ports.clock.monotonic_ms()
            runner.post(ResetAsked(now_ms, wish.moves, wish.discard, topic_id=wish.topic_id, wish=wish.wish_id))
        return name

    def hand_off(self, supervisor: str, groups: frozenset[int]) -> tuple[int, ...]:
        """Ends the open sequences of these task groups as soon as may be, so that they are published; as good as it
        can: unknown groups and those that have read nothing are passed over. Returns the groups that there are."""
        runner = self._runner(supervisor)
        runner.post(HandOffAsked(self._ports.clock.monotonic_ms(), groups))
        return tuple(sorted(each.group for each in self._ports.store.groups(supervisor)))

    def shut_down_task(self, task_id: str) -> bool:
        """Ends the task's process; its group gets another attempt. False when no live one is known."""
        term = self.leading()
        tokens = [a.token for a in self._ports.store.attempts(None, True, 10_000) if a.task_id == task_id]
        for token in tokens:
            term.roster.kill(token)
        return bool(tokens)

    def status(self, supervisor: str) -> dict[str, Any]:
        """Druid's status document."""
        facts = facts_of(self._ports.store, self._runner(supervisor), self.leading().served)
        return status(facts, self._now_ms())

    def stats(self, supervisor: str) -> dict[str, Any]:
        """Druid's row statistics by group and task."""
        runner = self._runner(supervisor)
        facts = facts_of(self._ports.store, runner)
        return stats(facts.groups, facts.beats, runner.view().rates)

    def parse_errors(self, supervisor: str) -> list[dict[str, Any]]:
        """Samples of records that could not be read, newest first."""
        return parse_errors(self._runner(supervisor).view().beats)

    def row_stats(self, attempt: AttemptRecord) -> dict[str, Any] | None:
        """Row statistics of one live attempt, as last heard."""
        runner = self.leading().runner(attempt.supervisor)
        view = None if runner is None else runner.view()
        beat = None if view is None else view.beats.get(attempt.token)
        return None if view is None or beat is None else row_stats(beat.counters, view.rates.get(attempt.token))

    def places(self, supervisor: str) -> dict[str, int]:
        """Of a supervisor of several topics: the number of each ``topic:partition``."""
        view = self._runner(supervisor).view()
        return {place.name: place.number for place in self._ports.store.places(supervisor, view.spec.io.topic)}

    def spec(self, supervisor: str) -> SupervisorSpec:
        """The supervisor's parsed spec."""
        return self._runner(supervisor).view().spec

    def _runner(self, supervisor: str) -> SupervisorRunner:
        runner = self.leading().runner(supervisor)
        if runner is None:
            raise self._unknown(supervisor)
        return runner

    def _unknown(self, supervisor: str) -> UnknownSupervisor:
        return UnknownSupervisor(supervisor, self._ports.store.supervisors())

    def _now_ms(self) -> int:
        return self._ports.clock.now_ms()
