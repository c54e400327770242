"""A day of real edits through the whole row path, compared with an independent pass over the file."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from ingest.appenderator.appenderator import Appenderator
from ingest.protocol import PendingSegment, SequenceRef
from ingest.spec import parse_supervisor_spec
from segments.identity import SegmentId, data_source
from segments.interval import Interval
from tests.unit.ingest.appenderator.rows import poll_of, record_of

ROOT = Path(__file__).parents[4]


def test_a_day_of_edits_becomes_segments_with_the_same_counts_and_sums(tmp_path: Path) -> None:
    lines = gzip.decompress((ROOT / "server/quickstart/data/wikipedia-edits.jsonl.gz").read_bytes()).splitlines()
    spec, _ = parse_supervisor_spec(json.loads((ROOT / "examples/wikipedia.supervisor.json").read_text()))
    rows = Appenderator(tmp_path, 7, "token")
    record = replace(record_of(start={0: 0, 1: 0}), ref=SequenceRef("wikipedia", 7, 1))
    rows.open_sequence(record, spec)
    for at in range(0, len(lines), 4_000):
        part = lines[at : at + 4_000]
        half = len(part) // 2
        rows.append(1, [poll_of(part[:half], at // 2, 0), poll_of(part[half:], at - at // 2, 1)])
        rows.maintain(at)
    rows.persist()

    def allocate(start_ms: int, end_ms: int) -> PendingSegment:
        version = "2026-01-01T00:00:00.000Z"
        name = SegmentId(data_source("wikipedia"), Interval(start_ms, end_ms), version)
        return PendingSegment(str(name), version, 0)

    result = rows.merge(replace(record, end=rows.positions(1)), allocate)
    edits = [json.loads(line) for line in lines]
    tables = [pq.read_table(file.path).to_pylist() for file in result.files]
    stored = [row for table in tables for row in table]
    assert len(stored) == len(edits) == result.rows_in == result.rows_stored == 39_244
    assert sum(row["added"] for row in stored) == sum(edit["added"] for edit in edits) == 9_385_573
    assert len({row["user"] for row in stored}) == len({edit["user"] for edit in edits}) == 10_531
    assert [len(table) for table in tables] == [n for _, n in sorted(Counter(e["time"][:13] for e in edits).items())]
    assert sorted(str(row["page"]) + str(row["comment"]) for row in stored) == sorted(
        str(edit["page"]) + str(edit["comment"]) for edit in edits
    )
    assert Counter(row["isRobot"] for row in stored) == Counter(str(edit["isRobot"]).lower() for edit in edits)
    assert sum(counts.good for counts in result.counts.values()) == 39_244
