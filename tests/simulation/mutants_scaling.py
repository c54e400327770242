"""Rules of rescaling removed, one each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingest.metadata.memory import MemoryMetadataStore
from ingest.supervisor import machine_replicas, machine_scaling
from tests.simulation.mutants_supervisor import nothing
from tests.simulation.mutation import Mutant

Replicas = machine_replicas.ReplicaRules
Scaling = machine_scaling.ScalingRules

_create_attempt = MemoryMetadataStore.create_attempt


def _waiting_counts_as_assigned(store: Any, generation: int, attempt: Any) -> Any:
    """A sequence is marked assigned when somebody shall read it, not when a worker is told to."""
    created = _create_attempt(store, generation, attempt)
    store._put(*(replace(record, assigned=True) for record in created[1]))
    return created


def _undecided(machine: Any, event: Any) -> None:
    """A new leader begins with the spec's number of tasks."""
    machine.task_count = machine.config.task_count


def _always_now(machine: Any) -> None:
    return None


MUTANTS = [
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
        "waiting-is-assigned",
        "what waits for a slot has read nothing",
        "PR-7",
        lambda: [(MemoryMetadataStore, "create_attempt", _waiting_counts_as_assigned)],
    ),
]
