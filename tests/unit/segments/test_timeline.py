"""Visibility by rows, lookups by time, and Druid's overshadowing, against plain loops."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from segments.data_segment import DataSegment
from segments.identity import DataSource, SegmentId
from segments.interval import Interval
from segments.schema import SegmentSchema
from segments.timeline import Timeline, overshadowed

TEMPLATE = DataSegment(
    id=SegmentId(DataSource("t"), Interval(0, 10), "v1"),
    rows=1,
    size_bytes=1,
    schema=SegmentSchema.of([]),
    load_spec={},
    min_time_ms=0,
    max_time_ms=9,
    offsets=(),
    checksum="",
    spec_version=1,
    sequence="s",
    input_rows=1,
)


def segment_of(start_ms: int, end_ms: int, version: str = "v1", number: int = 0) -> DataSegment:
    return replace(TEMPLATE, id=SegmentId(DataSource("t"), Interval(start_ms, end_ms), version, number))


small_ids = st.builds(
    lambda start, width, version, number: segment_of(start, start + width, f"v{version}", number).id,
    st.integers(0, 20),
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(0, 1),
)


def test_a_segment_is_visible_from_its_addition_to_its_removal() -> None:
    timeline, segment = Timeline(), segment_of(0, 10)
    timeline.add(segment, added=5)
    timeline.remove(segment.id, removed=8)
    assert [timeline.is_visible(segment.id, version) for version in (4, 5, 7, 8)] == [False, True, True, False]
    timeline.add(segment, added=11)
    assert [timeline.is_visible(segment.id, version) for version in (7, 10, 11, 99)] == [True, False, True, True]


def test_repeating_an_addition_changes_nothing() -> None:
    timeline, segment = Timeline(), segment_of(0, 10)
    timeline.add(segment, added=5, removed=8)
    timeline.add(segment, added=5)
    assert not timeline.is_visible(segment.id, 8)
    assert len(timeline) == 1


def test_a_newer_version_hides_nothing_by_itself() -> None:
    timeline = Timeline()
    timeline.add(segment_of(0, 10, "v1"), added=1)
    timeline.add(segment_of(0, 10, "v2"), added=2)
    assert [segment.id.version for segment in timeline.visible(2)] == ["v1", "v2"]


def test_a_replacement_shows_in_one_step() -> None:
    timeline, old, new = Timeline(), segment_of(0, 10, "v1"), segment_of(0, 10, "v2")
    timeline.add(old, added=1)
    timeline.add(new, added=2)
    timeline.remove(old.id, removed=2)
    assert [[s.id.version for s in timeline.visible(version)] for version in (1, 2)] == [["v1"], ["v2"]]


def test_removed_segments_are_forgotten_when_no_version_needs_them() -> None:
    timeline, segment = Timeline(), segment_of(0, 10)
    timeline.add(segment, added=1, removed=5)
    assert timeline.forget_before(4) == [] and timeline.segment(segment.id) == segment
    assert timeline.forget_before(5) == [segment.id] and timeline.segment(segment.id) is None
    assert timeline.lookup(Interval(0, 10), 3) == [] and len(timeline) == 0


@given(
    st.lists(st.tuples(small_ids, st.integers(0, 5), st.one_of(st.none(), st.integers(5, 9)))),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 10),
)
def test_lookup_finds_what_a_loop_finds(
    rows: list[tuple[SegmentId, int, int | None]], start_ms: int, width_ms: int, version: int
) -> None:
    timeline, asked = Timeline(), Interval(start_ms, start_ms + width_ms)
    expected = set()
    for segment_id, added, removed in {row[0]: row for row in rows}.values():
        timeline.add(replace(TEMPLATE, id=segment_id), added, removed)
        if segment_id.interval.overlaps(asked) and added <= version and (removed is None or version < removed):
            expected.add(segment_id)
    found = [segment.id for segment in timeline.lookup(asked, version)]
    assert found == sorted(expected)


@given(st.lists(small_ids, max_size=12))
def test_overshadowed_is_what_higher_versions_cover_at_every_instant(ids: list[SegmentId]) -> None:
    def covered(segment_id: SegmentId) -> bool:
        return all(
            any(other.version > segment_id.version and other.interval.contains(instant) for other in ids)
            for instant in range(segment_id.interval.start_ms, segment_id.interval.end_ms)
        )

    assert overshadowed(ids) == {segment_id for segment_id in ids if covered(segment_id)}


def test_tables_do_not_overshadow_each_other() -> None:
    day = Interval(0, 10)
    old, new = SegmentId(DataSource("a"), day, "v1"), SegmentId(DataSource("b"), day, "v2")
    assert overshadowed([old, new]) == set()
    assert overshadowed([old, replace(new, datasource=DataSource("a"))]) == {old}
