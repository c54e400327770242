"""Expired, truncated and re-created topics are told apart, and named."""

from __future__ import annotations

from ingest.metadata.records import StreamOffsets
from ingest.offsets import OffsetMap
from ingest.protocol import Place, join_ids
from ingest.supervisor.messages import StreamSeen
from ingest.supervisor.stream_faults import StreamFault, stream_fault


def judged(
    committed: dict[int, int],
    log: dict[int, tuple[int, int]],
    held: dict[int, int] | None = None,
    topic_id: str | None = "a",
) -> StreamFault | None:
    stored = StreamOffsets("s", "clicks", "a", OffsetMap(committed), OffsetMap(), OffsetMap())
    seen = StreamSeen(
        0,
        topic_id,
        OffsetMap(),
        OffsetMap({p: start for p, (start, _) in log.items()}),
        OffsetMap({p: end for p, (_, end) in log.items()}),
    )
    return stream_fault("clicks", stored, OffsetMap(committed if held is None else held), seen)


def test_a_stream_that_holds_what_comes_next_has_no_fault() -> None:
    assert judged({0: 5, 1: 9}, {0: (5, 5), 1: (0, 20)}) is None


def test_another_topic_id_is_a_recreated_topic() -> None:
    fault = judged({0: 5}, {0: (0, 7)}, topic_id="b")
    assert fault is not None
    assert "'clicks' was deleted and created again" in fault.reason
    assert fault.moves == OffsetMap({0: 0})


def test_a_broker_without_topic_ids_proves_nothing() -> None:
    assert judged({0: 5}, {0: (0, 7)}, topic_id=None) is None


def test_a_log_that_ends_before_the_committed_offset_was_truncated() -> None:
    fault = judged({0: 5, 1: 9}, {0: (0, 5), 1: (2, 8)})
    assert fault is not None
    assert "partition 1 ends at 8, before the committed offset 9" in fault.reason
    assert fault.moves == OffsetMap({1: 2})


def test_a_range_that_expired_unread_is_named() -> None:
    fault = judged({0: 5, 1: 9}, {0: (7, 20), 1: (0, 20)})
    assert fault is not None
    assert "partition 0: offsets 5 to 7 have expired" in fault.reason
    assert fault.moves == OffsetMap({0: 7})


def test_records_that_a_live_attempt_has_read_may_expire() -> None:
    assert judged({0: 5}, {0: (7, 20)}, held={0: 6}) is not None
    assert judged({0: 5}, {0: (7, 20)}, held={0: 7}) is None


PLACES = {0: Place(0, "eu", 4), 1: Place(1, "us", 0), 2: Place(2, "asia", 0)}


def judged_of_several(seen_ids: dict[str, str], committed: dict[int, int], ends: dict[int, int]) -> StreamFault | None:
    ids = join_ids({"eu": "a", "us": "b"})
    stored = StreamOffsets("s", "/.*/", ids, OffsetMap(committed), OffsetMap(), OffsetMap())
    starts = OffsetMap((p, 0) for p in ends)
    seen = StreamSeen(0, join_ids(seen_ids), OffsetMap(), starts, OffsetMap(ends), places=PLACES)
    return stream_fault("/.*/", stored, OffsetMap(), seen)


def test_of_several_topics_only_those_made_again_move() -> None:
    fault = judged_of_several({"eu": "a", "us": "z"}, {0: 5, 1: 9}, {0: 5, 1: 2})
    assert fault is not None and "'us' was deleted and created again (id z, was b)" in fault.reason
    assert fault.moves == OffsetMap({1: 0})


def test_topics_that_come_and_go_are_no_fault() -> None:
    assert judged_of_several({"eu": "a", "asia": "c"}, {0: 5, 1: 9}, {0: 5, 2: 7}) is None


def test_a_fault_of_several_topics_names_topic_and_partition() -> None:
    fault = judged_of_several({"eu": "a", "us": "b"}, {0: 5, 1: 9}, {0: 3, 1: 9})
    assert fault is not None and "topic 'eu' partition 4 ends at 3" in fault.reason
