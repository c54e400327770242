"""Decides whether the stream still holds what comes next, and what a reset would have to move (pure).

Expired, truncated and re-created are different, named cases; none is waited for silently, none is
skipped over (design part 7).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ingest.metadata.records import StreamOffsets
from ingest.offsets import OffsetMap
from ingest.supervisor.messages import StreamSeen


@dataclass(frozen=True, slots=True)
class StreamFault:
    """``reason`` is for people; ``moves`` are the offsets at which reading could go on, per partition concerned;
    ``expired``: what is missing was read by nobody and is gone, everything else is as it was."""

    reason: str
    moves: OffsetMap
    expired: bool = False


def stream_fault(topic: str, stored: StreamOffsets, held: Iterable[OffsetMap], seen: StreamSeen) -> StreamFault | None:
    """What is wrong between the committed offsets and the stream, the gravest first; None when nothing is.

    ``held`` are positions of live attempts: records they have read need not be in the stream any more.
    """
    if stored.topic_id is not None and seen.topic_id is not None and stored.topic_id != seen.topic_id:
        return StreamFault(
            f"topic {topic!r} was deleted and created again (id {seen.topic_id}, was {stored.topic_id}): the stored "
            "offsets belong to the old one; reset the supervisor to read the new one from its start",
            seen.log_starts,
        )
    beyond = {p: o for p, o in stored.committed.items() if o > seen.log_ends.get(p, o)}
    if beyond:
        partition, offset = next(iter(beyond.items()))
        return StreamFault(
            f"topic {topic!r} partition {partition} ends at {seen.log_ends[partition]}, before the committed offset "
            f"{offset}: the log was truncated; reset the partition's offset to read on",
            seen.log_starts.restrict(beyond),
        )
    return _expired(topic, stored, list(held), seen)


def _expired(topic: str, stored: StreamOffsets, held: list[OffsetMap], seen: StreamSeen) -> StreamFault | None:
    gone: dict[int, int] = {}
    for partition, committed in stored.committed.items():
        reached = max([committed, *(positions.get(partition, 0) for positions in held)])
        if reached < seen.log_starts.get(partition, 0):
            gone[partition] = reached
    if not gone:
        return None
    partition, reached = next(iter(gone.items()))
    return StreamFault(
        f"topic {topic!r} partition {partition}: offsets {reached} to {seen.log_starts[partition]} have expired before "
        "they were read; reset the partition's offset to go on, or set tuningConfig.resetOffsetAutomatically",
        seen.log_starts.restrict(gone),
        expired=True,
    )
