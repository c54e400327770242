"""Turns a jump to the latest offsets into a wish: what is skipped is a bounded supervisor's range (decision 23)."""

from __future__ import annotations

import copy
from typing import Any

from ingest.errors import IngestError
from ingest.metadata.records import DesiredState, ResetWish, StreamOffsets
from ingest.spec import parse_supervisor_spec
from ingest.supervisor.runner import RunnerView

_CONFIGS = ("dataSchema", "ioConfig", "tuningConfig")
# What a bounded range excludes, or what has no meaning in it.
_LEFT_OUT = ("autoScalerConfig", "idleConfig")


class CannotBackfill(IngestError):
    """The supervisor is not in a state, or has no spec, from which it could jump."""

    effect_known_absent = True


def backfill_wish(
    view: RunnerView, stored: StreamOffsets | None, name: str, task_count: int | None, now_ms: int
) -> ResetWish:
    """The wish, with where the stream ended when it was last looked at (every three seconds) as where to go on.

    The range itself is cut when the wish is carried out. Partitions without an offset are not moved: they will be
    read from their first record.

    Raises:
        CannotBackfill: see there; the message names the cure.
        SpecError: a spec like this cannot be posted for a range.
    """
    spec, stream = view.spec, view.stream
    supervisor, io = spec.supervisor, spec.io
    if task_count is not None and task_count < 1:
        raise CannotBackfill(f"backfillTaskCount: must be greater than 0 (found {task_count})")
    if io.topic_pattern is not None:
        raise CannotBackfill(
            f"supervisor {supervisor!r} reads topicPattern {io.topic_pattern!r}: a bounded range is of one topic; move "
            "its offsets by resetOffsets, and post a boundedStreamConfig for each topic"
        )
    if io.bounds is not None:
        raise CannotBackfill(f"supervisor {supervisor!r} has a boundedStreamConfig: it has no latest offsets to go to")
    if io.use_earliest_offset:
        raise CannotBackfill(
            f"supervisor {supervisor!r} has useEarliestOffset true: its next reset would read the skipped range again; "
            "post the spec with false first"
        )
    if view.health.state != DesiredState.RUNNING.name:
        raise CannotBackfill(
            f"supervisor {supervisor!r} is {view.health.state}, not RUNNING: resume it, or cure what its status tells"
        )
    if stored is None or not stream.log_ends:
        raise CannotBackfill(f"the stream of {supervisor!r} has not been reached yet, so no offset is known")
    if stream.topic_id != stored.topic_id:
        raise CannotBackfill(f"topic {io.stream!r} was made again: what would be skipped is gone; use reset")
    moves = stream.log_ends.restrict(stored.committed)
    backfill = _spec_of(spec.posted, name, io.task_count if task_count is None else task_count)
    trial = copy.deepcopy(backfill)
    trial["spec"]["ioConfig"]["boundedStreamConfig"] = {
        "startSequenceNumbers": moves.to_json(),
        "endSequenceNumbers": moves.to_json(),
    }
    parse_supervisor_spec(trial)  # what cannot be read later is refused now
    return ResetWish(0, supervisor, io.topic, moves, stored.topic_id, False, now_ms, backfill)


def _spec_of(posted: dict[str, Any], name: str, task_count: int) -> dict[str, Any]:
    """The supervisor's own spec under another id, without a range yet; also of Druid's older flat form."""
    found = copy.deepcopy(posted)
    if "spec" not in found:
        found["spec"] = {config: found.pop(config) for config in _CONFIGS if config in found}
    io = {field: value for field, value in found["spec"]["ioConfig"].items() if field not in _LEFT_OUT}
    found["spec"]["ioConfig"] = {**io, "taskCount": task_count}
    return {**found, "id": name, "suspended": False}
