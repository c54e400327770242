"""Decides whether the stream still holds what comes next, and what a reset would have to move (pure).

Expired, truncated and re-created are different, named cases; none is waited for silently, none is
skipped over (design part 7).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ingest.metadata.records import StreamOffsets
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord, split_ids
from ingest.supervisor.messages import StreamSeen
from ingest.supervisor.state import Group


@dataclass(frozen=True, slots=True)
class StreamFault:
    """``reason`` is for people; ``moves`` are the offsets at which reading could go on, per partition concerned;
    ``expired``: what is missing was read by nobody and is gone, everything else is as it was."""

    reason: str
    moves: OffsetMap
    expired: bool = False


def stream_fault(topic: str, stored: StreamOffsets, held: OffsetMap, seen: StreamSeen) -> StreamFault | None:
    """What is wrong between the committed offsets and the stream, the gravest first; None when nothing is.

    ``held`` says how far live attempts hold what was read (``held_through``): records below need not be in the
    stream any more.
    """
    made_again = _made_again(topic, stored, seen)
    if made_again is not None:
        return made_again
    beyond = {p: o for p, o in stored.committed.items() if o > seen.log_ends.get(p, o)}
    if beyond:
        partition, offset = next(iter(beyond.items()))
        return StreamFault(
            f"{_name(topic, partition, seen)} ends at {seen.log_ends[partition]}, before the committed offset "
            f"{offset}: the log was truncated; reset the partition's offset to read on",
            seen.log_starts.restrict(beyond),
        )
    return _expired(topic, held, seen)


def _made_again(topic: str, stored: StreamOffsets, seen: StreamSeen) -> StreamFault | None:
    """Of several topics only those that were made again must move."""
    if stored.topic_id is None or seen.topic_id is None or stored.topic_id == seen.topic_id:
        return None
    moves, was, found = seen.log_starts, stored.topic_id, seen.topic_id
    if seen.places:
        before, now = split_ids(stored.topic_id), split_ids(seen.topic_id)
        other = [name for name in sorted(before) if now.get(name, before[name]) != before[name]]
        if not other:
            return None  # topics came or went
        topic = other[0]
        moves = OffsetMap((p, o) for p, o in moves.items() if seen.places[p].topic in other)
        was, found = before[topic], now[topic]
    return StreamFault(
        f"topic {topic!r} was deleted and created again (id {found}, was {was}): the stored "
        "offsets belong to the old one; reset the supervisor to read the new one from its start",
        moves,
    )


def _name(topic: str, partition: int, seen: StreamSeen) -> str:
    place = seen.places.get(partition)
    if place is not None:
        topic, partition = place.topic, place.partition
    return f"topic {topic!r} partition {partition}"


def _expired(topic: str, held: OffsetMap, seen: StreamSeen) -> StreamFault | None:
    gone = {p: reached for p, reached in held.items() if reached < seen.log_starts.get(p, 0)}
    if not gone:
        return None
    partition, reached = next(iter(gone.items()))
    return StreamFault(
        f"{_name(topic, partition, seen)}: offsets {reached} to {seen.log_starts[partition]} have expired before "
        "they were read; reset the partition's offset to go on, or set tuningConfig.resetOffsetAutomatically",
        seen.log_starts.restrict(gone),
        expired=True,
    )


def held_through(committed: OffsetMap, groups: Iterable[Group]) -> OffsetMap:
    """Per partition, how far everything is published or held by a live attempt without a break (PR-17).

    Walks each partition's unpublished ranges in order. A range counts as far as attempts of its own group have
    read it: whoever reads on behind it holds nothing of it. ``committed`` may be older than where the first
    range starts.
    """
    chains: defaultdict[int, list[tuple[Group, SequenceRecord]]] = defaultdict(list)
    for group in sorted(groups, key=lambda group: group.epoch):
        for record in group.in_order():
            for partition in record.start:
                chains[partition].append((group, record))
    return OffsetMap((p, _reached(p, offset, chains[p])) for p, offset in committed.items())


def _reached(partition: int, committed: int, chain: Sequence[tuple[Group, SequenceRecord]]) -> int:
    reached = max(committed, chain[0][1].start[partition]) if chain else committed
    for group, record in chain:
        read = [replica.read_of(record, partition) for replica in group.replicas.values() if not replica.ending]
        furthest = max([reached, *read])
        if record.end is None or furthest < record.end[partition]:
            return furthest
        reached = max(reached, record.end[partition])
    return reached
