"""The rules of a spec's boundedStreamConfig: from which offset to which each partition is read, once."""

from __future__ import annotations

from typing import Any, Final

from ingest.spec.edge import IOConfigEdge
from ingest.spec.model import Bounds
from ingest.spec.notes import Notes

_OFFSET_MAX: Final = 2**63 - 1
_CURE: Final = 'write {"0": 17}: the first offset to read, and the one after the last'
_WRAPPERS: Final = ("partitionSequenceNumberMap", "partitionOffsetMap")


def read_bounds(block: IOConfigEdge, path: str, notes: Notes) -> Bounds | None:
    """The bounds, None where there are none; faults are noted."""
    edge, path = block.bounded_stream_config, f"{path}.boundedStreamConfig"
    if edge is None:
        return None
    if block.topic_pattern is not None:
        notes.refused(path, "{...}", "a bounded range of several topics", "name one topic")
        return None
    before = len(notes.problems)
    starts = _offsets(edge.start_sequence_numbers, f"{path}.startSequenceNumbers", notes)
    ends = _offsets(edge.end_sequence_numbers, f"{path}.endSequenceNumbers", notes)
    if len(notes.problems) > before:
        return None
    for partition in sorted(starts.keys() ^ ends.keys()):
        rule = "has only one of start and end"
        notes.problem(f"{path}.endSequenceNumbers", partition, rule, "name the same partitions in both")
    for partition in sorted(starts.keys() & ends.keys()):
        if ends[partition] < starts[partition]:
            rule = f"lies below the start, {starts[partition]}"
            notes.problem(f"{path}.endSequenceNumbers[{partition}]", ends[partition], rule, "correct one of them")
    if block.auto_scaler_config is not None and block.auto_scaler_config.enable_task_auto_scaler:
        notes.problem(path, "{...}", "excludes an autoScalerConfig that is enabled", "state taskCount")
    return Bounds(starts, ends)


def _offsets(posted: dict[str, Any] | None, path: str, notes: Notes) -> dict[int, int]:
    """Offsets by partition; Druid's typed objects hold them a step further in."""
    for name in _WRAPPERS:
        if posted is not None and isinstance(posted.get(name), dict):
            posted, path = posted[name], f"{path}.{name}"
    if not posted:
        notes.problem(path, posted, "is required", _CURE)
        return {}
    found: dict[int, int] = {}
    for partition, offset in posted.items():
        number = int(offset) if isinstance(offset, str) and offset.isdecimal() else offset
        whole = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _OFFSET_MAX
        if not (partition.isdecimal() and partition.isascii() and len(partition) < 10) or not whole:
            notes.problem(f"{path}[{partition!r}]", offset, "is no partition with an offset from 0 on", _CURE)
        else:
            found[int(partition)] = number
    return found
