"""`siltstone supervisor plan`: what a posted spec would do, told without doing it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingest.errors import StreamError
from ingest.overlord.planning import differences, json_path
from ingest.protocol.places import numbered
from ingest.stream.memory import MemorySupplier
from ingest.stream.supplier import RecordSupplier
from ingest.stream.topics import TopicsObserver
from server.cli import app
from tests.in_process import NOON_MS, click, eventually, spec
from tests.unit.server.test_api import SUPERVISOR, World
from tests.unit.server.test_quarantine import served

PLAN = "/siltstone/v1/plan"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    found = World(tmp_path)
    stream = found.system.stream

    def reader(posted: Any, parts: frozenset[str]) -> RecordSupplier:
        io, columns = posted["spec"]["ioConfig"], {"timestamps", *parts}
        if "topicPattern" not in io:
            return MemorySupplier(stream, io["topic"], columns=columns)

        def one(topic: str, _: str | None) -> RecordSupplier:
            return MemorySupplier(stream, topic, columns=columns)

        return TopicsObserver(io["topicPattern"], stream.topics, lambda found, _: numbered((), found), one)

    monkeypatch.setattr("server.sampling.kafka_samples", reader)
    yield found
    found.system.stop()


def running(world: World, count: int = 20) -> dict[str, Any]:
    """A supervisor that has read so many clicks and one broken record."""
    world.post(SUPERVISOR, spec())
    world.system.stream.append("clicks", 0, [*(click(n) for n in range(count)), b"{broken"])
    eventually(lambda: world.system.records_read() == count + 1)
    return spec()


def state(world: World) -> Any:
    store = world.system.store
    return store.supervisor("clicks"), store.history("clicks"), store.audit(None, 100)


def test_a_new_supervisor_is_told_where_it_would_begin_and_what_it_would_read(world: World) -> None:
    world.system.stream.append("clicks", 0, [click(n) for n in range(5)] + [b"{broken"])
    report = world.post(f"{PLAN}?records=8", spec())
    assert (report["action"], report["changes"], report["problems"]) == ("create", [], [])
    assert (report["committed"], report["from"]) == (None, {"0": 0, "1": 0})
    sample = report["sample"]
    assert (sample["records"], sample["planned"], sample["present"]) == (
        4,
        {"rows": 3, "good": 3, "unparseable": 1},
        None,
    )
    assert sample["ranges"] == {"0": [2, 6]}
    assert sample["rows"][0] == {"__time": "2026-05-28T20:00:00.000Z", "page": "p2", "n": 2}
    assert [(r["offset"], r["fate"], r["input"]) for r in sample["rejects"]] == [(5, "unparseable", "{broken")]
    assert world.system.store.supervisors() == []


def test_the_same_spec_changes_nothing(world: World) -> None:
    posted = running(world)
    report = world.post(PLAN, posted)
    assert (report["action"], report["changes"], report["how"], report["sample"]["loses"]) == ("none", [], None, 0)
    assert report["from"]["0"] in (0, 21) and report["committed"] == {"0": 0, "1": 0}, "as far as tasks have reported"


def test_each_field_is_told_with_what_it_concerns_and_nothing_is_changed(world: World) -> None:
    posted = running(world)
    before = state(world)
    posted["spec"]["dataSchema"]["dimensionsSpec"]["dimensions"].append("extra")
    posted["spec"]["ioConfig"]["taskCount"] = 2
    posted["spec"]["tuningConfig"]["maxRowsInMemory"] = 5
    del posted["spec"]["ioConfig"]["useEarliestOffset"]
    report = world.post(PLAN, posted)
    assert report["action"] == "change" and "checkpoint" in report["how"]
    told = {c["path"]: (c["kind"], c["concerns"], c["old"], c["new"]) for c in report["changes"]}
    assert told["$.spec.ioConfig.taskCount"] == ("added", "tasks", None, 2)
    assert told["$.spec.tuningConfig.maxRowsInMemory"] == ("added", "limits", None, 5)
    assert told["$.spec.ioConfig.useEarliestOffset"] == ("removed", "limits", True, None)
    assert told["$.spec.dataSchema.dimensionsSpec.dimensions"][:2] == ("changed", "rows")
    assert state(world) == before


def test_records_that_would_end_otherwise_are_counted_and_their_loss_is_the_exit_code(
    world: World, tmp_path: Path
) -> None:
    posted = running(world)
    worse = copy.deepcopy(posted)
    worse["spec"]["dataSchema"]["timestampSpec"]["column"] = "nowhere"
    report = world.post(PLAN, worse)
    assert report["sample"]["moves"] == [{"records": 20, "from": "good", "to": "unparseable"}]
    assert report["sample"]["loses"] == 20
    with served(world) as url:

        def run(document: Any, *words: str) -> tuple[int, str]:
            file = tmp_path / "spec.json"
            file.write_text(document if isinstance(document, str) else json.dumps(document))
            done = CliRunner().invoke(app, ["supervisor", "plan", str(file), "--url", url, *words])
            return done.exit_code, done.output

        code, said = run(worse)
        assert code == 3 and "20 records: good now, unparseable by the plan" in said
        assert "$.spec.dataSchema.timestampSpec.column" in said and "no time in field 'nowhere'" in said
        code, said = run(worse, "--json", "--records", "0")
        assert code == 0 and json.loads(said)["sample"] is None
        assert run(posted)[0] == 0
        del worse["spec"]["ioConfig"]["topic"]
        code, said = run(worse)
        assert code == 1 and "$.spec.ioConfig" in said
        assert run("{no json")[0] != 0


def test_what_a_submission_would_be_refused_for_is_told(world: World) -> None:
    running(world)
    report = world.post(PLAN, spec(topic="other"))
    assert report["action"] == "refused" and "still reads topic 'clicks'" in report["problems"][0]["text"]
    broken = spec()
    broken["spec"]["ioConfig"]["taskCount"] = "many"
    report = world.post(PLAN, broken)
    assert report["action"] == "refused"
    assert [problem["path"] for problem in report["problems"]] == ["$.spec.ioConfig.taskCount"]


def test_a_topic_that_cannot_be_read_is_told_and_the_rest_is_planned(world: World) -> None:
    report = world.post(PLAN, spec(topic="absent"))
    assert report["action"] == "create" and "absent" in report["streamError"] and "absent" in report["sample"]["error"]
    assert "absent" in report["unreached"] and "unreached" not in world.post(PLAN, spec())


@pytest.mark.parametrize("records", [0, 100])
def test_a_move_to_a_broker_that_does_not_answer_ends_with_1_and_the_reason(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, records: int
) -> None:
    moved = running(world)
    moved["spec"]["ioConfig"]["consumerProperties"]["bootstrap.servers"] = "dead:9092"

    def silent(posted: Any, parts: frozenset[str]) -> RecordSupplier:
        raise StreamError("no Kafka broker answers at dead:9092")

    monkeypatch.setattr("server.sampling.kafka_samples", silent)
    file = tmp_path / "moved.json"
    file.write_text(json.dumps(moved))
    words = ["supervisor", "plan", str(file), "--records", str(records)]
    with served(world) as url:
        told = CliRunner().invoke(app, [*words, "--url", url])
        report = CliRunner().invoke(app, [*words, "--url", url, "--json"])
    assert told.exit_code == report.exit_code == 1
    assert "error: the stream cannot be asked: no Kafka broker answers at dead:9092\n" in told.output
    assert "1 field would change" in told.output
    [line] = [each for each in report.output.splitlines() if each.startswith("{")]
    assert "no Kafka broker answers at dead:9092" in json.loads(line)["unreached"]


def test_no_secret_is_shown(world: World) -> None:
    posted = running(world)
    posted["spec"]["ioConfig"]["consumerProperties"]["sasl.password"] = "hush"
    report = world.post(PLAN, posted)
    assert "hush" not in json.dumps(report)
    [change] = report["changes"]
    assert (change["concerns"], change["new"]) == ("client", "******")


@pytest.mark.parametrize("text", ["-1", "5001", "x"])
def test_a_wrong_number_of_records_is_refused(world: World, text: str) -> None:
    assert "records" in world.post(f"{PLAN}?records={text}", spec(), 400)["error"]


def test_documents_are_compared_field_by_field() -> None:
    old = {"a": [1, {"b": 1}], "c": {"d": 1}, "e": 1, "f": True}
    new = {"a": [1, {"b": 2}], "c": {}, "e": "1", "f": True, "g": None}
    told = [(json_path(d.place), d.kind) for d in differences(old, new)]
    assert told == [("$.a[1].b", "changed"), ("$.c.d", "removed"), ("$.e", "changed"), ("$.g", "added")]
    assert NOON_MS and list(differences(old, old)) == []


def test_a_pattern_is_told_by_topic_and_partition_and_from_where_its_topics_were_read_before(world: World) -> None:
    running(world)
    world.post(f"{SUPERVISOR}/clicks/suspend")
    eventually(lambda: world.system.rows_published() == 20)
    eventually(lambda: not world.system.store.groups("clicks"))
    world.system.stream.create_topic("clicks-us", 1)
    posted = spec()
    del posted["spec"]["ioConfig"]["topic"]
    posted["spec"]["ioConfig"]["topicPattern"] = "clicks.*"
    report = world.post(f"{PLAN}?records=8", posted)
    assert report["from"] == {"clicks:0": 21, "clicks:1": 0, "clicks-us:0": 0}
    assert report["topic"] == "clicks.*" and report["problems"] == []


def test_a_bounded_range_begins_where_it_says(world: World) -> None:
    posted = spec()
    bounds = {"startSequenceNumbers": {"0": 3}, "endSequenceNumbers": {"0": 5}}
    posted["spec"]["ioConfig"]["boundedStreamConfig"] = bounds
    assert world.post(f"{PLAN}?records=0", posted)["from"] == {"0": 3}


def test_a_refused_spec_is_planned_with_its_warnings(world: World) -> None:
    report = world.post(PLAN, spec(maxRowsPerSegment=0, maxRowsPerSegmnet=5))
    assert report["action"] == "refused" and len(report["problems"]) == len(report["warnings"]) == 1
