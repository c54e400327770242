"""Each rule of what a query sees (PR-1, 4 to 7), by the trace that would lose, double or hide a row."""

from __future__ import annotations

from query.assembly import Answer, AskAlso, Copy, KeepHeld, Missing, Newer, Reached, Verdict, View, advance, decide
from query.source import LiveAttempt, RequiredSequence, TableSnapshot
from segments.live import LiveAnswer, LiveSequence, LiveStatus
from segments.schema import SegmentSchema

A, B = LiveAttempt("s", 1, "a", "x:1", True), LiveAttempt("s", 1, "b", "x:2", False)


def sequence(number: int, start: int, position: int, end: int | None = None, partition: int = 0) -> LiveSequence:
    return LiveSequence(
        number, 1, {partition: start}, {partition: position}, None if end is None else {partition: end}, ()
    )


def required(
    number: int, start: int, reported: int = 0, end: int | None = None, group: int = 1, epoch: int = 0
) -> RequiredSequence:
    return RequiredSequence(
        "s",
        group,
        number,
        1,
        {0: start},
        {0: epoch},
        None if end is None else {0: end},
        {0: reported} if reported else {},
    )


def table(
    *needed: RequiredSequence,
    committed: int = 0,
    version: int = 1,
    epoch: int = 0,
    attempts: tuple[LiveAttempt, ...] = (A,),
) -> TableSnapshot:
    vectors = {"s": {0: committed}}, {"s": {0: epoch}}
    return TableSnapshot("t", version, SegmentSchema.of([]), (), (), (), *vectors, needed, attempts)


def ok(attempt: LiveAttempt, *sequences: LiveSequence) -> LiveAnswer:
    return LiveAnswer(LiveStatus.OK, attempt.token, attempt.group, sequences)


def view(verdict: Verdict) -> View:
    assert isinstance(verdict, Answer), verdict
    return verdict.view


def held(position: int, version: int = 1, epoch: int = 0) -> View:
    copy = Copy("a", {0: epoch}, (sequence(1, 0, position),))
    return View(version, {("s", 1): copy}, {("s", 0): Reached(epoch, position)})


def test_one_replica_of_each_group_is_asked_the_mirrored_one_first() -> None:
    other = LiveAttempt("s", 2, "c", "x:3", True)
    assert decide(table(required(1, 0), attempts=(B, A, other)), None, {}) == AskAlso((A, other))
    mirrored = View(1, {("s", 1): Copy("b", {0: 0}, ())}, {})
    assert decide(table(required(1, 0), attempts=(A, B)), mirrored, {}) == AskAlso((B,))


def test_a_zombies_published_sequence_is_not_live_because_the_vector_says_so() -> None:
    answer = ok(A, sequence(1, 0, 100, 100), sequence(2, 100, 130))
    got = view(decide(table(required(2, 100), committed=100, version=2), None, {"a": answer}))
    assert [s.number for s in got.copies["s", 1].sequences] == [2]
    assert got.reached == {("s", 0): Reached(0, 130)}


def test_a_publish_the_node_has_not_seen_leaves_the_sequence_live() -> None:
    answer = ok(A, sequence(1, 0, 100, 100), sequence(2, 100, 130))
    got = view(decide(table(required(1, 0, end=100), required(2, 100)), None, {"a": answer}))
    assert [s.number for s in got.copies["s", 1].sequences] == [1, 2]


def test_a_gap_after_the_vector_is_refused() -> None:
    assert isinstance(decide(table(required(2, 90), committed=80), None, {"a": ok(A, sequence(2, 90, 95))}), Missing)


def test_a_gap_or_overlap_between_sequences_is_refused() -> None:
    for start in (99, 101):
        snapshot = table(required(1, 0, end=100), required(2, start))
        assert isinstance(
            decide(snapshot, None, {"a": ok(A, sequence(1, 0, 100, 100), sequence(2, start, 130))}), Missing
        )


