"""The judge of chaos sees what is missing, doubled or too much, and forgives only what was destroyed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.chaos.content import Content, Loss, judged

SENT = [10, 10]


def answer(*rows: Iterable[int]) -> list[tuple[int, int, int, int]]:
    """What a table that holds these rows per partition would say."""
    held = [list(each) for each in rows]
    return [(p, len(each), max(each), sum(each)) for p, each in enumerate(held) if each]


def test_a_prefix_of_each_partition_is_right() -> None:
    assert judged(Loss(), SENT, answer(range(7), range(10))) == ([7, 10], [])
    assert judged(Loss(), SENT, answer(range(7))) == ([7, 0], [])


@pytest.mark.parametrize("rows", [[0, 1, 3], [0, 1, 1, 2], [1, 2, 3], [0, 0], [0, 2, 2, 3, 3]])
def test_a_missing_or_doubled_row_is_seen(rows: list[int]) -> None:
    _, faults = judged(Loss(), SENT, answer(rows))
    assert len(faults) == 1


def test_a_row_that_was_never_sent_is_seen() -> None:
    assert judged(Loss(), SENT, answer(range(11)))[1]
    assert judged(Loss(), SENT, answer(range(1), range(1), range(1)))[1], "a partition that there is not"


def test_only_rows_that_were_destroyed_may_be_missing() -> None:
    loss = Loss().with_range(0, (3, 6))
    sound = [n for n in range(10) if not 3 <= n < 6]
    assert judged(loss, SENT, answer(sound)) == ([10, 0], [])
    assert judged(loss, SENT, answer(sound[:3])) == ([3, 0], [])
    assert judged(loss, SENT, answer([n for n in sound if n != 7]))[1]
    assert judged(loss, SENT, answer([n for n in sound if n != 2]))[1]


def test_ranges_that_touch_or_overlap_are_one() -> None:
    loss = Loss().with_range(1, (3, 6)).with_range(1, (6, 8)).with_range(1, (5, 7)).with_range(1, (20, 21))
    assert loss.of(1) == ((3, 8), (20, 21))
    assert loss.of(0) == ()
    assert (loss.rows(1, 5), loss.rows(1, 30), loss.total(1, 5)) == (2, 6, 3 + 4)
    assert (loss.reach(1, 21), loss.reach(1, 8), loss.reach(1, 9), loss.reach(1, 3)) == (20, 3, 9, 3)


def test_what_was_delivered_between_two_offsets_is_lost() -> None:
    content = Content(2)
    content.sent[:] = SENT
    for row in range(10):
        content.delivered(0, row, 2 * row)  # with a hole after each
    content.lose(0, 5, 11)
    assert content.loss.of(0) == ((3, 6),)
    content.lose(0, 15, 1_000)
    assert content.loss.of(0) == ((3, 6), (8, 10))
    assert content.sound == 5 + 10
    assert content.reaches() == [8, 10]
    content.lose(1, 0, 1_000)
    assert content.loss.of(1) == (), "nothing was delivered there"
    assert content.loss.condition() == "NOT ((p = 0 AND seq >= 3 AND seq < 6) OR (p = 0 AND seq >= 8 AND seq < 10))"


def test_rows_of_a_topic_made_again_have_new_offsets() -> None:
    content = Content(1)
    content.sent[:] = [4]
    content.delivered(0, 3, 300)
    content.forget_offsets()
    content.lose(0, 0, 1_000)
    assert content.loss.of(0) == ()
    content.grow(2)
    assert content.sent == [4, 0]
