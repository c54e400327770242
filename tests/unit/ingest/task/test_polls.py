"""Cutting polls along sequence ends and message counts."""

from __future__ import annotations

from ingest.stream.supplier import Poll
from ingest.task.messages import Run
from ingest.task.polls import runs_of, split_at_ends, split_poll, take_messages


def poll(partition: int, first: int, offsets: list[int], end: int) -> Poll:
    return Poll(partition, first, end, offsets, [b"%d" % o for o in offsets], [0] * len(offsets))


def covered(polls: list[Poll]) -> list[tuple[int, int, int, list[int]]]:
    return [(p.partition, p.first_offset, p.end_offset, list(p.offsets)) for p in polls]


def test_a_poll_is_cut_at_an_offset_and_holes_stay_covered() -> None:
    below, above = split_poll(poll(0, 10, [10, 11, 15], 20), 13)
    assert below is not None
    assert above is not None
    assert covered([below, above]) == [(0, 10, 13, [10, 11]), (0, 13, 20, [15])]


def test_nothing_is_cut_outside_of_the_range() -> None:
    whole = poll(0, 10, [10], 20)
    assert split_poll(whole, 20) == (whole, None)
    assert split_poll(whole, 10) == (None, whole)


def test_a_partition_without_an_end_lies_wholly_above() -> None:
    below, above = split_at_ends([poll(0, 0, [0, 1], 2), poll(1, 5, [5], 6)], {0: 1})
    assert covered(below) == [(0, 0, 1, [0])]
    assert covered(above) == [(0, 1, 2, [1]), (1, 5, 6, [5])]


def test_an_open_window_takes_everything() -> None:
    polls = [poll(0, 0, [0, 1], 2)]
    assert split_at_ends(polls, None) == (polls, [])


def test_the_first_messages_are_taken_across_partitions_in_order() -> None:
    taken, left = take_messages([poll(0, 0, [0, 1], 3), poll(1, 5, [5, 7, 9], 10)], 3)
    assert covered(taken) == [(0, 0, 3, [0, 1]), (1, 5, 7, [5])]
    assert covered(left) == [(1, 7, 10, [7, 9])]


def test_runs_cover_what_the_polls_cover() -> None:
    assert runs_of([poll(0, 3, [], 5), poll(1, 5, [], 5)]) == (Run(0, 3, 5),)