def test_groups_that_share_a_partition_must_join() -> None:
    other = LiveAttempt("s", 2, "c", "x:3", True)
    snapshot = table(required(1, 0, end=100), required(2, 100, group=2), attempts=(A, other))
    first = ok(A, sequence(1, 0, 100, 100))
    joined = view(decide(snapshot, None, {"a": first, "c": ok(other, sequence(2, 100, 120))}))
    assert joined.reached["s", 0] == Reached(0, 120)
    overlapping = table(required(1, 0, end=100), required(2, 90, group=2), attempts=(A, other))
    assert isinstance(decide(overlapping, None, {"a": first, "c": ok(other, sequence(2, 90, 120))}), Missing)


def test_a_replica_that_is_behind_what_was_reported_sends_the_reader_to_another() -> None:
    snapshot = table(required(1, 0, reported=50), attempts=(A, B))
    behind = {"a": ok(A, sequence(1, 0, 40))}
    assert decide(snapshot, None, behind) == AskAlso((B,))
    both = behind | {"b": ok(B, sequence(1, 0, 50))}
    assert view(decide(snapshot, None, both)).copies["s", 1].token == "b"


def test_a_sealed_sequence_must_answer_up_to_its_end() -> None:
    snapshot = table(required(1, 0, end=100))
    assert isinstance(decide(snapshot, None, {"a": ok(A, sequence(1, 0, 99))}), Missing)
    assert isinstance(decide(snapshot, None, {"a": ok(A, sequence(1, 0, 100))}), Answer)


def test_no_answer_at_all_never_passes_for_no_rows() -> None:
    for attempts, answers in (((), {}), ((A,), {"a": None}), ((A,), {"a": ok(A)})):
        verdict = decide(table(required(7, 0, reported=1000), attempts=attempts), None, answers)
        assert isinstance(verdict, Missing) and "group 1 of supervisor s" in verdict.reason and "7" in verdict.reason


def test_a_sequence_that_was_never_assigned_is_empty_at_its_start() -> None:
    assert view(decide(table(committed=5, attempts=()), None, {})).reached == {("s", 0): Reached(0, 5)}
    not_there = LiveAnswer(LiveStatus.NOT_THERE, "a", 1)
    assert view(decide(table(committed=5), None, {"a": not_there})).reached == {("s", 0): Reached(0, 5)}


def test_a_task_that_is_not_restored_yet_is_not_an_empty_one() -> None:
    listed = LiveAnswer(LiveStatus.NOT_THERE, "a", 1, (sequence(1, 0, 10),), "restoring")
    verdict = decide(table(required(1, 0)), None, {"a": listed})
    assert isinstance(verdict, Missing) and "restoring" in verdict.reason


def test_what_is_held_stays_the_answer_while_nobody_can_answer() -> None:
    got = view(decide(table(required(1, 0, reported=80)), held(70), {"a": None}))
    assert got.reached == {("s", 0): Reached(0, 70)}


def test_a_reader_who_was_away_gets_no_old_copy_that_lacks_reported_rows() -> None:
    snapshot = table(required(1, 0, reported=80))
    assert isinstance(decide(snapshot, held(70), {"a": None}, trust_held=False), Missing)
    assert isinstance(decide(snapshot, held(80), {"a": None}, trust_held=False), Answer)


def test_a_successor_is_used_only_when_it_reached_what_was_answered() -> None:
    successor = table(required(1, 0), attempts=(B,))
    behind = decide(successor, held(100), {"b": ok(B, sequence(1, 0, 90))})
    assert view(behind).copies["s", 1].token == "a"
    assert view(decide(successor, held(100), {"b": ok(B, sequence(1, 0, 101))})).copies["s", 1].token == "b"


