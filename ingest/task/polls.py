"""Cuts what was polled along sequence ends and message counts, without looking into a record (pure)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from ingest.stream.supplier import Poll
from ingest.task.messages import Run


def split_at_ends(polls: Sequence[Poll], ends: Mapping[int, int] | None) -> tuple[list[Poll], list[Poll]]:
    """Parts below and from each partition's end on; no ends: everything is below. A partition without
    an end is wholly above."""
    if ends is None:
        return list(polls), []
    below: list[Poll] = []
    above: list[Poll] = []
    for poll in polls:
        inside, after = split_poll(poll, ends.get(poll.partition, poll.first_offset))
        below += [inside] if inside is not None else []
        above += [after] if after is not None else []
    return below, above


def split_poll(poll: Poll, at: int) -> tuple[Poll | None, Poll | None]:
    """The parts of one poll below ``at`` and from it on; None for an empty range."""
    if at >= poll.end_offset:
        return poll, None
    if at <= poll.first_offset:
        return None, poll
    cut = bisect_left(poll.offsets, at)
    return _part(poll, 0, cut, poll.first_offset, at), _part(poll, cut, len(poll), at, poll.end_offset)


def take_messages(polls: Sequence[Poll], messages: int) -> tuple[list[Poll], list[Poll]]:
    """The first ``messages`` (> 0) records in order, and the rest. Invisible offsets go with the record before."""
    taken: list[Poll] = []
    left: list[Poll] = []
    for poll in polls:
        if messages <= 0:
            left.append(poll)
        elif len(poll) <= messages:
            taken.append(poll)
            messages -= len(poll)
        else:
            inside, after = split_poll(poll, poll.offsets[messages])
            taken += [inside] if inside is not None else []
            left += [after] if after is not None else []
            messages = 0
    return taken, left


def runs_of(polls: Sequence[Poll]) -> tuple[Run, ...]:
    """The offset ranges the polls cover, empty ones left out."""
    return tuple(Run(p.partition, p.first_offset, p.end_offset) for p in polls if p.end_offset > p.first_offset)


def _part(poll: Poll, low: int, high: int, first: int, end: int) -> Poll:
    return Poll(
        poll.partition,
        first,
        end,
        poll.offsets[low:high],
        poll.values[low:high],
        poll.timestamps_ms[low:high],
        None if poll.keys is None else poll.keys[low:high],
        None if poll.headers is None else poll.headers[low:high],
        poll.source,
        None if poll.documents is None else poll.documents[low:high],
    )
