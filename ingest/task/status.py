"""What a task tells of itself: heartbeats and the documents of its control server."""

from __future__ import annotations

from typing import Any

from ingest.protocol import TaskHeartbeat
from ingest.task.machine_state import TaskView
from ingest.task.messages import TaskStatus
from ingest.task.rows import TaskRows

PARSE_ERRORS_TOLD = 10


class Pauses:
    """How often and how long reading stood still for a checkpoint. For the ingest thread; ``counters`` for any."""

    def __init__(self) -> None:
        self._since_ms: int | None = None
        self._count = 0
        self._total_ms = 0
        self._longest_ms = 0

    def see(self, since_ms: int | None, now_ms: int) -> None:
        """After every event: when the present pause began, None while there is none (monotonic)."""
        if self._since_ms is not None and since_ms != self._since_ms:
            took_ms = now_ms - self._since_ms
            self._count += 1
            self._total_ms += took_ms
            self._longest_ms = max(self._longest_ms, took_ms)
        self._since_ms = since_ms

    def counters(self) -> dict[str, int]:
        return {"pauses": self._count, "pausedMs": self._total_ms, "pausedMsLongest": self._longest_ms}


def compose_heartbeat(
    token: str, table: str, view: TaskView, rows: TaskRows, stream_error: str | None
) -> TaskHeartbeat:
    """A beat from the task's last picture; safe from any thread."""
    held_rows, held_bytes = rows.held()
    return TaskHeartbeat(
        token=token,
        sequence=max(view.sequence, 0),
        positions=view.positions,
        # The word for it stands in ingest.supervisor.health, which a task does not see.
        status="cannot_read" if stream_error and view.status is TaskStatus.READING else view.status.value,
        paused_since_ms=view.paused_since_ms,
        unpublished_rows=held_rows,
        unpublished_bytes=held_bytes,
        pending_publishes=view.pending_publishes,
        counters=rows.counters(),
        detail=stream_error or view.detail or None,
        parse_errors=rows.parse_errors()[:PARSE_ERRORS_TOLD],
        behind=view.behind,
        read=view.read,
        parse_exceptions=view.parse_exceptions,
        table=table,
        published_version=max([view.dropped_through, *(version for *_, version in view.sequences)]),
    )


def status_document(view: TaskView, rows: TaskRows, stream_error: str | None, handoffs: int) -> dict[str, Any]:
    """The document of ``GET /v1/status``."""
    held_rows, held_bytes = rows.held()
    return {
        "status": view.status.value,
        "sequence": view.sequence,
        "positions": view.positions.to_json(),
        "committer": view.committer,
        "pendingPublishes": view.pending_publishes,
        "pendingHandoffs": handoffs,
        "heldRows": held_rows,
        "heldBytes": held_bytes,
        "detail": stream_error or view.detail,
        "sequences": [
            {
                "number": record.ref.number,
                "start": record.start.to_json(),
                "position": position.to_json(),
                "end": None if record.end is None else record.end.to_json(),
                "phase": phase.value,
            }
            for record, position, phase, _ in view.sequences
        ],
    }
