"""Rules of rescaling, bad records, rest on a quiet stream and late looks at it removed, one each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingest.metadata import rules
from ingest.metadata.memory import MemoryMetadataStore
from ingest.supervisor import machine_exceptions, machine_groups, machine_idle, machine_replicas, machine_scaling
from ingest.task import machine_state
from tests.simulation.mutants_supervisor import nothing
from tests.simulation.mutation import Mutant

Replicas = machine_replicas.ReplicaRules
Groups = machine_groups.GroupRules
Exceptions = machine_exceptions.ExceptionRules
Scaling = machine_scaling.ScalingRules
Idle = machine_idle.IdleRules

_create_attempt = MemoryMetadataStore.create_attempt


def _waiting_counts_as_assigned(store: Any, generation: int, attempt: Any) -> Any:
    """A sequence is marked assigned when somebody shall read it, not when a worker is told to."""
    created = _create_attempt(store, generation, attempt)
    store._put(*(replace(record, assigned=True) for record in created[1]))
    return created


def _seen_as_it_was(machine: Any, seen: Any) -> Any:
    """What was committed since the stream was looked at counts as cut off from it."""
    return seen


def _undecided(machine: Any, event: Any) -> None:
    """A new leader begins with the spec's number of tasks."""
    machine.task_count = machine.config.task_count


def _always_now(machine: Any) -> None:
    return None


def _count_from_nothing(machine: Any, event: Any) -> Any:
    """A new leader forgets what was published before it."""
    return _on_state_loaded(machine, replace(event, state=replace(event.state, parse_exceptions=0)))


_on_state_loaded = Groups.on_state_loaded


def _count_published(machine: Any) -> int:
    """What is read and not yet published does not count."""
    return int(machine.published_exceptions)


def _never_stopped(machine: Any) -> None:
    return None


def _stopped_and_left(machine: Any, group: Any) -> str:
    """It stops opening groups, and asks nobody for a final round."""
    stopped, machine.stopped = machine.stopped, None
    reason = _reason_to_release(machine, group)
    machine.stopped = stopped
    return str(reason)


_reason_to_release = Groups._reason_to_release


def _idle_and_left(machine: Any, group: Any) -> str:
    """It is called idle, and its tasks stay."""
    idle, machine.idle = machine.idle, False
    reason = _reason_to_release(machine, group)
    machine.idle = idle
    return str(reason)


def _by_the_stream_alone(machine: Any) -> bool:
    """A quiet stream is enough, whether it was read or not."""
    return True


def _by_the_log_alone(machine: Any) -> bool:
    """The range counts as read once it is there."""
    bounds = machine.config.bounds
    return bounds is not None and machine.offsets is not None and machine.log_ends.reached(bounds)


def _without_end(machine: Any) -> bool:
    return False


def _bytes_only(self: Any) -> bool:
    return bool(self.held_bytes >= self.limits.held_bytes_max)


def _nobody_before(record: Any, unpublished: Any) -> None:
    return None


def _says_nothing(*_: object) -> None:
    pass


MUTANTS = [
    Mutant(
        "empty-overtaken",
        "ranges of a partition are published in turn, empty ones too",
        "PR-11",
        lambda: [(rules, "predecessor", _nobody_before)],
    ),
    Mutant(
        "reserve-read-into",
        "the disk's reserve is left to what was promised to others",
        "PR-12",
        lambda: [(machine_state.TaskState, "under_pressure", property(_bytes_only))],
    ),
    Mutant(
        "bad-never-stop",
        "past the limit of bad messages nothing is read",
        "PR-16",
        lambda: [(Exceptions, "judge_exceptions", _never_stopped)],
    ),
    Mutant(
        "bad-forgotten",
        "bad messages are counted over leaders",
        "PR-16",
        lambda: [(Groups, "on_state_loaded", _count_from_nothing)],
    ),
    Mutant(
        "bad-no-final-round",
        "crossing the limit asks for a final round",
        "PR-16",
        lambda: [(Groups, "_reason_to_release", _stopped_and_left)],
    ),
    Mutant(
        "bad-published-only",
        "what is read and not yet published counts too",
        "PR-16",
        lambda: [(Exceptions, "exceptions", _count_published)],
    ),
    Mutant(
        "idle-sleeps-on",
        "what comes wakes an idle supervisor",
        "LV-1",
        lambda: [(Idle, "_stir", nothing)],
    ),
    Mutant(
        "idle-unread",
        "a supervisor is idle only when all was read",
        "LV-1",
        lambda: [(Idle, "_is_caught_up", _by_the_stream_alone)],
    ),
    Mutant(
        "idle-tasks-stay",
        "an idle supervisor's tasks publish and end",
        "LV-4",
        lambda: [(Groups, "_reason_to_release", _idle_and_left)],
    ),
    Mutant(
        "range-unread",
        "a bounded range is complete only when it was read",
        "LV-1",
        lambda: [(Idle, "_is_complete", _by_the_log_alone)],
    ),
    Mutant(
        "range-without-end",
        "what has read a bounded range publishes and ends",
        "LV-4",
        lambda: [(Idle, "_is_complete", _without_end)],
    ),
    Mutant(
        "decided-forgotten",
        "a decided number of tasks stays in force, whoever leads",
        "PR-11",
        lambda: [(Scaling, "take_decided", _undecided)],
    ),
    Mutant(
        "scales-while-moving",
        "one move of partitions is over before the next is decided",
        "PR-11",
        lambda: [(Scaling, "_why_not_now", _always_now)],
    ),
    Mutant(
        "claims-ignored",
        "the oldest unpublished range has first claim on a slot",
        "PR-12",
        lambda: [(Replicas, "claim_slot", nothing)],
    ),
    Mutant(
        "waiting-holds-slot",
        "tasks that only wait for query nodes hold no slot",
        "PR-12",
        lambda: [(Replicas, "free_slots", nothing)],
    ),
    Mutant(
        "waiting-is-assigned",
        "what waits for a slot has read nothing",
        "PR-7",
        lambda: [(MemoryMetadataStore, "create_attempt", _waiting_counts_as_assigned)],
    ),
    Mutant(
        "stopping-unheard",
        "a new leader hears from a task that it was told to leave",
        "PR-23",
        lambda: [(Replicas, "note_stopping", nothing)],
    ),
    Mutant(
        "late-look-truncates",
        "a look at the stream contradicts only what was committed before it",
        "PR-17",
        lambda: [(Groups, "_seen_by_now", _seen_as_it_was)],
    ),
]
