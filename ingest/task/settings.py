"""What a supervisor spec says about one task's limits."""

from __future__ import annotations

from typing import Final

from ingest.spec import SupervisorSpec
from ingest.task.messages import TaskLimits

HELD_BYTES_MAX: Final = 20 << 30
SEQUENCE_BYTES_MAX: Final = 8 << 30


def limits_of(spec: SupervisorSpec, held_bytes_max: int = HELD_BYTES_MAX) -> TaskLimits:
    """A sequence ends after taskDuration or intermediateHandoffPeriod, whichever is shorter, and by rows.

    ``held_bytes_max`` bounds what the task holds on disk and in memory before reading waits.
    """
    periods = [spec.io.task_duration_ms, spec.tuning.intermediate_handoff_period_ms or 0]
    return TaskLimits(
        segment_rows_max=spec.tuning.max_rows_per_segment,
        sequence_rows_max=spec.tuning.max_total_rows,
        sequence_bytes_max=min(SEQUENCE_BYTES_MAX, held_bytes_max // 2),
        period_ms=min((period for period in periods if period > 0), default=0),
        held_bytes_max=held_bytes_max,
    )
