"""Names of data sources and segments: exact text forms, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segments.errors import InvalidName
from segments.identity import DataSource, SegmentId, ShardSpec, data_source
from segments.interval import Interval
from segments.storage.layout import key_for, table_folder

names = st.from_regex(r"[a-zA-Z_0-9 :Zé\-]{1,30}", fullmatch=True).filter(lambda text: text == text.strip())
versions = st.from_regex(r"[0-9a-zT:.\-]{0,12}[a-zA-Z.]", fullmatch=True)
times = st.integers(-(2**50), 2**50)


@given(names, times, st.integers(0, 2**40), versions, st.integers(0, 2**31))
def test_an_id_reads_back_from_its_text(name: str, start_ms: int, width_ms: int, version: str, number: int) -> None:
    segment_id = SegmentId(data_source(name), Interval(start_ms, start_ms + width_ms), version, number)
    assert SegmentId.parse(str(segment_id)) == segment_id


def test_partition_zero_is_not_spelt() -> None:
    text = "wiki_edits_2015-09-12T00:00:00.000Z_2015-09-13T00:00:00.000Z_2026-01-01T00:00:00.000Z"
    day = Interval.parse("2015-09-12/2015-09-13")
    first = SegmentId(DataSource("wiki_edits"), day, "2026-01-01T00:00:00.000Z")
    assert str(first) == text
    assert str(SegmentId(first.datasource, day, first.version, 7)) == text + "_7"
    assert first < SegmentId.parse(text + "_7") < SegmentId.parse(text + "_10")


def test_a_data_source_that_looks_like_an_id_stays_unambiguous() -> None:
    inner = "x_2015-09-12T00:00:00.000Z_2015-09-13T00:00:00.000Z_v"
    outer = SegmentId(DataSource(inner), Interval(0, 1), "2026-01-01T00:00:00.000Z", 3)
    assert SegmentId.parse(str(outer)) == outer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "wiki",
        "wiki_2015-09-12T00:00:00.000Z_2015-09-13T00:00:00.000Z",
        "wiki_2015-09-12T00:00:00.000Z_2015-09-13T00:00:00.000Z_v_0",
        "wiki_2015-09-12T00:00:00.000Z_2015-09-13T00:00:00.000Z_v_01",
        "wiki_2015-09-12T00:00:00.000Z_2015-09-13T00:00:00.000Z_7",
        "wiki_2015-09-12_2015-09-13_v",
        "wiki_2015-09-13T00:00:00.000Z_2015-09-12T00:00:00.000Z_v",
        ".wiki_2015-09-12T00:00:00.000Z_2015-09-13T00:00:00.000Z_v",
    ],
)
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        SegmentId.parse(text)


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", " a", "a ", "a\tb", "a\nb", "a\x00b", "é" * 128, "\ud800"])
def test_names_that_druid_refuses_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        data_source(name)


@pytest.mark.parametrize("name", ["wiki", "a b", "wiki_edits-2", "données", "a" * 255])
def test_names_that_druid_takes_are_taken(name: str) -> None:
    assert data_source(name) == name


@pytest.mark.parametrize("version", ["", "12", "a_b", "a/b", "a b"])
def test_versions_that_would_blur_ids_are_refused(version: str) -> None:
    with pytest.raises(InvalidName):
        SegmentId(DataSource("d"), Interval(0, 1), version)


def test_shard_specs_have_druids_json() -> None:
    assert ShardSpec(3).to_json() == {"type": "numbered", "partitionNum": 3, "partitions": 0}
    assert ShardSpec.from_json({"type": "numbered", "partitionNum": 3, "partitions": 2}) == ShardSpec(3, 2)
    assert ShardSpec.from_json({"type": "none"}) == ShardSpec(0)
    with pytest.raises(InvalidName, match="hashed"):
        ShardSpec.from_json({"type": "hashed"})


@pytest.mark.parametrize("name", ["wiki", "wiki edits", "\u00e9", "a:b*?[x]{y}", "100%"])
def test_all_files_of_a_table_lie_below_its_folder(name: str) -> None:
    segment = SegmentId(data_source(name), Interval(0, 3_600_000), "v1", 0)
    assert key_for(segment, "token").startswith(table_folder(name))
    assert not key_for(segment, "token").startswith(table_folder(name[:-1] or "x"))
