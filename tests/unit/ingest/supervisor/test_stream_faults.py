"""Expired, truncated and re-created topics are told apart, and named."""

from __future__ import annotations

from ingest.metadata.records import StreamOffsets
from ingest.offsets import OffsetMap
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
