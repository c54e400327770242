"""A quarantine is replayed after its spec was mended: each record once, whatever fails, and what is bad again waits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.appenderator.quarantine import QUARANTINE_SCHEMA
from ingest.appenderator.replaying import NotReplayable
from ingest.errors import IngestError, StoreUnreachable
from ingest.metadata.memory_state import StoreHooks
from ingest.overlord.duties import Sweeper
from ingest.overlord.replays import ReplayRefused
from ingest.stream.schemas import MemorySchemas, SchemaRegistryUnreachable, WriterSchema
from segments.errors import ServiceError
from segments.storage.memory import MemoryDeepStorage
from server.audit.table import audit_table
from tests.in_process import NOON_MS, System, eventually, spec
from tests.unit.ingest.appenderator.binary_messages import avro, framed, record_schema
from tests.unit.quarantine_table import Table, broken_spec, told


def test_each_record_is_ingested_once_and_what_is_bad_again_waits_with_its_new_reason(
    made: Callable[..., Table], tmp_path: Path
) -> None:
    table = made(broken_spec(), [*(told(n, "at" if n % 2 else "when") for n in range(10)), b"{broken", told(3)])
    assert sorted(row["n"] for row in table.rows(tmp_path)) == [0, 2, 4, 6, 8]
    assert {record["reason"] for record in table.waiting(tmp_path)} >= {"no time in field 'when'"}
    table.mend(spec())
    [report] = table.replay()
    assert (report["records"], report["rows"], report["quarantined"]) == (7, 6, 1)
    assert (report["counts"]["good"], report["counts"]["unparseable"]) == (6, 1)
    added = {row.added for row in table.store.segments("clicks", None, 10, False) if row.segment.spec_version > 1}
    assert added == {report["version"]}, "all rows at one version"
    assert sorted(row["n"] for row in table.rows(tmp_path)) == [0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9]
    [left] = table.waiting(tmp_path)
    assert (left["offset"], left["value"]) == (10, b"{broken")
    chain_rows = [row for row in table.system.ledger() if row.replayed_path is None]
    assert sum(row.rows_in for row in chain_rows) == 5
    table.assert_proved()
    again = table.replay()
    assert [(each["rows"], each["quarantined"]) for each in again] == [(0, 1)], "a range without rows is published too"
    assert len(table.rows(tmp_path)) == 11 and [r["offset"] for r in table.waiting(tmp_path)] == [10]
    table.assert_proved()


def test_asking_again_tells_that_it_is_done(made: Callable[..., Table], tmp_path: Path) -> None:
    table = made(broken_spec(), [told(1)])
    table.mend(spec())
    [file] = table.files()
    first = table.replays().replay(table.generation, "clicks", file.path)
    again = table.replays().replay(table.generation, "clicks", file.path)
    assert (again["already"], again["records"], again["replayedBy"]) == (True, 1, first["replayedBy"])
    assert len(table.rows(tmp_path)) == 1
    with pytest.raises(ReplayRefused, match="has no quarantine file 'nothing'"):
        table.replays().replay(table.generation, "clicks", "nothing")


def test_of_a_message_only_the_documents_that_are_no_rows_yet_are_read(
    made: Callable[..., Table], tmp_path: Path
) -> None:
    mixed = told(1, "when") + told(2) + told(3, "when") + told(4) + b" 5"
    table = made(broken_spec(), [mixed])
    assert sorted(row["n"] for row in table.rows(tmp_path)) == [1, 3]
    table.mend(spec())
    [report] = table.replay()
    assert (report["rows"], report["quarantined"], report["counts"]["partly_good"]) == (2, 1, 1)
    assert sorted(row["n"] for row in table.rows(tmp_path)) == [1, 2, 3, 4]
    table.assert_proved()
    lines = spec()
    lines["spec"]["ioConfig"]["inputFormat"] = {"type": "lines"}
    lines["spec"]["dataSchema"]["timestampSpec"] = {"column": "x", "missingValue": "2026-01-01T00:00:00Z"}
    table.mend(lines)
    [report] = table.replay()
    assert (report["rows"], report["quarantined"]) == (0, 1)
    [left] = table.waiting(tmp_path)
    assert "which are rows cannot be told" in left["reason"] and left["value"] == mixed
    table.mend(spec())
    [report] = table.replay()
    assert (report["rows"], report["quarantined"]) == (0, 1), "the four rows are not read again"
    table.assert_proved()


def test_keys_headers_and_tombstones_are_replayed_as_they_came(made: Callable[..., Table], tmp_path: Path) -> None:
    def whole(key: dict[str, Any]) -> dict[str, Any]:
        posted = spec()
        data = posted["spec"]["dataSchema"]
        data["dimensionsSpec"] = {"dimensions": ["kafka.key", "kafka.header.env", "kafka.topic"]}
        data["timestampSpec"] = {"column": "kafka.timestamp", "format": "millis"}
        posted["spec"]["ioConfig"]["inputFormat"] = {
            "type": "kafka",
            "valueFormat": {"type": "json"},
            "keyFormat": key,
            "headerFormat": {"type": "string"},
        }
        return posted

    beside = {"key": b"plain key", "headers": [("env", b"prod")], "timestamp_ms": NOON_MS}
    table = made(whole({"type": "json"}), [None, b"{}"], **beside)
    assert len(table.waiting(tmp_path)) == 2
    table.mend(whole({"type": "lines"}))
    table.replay()
    found = [(row["kafka.key"], row["kafka.header.env"], row["kafka.topic"]) for row in table.rows(tmp_path)]
    assert found == [("plain key", "prod", "clicks")] * 2
    table.assert_proved()


def test_what_was_kept_without_keys_is_not_read_by_a_spec_that_wants_them(made: Callable[..., Table]) -> None:
    table = made(broken_spec(), [told(1)])
    wants = spec()
    wants["spec"]["ioConfig"]["inputFormat"] = {
        "type": "kafka", "valueFormat": {"type": "json"}, "keyFormat": {"type": "lines"},
    }  # fmt: skip
    table.mend(wants)
    with pytest.raises(NotReplayable, match="kept without keys"):
        table.replay()
    assert len(table.files()) == 1
    table.mend(spec())
    assert table.replay()[0]["rows"] == 1


def test_a_file_of_an_earlier_version_is_not_guessed_at(made: Callable[..., Table], tmp_path: Path) -> None:
    table = made(broken_spec(), [told(1)])
    [file] = table.files()
    local = tmp_path / "old.parquet"
    table.system.storage.pull(file.load_spec, local)
    old = pq.read_table(local).select(QUARANTINE_SCHEMA.names[:6])
    pq.write_table(old, local)
    storage = MemoryDeepStorage()
    storage.push(local, file.path)
    with pytest.raises(NotReplayable, match="earlier version"):
        table.replays(storage=storage).replay(table.generation, "clicks", file.path)
    assert len(table.files()) == 1


def test_windows_judge_a_replayed_record_as_they_would_have_then(made: Callable[..., Table], tmp_path: Path) -> None:
    posted = broken_spec()
    posted["spec"]["ioConfig"]["lateMessageRejectionPeriod"] = "PT1H"
    now_ms = NOON_MS
    late = json.dumps({"at": now_ms - 50 * 86_400_000, "n": 1}).encode()
    table = made(posted, [late, json.dumps({"at": 4_000_000_000_000, "n": 2}).encode()])
    mended = spec()
    mended["spec"]["ioConfig"]["lateMessageRejectionPeriod"] = "PT1H"
    table.mend(mended)
    opened = table.store.sequences("clicks", table.files()[0].ref.group, 0)[0].opened_at_ms
    [report] = table.replay()
    [replay] = table.store.state.replays.values()
    assert replay.opened_at_ms == opened
    assert (report["counts"]["late"], report["counts"]["good"]) == (1, 1)
    table.assert_proved()


def test_a_registry_that_is_away_changes_nothing(
    made: Callable[..., Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.overlord.replays.PATIENCE_MS", 0)
    schema = record_schema(("at", "long"), ("page", "string"), ("n", "long"))
    row = framed(7, avro(schema, {"at": NOON_MS, "page": "p", "n": 1}))
    table = made(spec(), [row])
    posted = spec()
    decoder = {"type": "schema_registry", "url": "http://registry:8081"}
    posted["spec"]["ioConfig"]["inputFormat"] = {"type": "avro_stream", "avroBytesDecoder": decoder}
    table.mend(posted)
    schemas = MemorySchemas({7: WriterSchema("AVRO", (("own", json.dumps(schema)),))})
    schemas.trouble = SchemaRegistryUnreachable(("http://registry:8081",), "refused")
    [file] = table.files()
    replays = table.replays(schemas=lambda registry: schemas)
    with pytest.raises(SchemaRegistryUnreachable):
        replays.replay(table.generation, "clicks", file.path)
    assert table.files() == [file] and list(table.scratch.iterdir()) == []
    schemas.trouble = None
    assert replays.replay(table.generation, "clicks", file.path)["rows"] == 1
    assert len(table.rows(tmp_path)) == 1


class Failing:
    """The ``at``-th write of the store is refused, or made and its answer lost; or an upload fails."""

    def __init__(self, table: Table, at: int, lost: bool) -> None:
        self._calls = itertools.count()
        self._at = at
        self._lost = lost
        self._table = table

    def __enter__(self) -> Failing:
        hook = "after_commit" if self._lost else "before_commit"
        self._table.store.hooks = StoreHooks(**{hook: self._fail})
        return self

    def __exit__(self, *ended_by: Any) -> None:
        self._table.store.hooks = StoreHooks()

    def _fail(self, method: str) -> None:
        if "replay" in method and next(self._calls) == self._at:
            raise StoreUnreachable("cut off", effect_known_absent=not self._lost)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("at", range(4))
def test_whatever_fails_each_record_is_ingested_once(
    made: Callable[..., Table], tmp_path: Path, at: int, lost: bool
) -> None:
    table = made(broken_spec(), [*(told(n) for n in range(5)), b"{broken"])
    table.mend(spec())
    [file] = table.files()
    with Failing(table, at, lost):
        try:
            table.replays().replay(table.generation, "clicks", file.path)
        except ServiceError:
            assert table.rows(tmp_path) == [] and len(table.waiting(tmp_path)) == 6
    report = table.replays().replay(table.generation, "clicks", file.path)
    assert report["records"] == 6
    assert sorted(row["n"] for row in table.rows(tmp_path)) == [0, 1, 2, 3, 4]
    assert [record["value"] for record in table.waiting(tmp_path)] == [b"{broken"]
    table.assert_proved()


class FullStorage(MemoryDeepStorage):
    """Takes what was there and refuses whatever is new."""

    def __init__(self, other: MemoryDeepStorage) -> None:
        super().__init__()
        self._other = other

    def push(self, local: Path, key: str) -> Any:
        raise IngestError("the disk is full")

    def pull(self, load_spec: Any, to: Path) -> Any:
        return self._other.pull(load_spec, to)


def test_what_a_failed_replay_left_is_swept(made: Callable[..., Table], tmp_path: Path) -> None:
    table = made(broken_spec(), [told(1)])
    table.mend(spec())
    [file] = table.files()
    with pytest.raises(ServiceError, match="disk is full"):
        full = FullStorage(table.system.storage)
        table.replays(storage=full).replay(table.generation, "clicks", file.path)
    assert table.files() == [file] and list(table.scratch.iterdir()) == []
    assert [row.state for row in table.store.staged_of_ended(10)] == ["superseded"]
    assert Sweeper(table.store, table.system.storage, table.generation, table.system.clock).sweep() == 1
    assert table.replay()[0]["rows"] == 1
    table.assert_proved()


def test_rows_are_ingested_beside_a_running_task(made: Callable[..., Table], tmp_path: Path) -> None:
    table = made(broken_spec(), [told(n) for n in range(5)])
    table.system.overlord.submit(spec())
    table.system.stream.append("clicks", 0, [told(n) for n in range(5, 9)])
    eventually(lambda: table.system.records_read() == 9)
    assert table.replay()[0]["rows"] == 5
    table.suspend()
    assert sorted(row["n"] for row in table.rows(tmp_path)) == list(range(9))
    table.assert_proved()


def test_the_chain_of_ranges_is_whole_beside_replays(made: Callable[..., Table]) -> None:
    table = made(broken_spec(maxRowsPerSegment=50), [told(n, "when" if n % 3 else "at") for n in range(100)])
    table.mend(spec())
    assert len(table.replay()) == 2
    report = audit_table(table.store, table.system.storage, "clicks", None)
    assert report.faults == [] and report.checked["replays"] == 2
    assert dict(table.system.committed()) == {0: 100}, "no offset moved"


def test_records_of_several_topics_are_replayed_with_their_own_topic_and_partition(tmp_path: Path) -> None:
    def whole(column: str) -> dict[str, Any]:
        posted = spec()
        posted["spec"]["ioConfig"].pop("topic")
        posted["spec"]["ioConfig"] |= {
            "topicPattern": "clicks-.*",
            "inputFormat": {"type": "kafka", "valueFormat": {"type": "json"}},
        }
        posted["spec"]["dataSchema"]["dimensionsSpec"]["dimensions"].append("kafka.topic")
        posted["spec"]["dataSchema"]["timestampSpec"]["column"] = column
        return posted

    table = Table.__new__(Table)
    table.system, table.scratch = System(tmp_path / "tasks"), tmp_path / "scratch"
    table.scratch.mkdir()
    for topic in ("clicks-a", "clicks-b"):
        table.system.stream.create_topic(topic, 1)
        table.system.stream.append(topic, 0, [told(1), told(2), b"{broken"])
    table.system.start()
    table.system.overlord.submit(whole("when"))
    eventually(lambda: table.system.records_read() == 6)
    table.suspend()
    table.mend(whole("at"))
    [report] = table.replay()
    assert (report["rows"], report["quarantined"]) == (4, 2)
    found = sorted((row["kafka.topic"], row["n"]) for row in table.rows(tmp_path))
    assert found == [("clicks-a", 1), ("clicks-a", 2), ("clicks-b", 1), ("clicks-b", 2)]
    assert sorted((r["topic"], r["partition"], r["offset"]) for r in table.waiting(tmp_path)) == [
        ("clicks-a", 0, 2),
        ("clicks-b", 0, 2),
    ]
    table.assert_proved()
    table.system.stop()
