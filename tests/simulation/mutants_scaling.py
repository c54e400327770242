"""Rules of rescaling removed, one each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingest.metadata.memory import MemoryMetadataStore
from ingest.supervisor import machine_replicas
from tests.simulation.mutants_supervisor import nothing
from tests.simulation.mutation import Mutant

Replicas = machine_replicas.ReplicaRules

_create_attempt = MemoryMetadataStore.create_attempt


def _waiting_counts_as_assigned(store: Any, generation: int, attempt: Any) -> Any:
    """A sequence is marked assigned when somebody shall read it, not when a worker is told to."""
    created = _create_attempt(store, generation, attempt)
    store._put(*(replace(record, assigned=True) for record in created[1]))
    return created


MUTANTS = [
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
