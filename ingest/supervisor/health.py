"""A supervisor's state in Druid's words, from counts of good and bad runs and tasks (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingest.metadata.records import DesiredState

# The newest problems shown to people; Druid keeps as many as its larger threshold.
EVENTS_MAX = 10
STOPPING = "stopping"
"""The word of a task's beat once it was told to stop: it reads no further open sequence."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One recorded failure; ``at_ms`` is wall-clock time."""

    at_ms: int
    kind: str
    message: str
    stream: bool


@dataclass(frozen=True, slots=True)
class Status:
    """``state`` is one of Druid's basic states, ``detailed`` refines it."""

    state: str
    detailed: str
    healthy: bool


@dataclass(slots=True)
class Health:
    """Consecutive good and bad looks at the stream, and consecutive good and bad task ends."""

    unhealthy_after: int
    healthy_after: int
    bad_runs: int = 0
    good_runs: int = 0
    bad_tasks: int = 0
    good_tasks: int = 0
    ever_connected: bool = False
    was_unhealthy: str | None = None
    named: str | None = None  # a condition only an operator can end, in plain words
    stopped: str | None = None  # another one: nothing is read any more (PR-16)
    problems: list[Problem] = field(default_factory=list)

    @property
    def reason(self) -> str | None:
        """What only an operator can end, in plain words."""
        return self.stopped or self.named

    def run_succeeded(self) -> None:
        self.good_runs += 1
        self.bad_runs = 0
        self.ever_connected = True

    def run_failed(self, at_ms: int, kind: str, message: str, stream: bool) -> None:
        self.bad_runs += 1
        self.good_runs = 0
        self._note(Problem(at_ms, kind, message, stream))

    def task_ended(self, at_ms: int, succeeded: bool, message: str) -> None:
        if succeeded:
            self.good_tasks += 1
            self.bad_tasks = 0
            return
        self.bad_tasks += 1
        self.good_tasks = 0
        self._note(Problem(at_ms, "TaskFailed", message, False))

    def spec_changed(self) -> None:
        """What went wrong under the old spec says nothing of the new one: one good look, or one task that
        ends well, is enough to be healthy again; until it comes nothing is known to be better."""
        self.bad_runs, self.good_runs = 0, self.healthy_after - 1
        self.bad_tasks, self.good_tasks = 0, self.healthy_after - 1

    def progressed(self) -> None:
        """A sequence was published: the tasks work, whatever failed before."""
        self.good_tasks = max(self.good_tasks, self.healthy_after)
        self.bad_tasks = 0

    def _note(self, problem: Problem) -> None:
        self.problems.append(problem)
        del self.problems[:-EVENTS_MAX]

    def status(self, desired: DesiredState, stopping: bool, started: bool) -> Status:
        """``stopping``: groups are still on their way out; ``started``: tasks were created."""
        unhealthy = self._unhealthy()
        if unhealthy is not None:
            state, detailed = unhealthy
            return Status(state, detailed, False)
        if desired is DesiredState.TERMINATED:
            return Status("STOPPING", "STOPPING", True)
        if desired is DesiredState.SUSPENDED:
            return Status("SUSPENDED", "SUSPENDED", True)
        if not self.ever_connected:
            return Status("PENDING", "PENDING", True) if not self.bad_runs else self._running("CONNECTING_TO_STREAM")
        if not started and not stopping:
            return self._running("CREATING_TASKS")
        return self._running("RUNNING")

    @staticmethod
    def _running(detailed: str) -> Status:
        return Status("RUNNING", detailed, True)

    def _unhealthy(self) -> tuple[str, str] | None:
        """Druid's filter: past the threshold it is bad, and stays so until enough went well."""
        if self.stopped is not None:
            self.was_unhealthy = None  # an operator's act ends it at once
            return "UNHEALTHY_TASKS", "UNHEALTHY_TASKS"
        before = self.was_unhealthy
        tasks_bad = self.bad_tasks >= self.unhealthy_after
        tasks_stay_bad = before == "UNHEALTHY_TASKS" and self.good_tasks < self.healthy_after
        runs_bad = self.bad_runs >= self.unhealthy_after
        runs_stay_bad = before == "UNHEALTHY_SUPERVISOR" and self.good_runs < self.healthy_after
        found: tuple[str, str] | None = None
        if self.named is not None:
            found = ("UNHEALTHY_SUPERVISOR", "UNHEALTHY_SUPERVISOR")
        elif runs_bad or (runs_stay_bad and not tasks_bad):
            found = ("UNHEALTHY_SUPERVISOR", self._stream_word())
        elif tasks_bad or tasks_stay_bad:
            found = ("UNHEALTHY_TASKS", "UNHEALTHY_TASKS")
        self.was_unhealthy = found[0] if found else None
        return found

    def _stream_word(self) -> str:
        last = self.problems[-1] if self.problems else None
        if last is None or not last.stream:
            return "UNHEALTHY_SUPERVISOR"
        return "LOST_CONTACT_WITH_STREAM" if self.ever_connected else "UNABLE_TO_CONNECT_TO_STREAM"