def test_a_publish_below_what_was_answered_is_moved_to_only_in_one_step() -> None:
    # The successor was at 90 and published [0, 90); the mirror shows a dead replica's rows up to 100.
    published = table(required(2, 90), committed=90, version=2, attempts=(B,))
    assert isinstance(decide(published, held(100), {"b": ok(B, sequence(2, 90, 95))}), KeepHeld)
    assert advance(published, held(100)) is None
    moved = view(decide(published, held(100), {"b": ok(B, sequence(2, 90, 100))}))
    assert (moved.version, moved.reached) == (2, {("s", 0): Reached(0, 100)})


def test_an_attempt_that_dropped_what_it_read_past_an_end_does_not_take_rows_back() -> None:
    sealed = table(required(1, 0, end=90), required(2, 90))
    answer = ok(A, sequence(1, 0, 90, 90), sequence(2, 90, 95))
    assert view(decide(sealed, held(100), {"a": answer})).reached["s", 0] == Reached(0, 100)


def test_rows_that_were_published_whole_are_moved_to_without_asking() -> None:
    moved = advance(table(required(2, 100), committed=100, version=2), held(100))
    assert moved == View(2, {("s", 1): Copy("a", {0: 0}, ())}, {("s", 0): Reached(0, 100)})


def test_a_raised_epoch_voids_what_was_answered() -> None:
    reset = table(required(2, 40, epoch=1), committed=40, version=2, epoch=1)
    answer = ok(A, sequence(2, 40, 45))
    assert view(decide(reset, held(100), {"a": answer})).reached == {("s", 0): Reached(1, 45)}
    # The copy of the old epoch cannot stand in for the new one, even where it happens to start at the vector.
    same_start = table(required(2, 0, epoch=1), committed=0, version=2, epoch=1)
    assert isinstance(decide(same_start, held(100), {"a": None}), KeepHeld)
    assert isinstance(decide(same_start, held(100), {"a": None}, trust_held=False), Missing)
    assert view(decide(same_start, held(100), {"a": ok(A, sequence(2, 0, 1))})).reached == {("s", 0): Reached(1, 1)}


def test_a_task_of_another_epoch_is_not_believed() -> None:
    answer = LiveAnswer(LiveStatus.EPOCH, "a", 1, (sequence(1, 0, 50),))
    assert isinstance(decide(table(required(1, 0)), None, {"a": answer}), Missing)


def test_a_voided_sequence_is_not_believed_though_it_starts_at_the_vector() -> None:
    answer = ok(A, sequence(1, 0, 50), sequence(3, 50, 60))
    assert isinstance(decide(table(required(3, 50)), None, {"a": answer}), Missing)


def test_a_sequence_opened_after_the_snapshot_is_part_of_the_answer() -> None:
    answer = ok(A, sequence(1, 0, 100, 100), sequence(2, 100, 130))
    assert view(decide(table(required(1, 0)), None, {"a": answer})).reached["s", 0] == Reached(0, 130)


def test_a_task_that_dropped_rows_of_this_version_asks_for_a_newer_one() -> None:
    assert isinstance(decide(table(required(1, 0)), None, {"a": LiveAnswer(LiveStatus.TOO_OLD, "a", 1)}), Newer)


def test_a_partition_that_the_version_does_not_know_asks_for_a_newer_one() -> None:
    answer = ok(A, sequence(1, 0, 10), sequence(2, 0, 10, partition=9))
    verdict = decide(table(required(1, 0)), None, {"a": answer})
    assert isinstance(verdict, Newer) and "[9]" in verdict.reason


def test_a_terminated_supervisor_leaves_only_what_it_published() -> None:
    gone = TableSnapshot("t", 2, SegmentSchema.of([]), (), (), (), {}, {}, (), ())
    assert view(decide(gone, held(100), {})) == View(2)


def test_a_snapshot_that_comes_late_is_not_gone_back_to() -> None:
    assert isinstance(decide(table(required(1, 0)), held(100, version=2), {"a": ok(A, sequence(1, 0, 200))}), Newer)
