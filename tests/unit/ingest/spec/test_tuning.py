"""Fields of ioConfig and tuningConfig do what they say, or are told to have no meaning here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs

from ingest.errors import SpecError
from ingest.spec import parse_supervisor_spec
from ingest.spec.edge import IOConfigEdge, TuningEdge
from ingest.spec.rules_index import IO_WITHOUT_MEANING, TUNING_WITHOUT_MEANING
from tests.unit.ingest.appenderator.rows import poll_of, spec_of
from tests.unit.ingest.appenderator.test_appenderator import held, merged
from tests.unit.ingest.spec.test_supervisor_spec import problems, spec_with

STATED: dict[str, Any] = {
    "pollTimeout": 5, "startDelay": "PT1S", "period": "PT1S", "stopTaskCount": 1, "serverPriorityToReplicas": {"1": 1},
    "appendableIndexSpec": {"type": "onheap"}, "skipBytesInMemoryOverheadCheck": True,
    "maxPendingPersists": 1, "numPersistThreads": 2, "indexSpecForIntermediatePersists": {}, "maxColumnsToMerge": 5,
    "segmentWriteOutMediumFactory": {"type": "tmpFile"}, "handoffConditionTimeout": 1,
    "skipSequenceNumberAvailabilityCheck": True, "releaseLocksOnHandoff": True, "workerThreads": 2, "chatThreads": 2,
    "chatRetries": 3, "httpTimeout": "PT1S", "shutdownTimeout": "PT1S", "offsetFetchPeriod": "PT5S",
    "repartitionTransitionDuration": "PT1S",
}  # fmt: skip


@pytest.mark.parametrize("name", [*IO_WITHOUT_MEANING, *TUNING_WITHOUT_MEANING])
def test_a_field_without_meaning_here_is_told_with_the_reason(name: str) -> None:
    config, reasons = ("ioConfig", IO_WITHOUT_MEANING) if name in IO_WITHOUT_MEANING else ("tuningConfig", None)
    reason = (reasons or TUNING_WITHOUT_MEANING)[name]
    posted = spec_with(f"{config}/{name}", STATED[name])
    assert parse_supervisor_spec(posted)[1] == (f"$.spec.{config}.{name} has no effect: {reason}",)
    block: Any = IOConfigEdge if reasons else TuningEdge
    default = next(info.default for field, info in block.model_fields.items() if (info.alias or field) == name)
    if not isinstance(default, int) or "P" not in str(STATED[name]):
        assert not parse_supervisor_spec(spec_with(f"{config}/{name}", default))[1], "a default needs no word"


def test_compressions_become_the_files_codecs(tmp_path: Path) -> None:
    schema = {
        "dimensionsSpec": {"dimensions": ["s"]},
        "metricsSpec": [{"type": "longSum", "name": "n", "fieldName": "n"}],
        "granularitySpec": {"rollup": False},
    }
    found = {}
    for name, index in {
        "ours": {},
        "lz4": {"indexSpec": {"dimensionCompression": "LZ4", "metricCompression": "lz4"}},
        "mixed": {"indexSpec": {"dimensionCompression": "uncompressed", "metricCompression": "zstd"}},
    }.items():
        appenderator = held(tmp_path / name, spec_of(schema, tuning=index))
        appenderator.append(1, [poll_of([{"t": 0, "s": "x" * 100, "n": at} for at in range(100)])])
        [file] = merged(appenderator).files
        group = pq.ParquetFile(file.path).metadata.row_group(0)
        columns = (group.column(at) for at in range(group.num_columns))
        found[name] = {column.path_in_schema: column.compression for column in columns}
        assert pq.read_table(file.path).num_rows == 100
    assert found == {
        "ours": {"__time": "ZSTD", "s": "ZSTD", "n": "ZSTD"},
        "lz4": {"__time": "LZ4", "s": "LZ4", "n": "LZ4"},
        "mixed": {"__time": "UNCOMPRESSED", "s": "UNCOMPRESSED", "n": "ZSTD"},
    }


def test_parts_of_an_indexspec_that_parquet_has_not_are_told() -> None:
    index = {"bitmap": {"type": "roaring"}, "longEncoding": "auto", "dimensionCompression": "lzf", "fancy": 1}
    warnings = parse_supervisor_spec(spec_with("tuningConfig", {"type": "kafka", "indexSpec": index}))[1]
    assert [text.removeprefix("$.spec.tuningConfig.indexSpec.").split(" ")[0] for text in warnings] == [
        "fancy",
        "bitmap",
        "longEncoding",
        "dimensionCompression:",
    ]
    bad = {"type": "kafka", "indexSpec": {"metricCompression": "rar"}}
    assert [p.path for p in problems(spec_with("tuningConfig", bad))] == [
        "$.spec.tuningConfig.indexSpec.metricCompression"
    ]
    assert problems(spec_with("tuningConfig", {"type": "kafka", "indexSpec": 5}))


def bad_records(tmp_path: Path, **tuning: Any) -> list[int]:
    """The offsets of the bad records that are told after eight came."""
    appenderator = held(tmp_path, spec_of({"granularitySpec": {"rollup": False}}, tuning=tuning))
    appenderator.append(1, [poll_of([b"{"] * 8)])
    appenderator.append(1, [poll_of([b"{"] * 8, first=8)])
    return [problem.offset for problem in appenderator.samples()]


def test_the_newest_bad_records_are_told_as_many_as_the_spec_says(tmp_path: Path) -> None:
    assert bad_records(tmp_path / "a") == list(range(6, 16))
    assert bad_records(tmp_path / "b", maxSavedParseExceptions=3) == [13, 14, 15]
    assert bad_records(tmp_path / "c", maxSavedParseExceptions=0) == []
    assert bad_records(tmp_path / "d", reportParseExceptions=True) == [15]


def test_bad_records_are_logged_where_the_spec_asks_for_it(tmp_path: Path) -> None:
    with capture_logs() as logs:
        bad_records(tmp_path / "a")
        assert not logs
        bad_records(tmp_path / "b", logParseExceptions=True)
    assert [line["offset"] for line in logs if line["event"] == "record not read"] == list(range(16))


def test_what_is_not_built_is_refused_with_its_reason() -> None:
    for name, value in (
        ("boundedStreamConfig", {"startSequenceNumbers": {}}),
        ("configOverrides", {"a": 1}),
        ("stopTaskCount", 0),
    ):
        with pytest.raises(SpecError, match=f"ioConfig.{name}"):
            parse_supervisor_spec(spec_with(f"ioConfig/{name}", value))
