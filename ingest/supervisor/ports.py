"""What a supervisor's runner asks of others: tasks, the task queue, the stream and fresh tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ingest.clock import Clock
from ingest.metadata.store import MetadataStore
from ingest.protocol import PauseReport, SequenceRecord, TaskCommand, TaskSpec
from ingest.stream.supplier import RecordSupplier
from ingest.stream.topics import Naming

if TYPE_CHECKING:
    from ingest.supervisor.deliveries import Deliveries

SupplierFactory = Callable[[dict[str, Any], Naming], RecordSupplier]
"""Builds a supplier for a supervisor spec (as posted); the caller's thread owns it. Where the spec reads several
topics, their partitions are numbered by the ``Naming``."""

TokenSource = Callable[[], str]
"""Draws a token that nobody can guess and nobody drew before."""


class TaskClient(Protocol):
    """Commands to task processes; safe from any thread."""

    def send(self, address: str, token: str, command: TaskCommand) -> PauseReport | None:
        """Delivers one command; the report answers a pause.

        Raises:
            TaskUnreachable: no answer in time; whether the task acted is unknown.
            CommandRefused: the task answered that it does not obey, and why.
            AttemptRefused: another process answered at that address.
        """
        ...


class TaskQueue(Protocol):
    """Where attempts wait for a worker; safe from any thread, never blocks for long."""

    def enqueue(self, spec: TaskSpec, prefer_worker: str | None, avoid_workers: tuple[str, ...]) -> None:
        """Queues an attempt that is stored as PENDING. Repeating it changes nothing."""
        ...

    def reassign(self, spec: TaskSpec, worker: str) -> None:
        """Repeats the start order of an attempt stored as ASSIGNED; a worker that has it ignores that."""
        ...

    def claim(self, token: str) -> None:
        """Places a waiting attempt before all others, if need be in the slot that each worker keeps beyond
        its capacity (PR-12). Nothing for one that does not wait."""
        ...

    def free(self, token: str) -> None:
        """Takes the slot of an attempt that runs on only until query nodes have moved on."""
        ...

    def kill(self, token: str) -> None:
        """Orders whoever runs the attempt to end its process."""
        ...

    def settled(self) -> None:
        """Says that attempts ended in the store: workers waiting for an acknowledgement may have it."""
        ...


@dataclass(frozen=True, slots=True)
class RunnerPorts:
    """What every runner of one leadership shares. ``on_lost`` is told, from any thread, that a newer
    leader exists; ``on_terminated`` that a terminated supervisor has published all and its last task has
    ended; ``on_sealed`` what was saved, ``on_scaled`` from how many tasks to how many a scaler went; ``on_wish`` that
    an operator's reset was carried out, which may have made a supervisor."""

    store: MetadataStore
    deliveries: Deliveries
    queue: TaskQueue
    suppliers: SupplierFactory
    tokens: TokenSource
    clock: Clock
    on_lost: Callable[[], None]
    on_terminated: Callable[[str], None]
    on_sealed: Callable[[tuple[SequenceRecord, ...]], None]
    on_scaled: Callable[[str, int, int], None]
    on_wish: Callable[[], None]
