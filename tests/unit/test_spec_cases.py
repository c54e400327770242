"""The specs of ``tests/acceptance/specs`` on a stream in memory, by a task's row path; their twin runs on Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.appenderator.appenderator import Appenderator
from ingest.spec import SupervisorSpec, parse_supervisor_spec
from ingest.spec.formats import parts_read
from ingest.stream.memory import MemoryStream, MemorySupplier
from ingest.stream.schemas import MemorySchemas, WriterSchema
from ingest.stream.supplier import Poll
from query.model import ResultFormat, SqlRequest
from query.sql.catalogue import MemoryCatalogue
from tests.acceptance.spec_cases import COUNTERS, Case, cases, registered
from tests.conformance.engine import answer
from tests.conformance.test_ingested_rows import bound, chunks_of
from tests.unit.ingest.appenderator.rows import record_of
from tests.unit.ingest.appenderator.test_appenderator import merged


def test_there_is_a_case_for_every_family() -> None:
    posted = json.dumps([case.content["spec"] for case in cases().values()])
    for word in (
        "json",
        "csv",
        "tsv",
        "regex",
        "lines",
        "kafka",
        "avro_stream",
        "avro_ocf",
        "protobuf",
        "schema_registry",
    ):
        assert f'"type": "{word}"' in posted, word
    assert len(cases()) >= 25
    assert all(set(case.counts) & {"unparseable", "tombstones"} for case in cases().values()), "each has bad records"


@pytest.mark.parametrize("name", list(cases()))
def test_a_case_is_answered_alike_while_live_and_published(name: str, tmp_path: Path) -> None:
    case = cases()[name]
    posted = case.posted("memory:9092", "http://registry:8081")
    spec = parse_supervisor_spec(posted)[0]
    schemas = MemorySchemas({at: WriterSchema(kind, (("own", text),)) for at, (kind, text) in registered().items()})
    rows = Appenderator(tmp_path / "work", 7, "work", lambda registry: schemas)
    rows.open_sequence(record_of(), spec)
    for poll in polls_of(case, spec):
        rows.append(1, [poll])
    assert {n: c for n, c in rows.counters().items() if n in COUNTERS.values() and c} == case.counts
    check(case, posted, [], chunks_of(rows, tmp_path))
    done = merged(rows)
    check(case, posted, [file.path for file in done.files], [])
    assert (0 if done.quarantine is None else done.quarantine.rows) == case.quarantined
    if case.segments is not None:
        assert sorted(str(file.segment.interval) for file in done.files) == case.segments


def polls_of(case: Case, spec: SupervisorSpec) -> list[Poll]:
    """The records in two polls, as they come from a stream."""
    stream = MemoryStream()
    stream.create_topic(spec.io.topic)
    records = case.records()
    for each in records:
        told: dict[str, Any] = {"timestamp_ms": each.at_ms, "key": each.key, "headers": each.headers}
        stream.append(spec.io.topic, 0, [each.value], **told)
    supplier = MemorySupplier(stream, spec.io.topic, columns={"timestamps", *parts_read(spec.data_schema)})
    supplier.assign({0: 0})
    first, rest = max(len(records) // 2, 1), len(records)
    return [poll for most in (first, rest) for poll in supplier.poll(most, 0)]


def check(case: Case, posted: dict[str, Any], files: list[Path], chunks: list[Any]) -> None:
    """Every statement is answered as the case says."""
    table, rows = bound(posted, files, chunks)
    catalogue = MemoryCatalogue([table])
    for sql, wanted in case.queries(published=bool(files)):
        request = SqlRequest(sql, result_format=ResultFormat.ARRAY)
        assert json.loads(answer(request, catalogue, lambda _: rows)) == wanted, sql
