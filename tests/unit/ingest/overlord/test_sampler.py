"""The sampler: Druid's recorded answers, records of a topic, and requests that cannot be sampled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from ingest.errors import SpecError
from ingest.overlord.sampler import sample
from ingest.stream.supplier import Poll
from tests.conformance.judging import same

CONFORMANCE = Path(__file__).parents[3] / "conformance"
NOON_MS = 1_700_000_000_000
DIFFERS = {
    "ingest-types-02", "ingest-multi-value-05", "ingest-flatten-03", "ingest-types-04",
}  # fmt: skip
"""Those of docs/reference/differences.md."""


def recorded() -> dict[str, dict[str, Any]]:
    with (CONFORMANCE / "cases.jsonl").open(encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    return {case["id"]: case for case in read if case["family"].startswith("ingest-")}


def no_topic(posted: dict[str, Any], rows: int, timeout_ms: int) -> list[Poll]:
    raise AssertionError("no topic is read")


def sampled(body: Any, read: Any = no_topic) -> dict[str, Any]:
    """The parts of an answer that belong to the rows and the spec."""
    answer = json.loads(json.dumps(sample(body, read, NOON_MS)))
    rows = [{key: row[key] for key in ("input", "parsed", "unparseable") if key in row} for row in answer["data"]]
    return {name: answer[name] for name in ("numRowsRead", "numRowsIndexed", "logicalSegmentSchema")} | {"data": rows}


@pytest.mark.parametrize("family", sorted({case["family"] for case in recorded().values()}))
def test_samples_of_a_family_are_as_recorded(family: str) -> None:
    cases = {name: case for name, case in recorded().items() if case["family"] == family and name not in DIFFERS}
    answers = {name: sampled(case["request"]["body"]) for name, case in cases.items()}
    wrong = {name: answers[name] for name, case in cases.items() if not same(case["expected"]["result"], answers[name])}
    assert not wrong


def test_every_difference_is_told_with_its_reason() -> None:
    page = (CONFORMANCE.parents[1] / "docs" / "reference" / "differences.md").read_text(encoding="utf-8")
    assert [name for name in DIFFERS if f"`{name}`" not in page] == []
    for name in DIFFERS:
        case = recorded()[name]
        assert not same(case["expected"]["result"], sampled(case["request"]["body"])), f"{name} differs no more"


def of_topic(**config: Any) -> dict[str, Any]:
    return {
        "type": "kafka",
        "spec": {
            "type": "kafka",
            "dataSchema": {
                "dataSource": "sample", "timestampSpec": {"column": "t", "format": "iso"},
                "dimensionsSpec": {"dimensions": ["v"]},
            },
            "ioConfig": {
                "type": "kafka", "topic": "clicks", "inputFormat": {"type": "json"},
                "consumerProperties": {"bootstrap.servers": "broker:9092"}, "useEarliestOffset": True,
            },
            "tuningConfig": {"type": "kafka"},
        },
        "samplerConfig": config,
    }  # fmt: skip


def inline(data: str, **io: Any) -> dict[str, Any]:
    body = of_topic()
    source = {"type": "inline", "data": data}
    body["spec"]["ioConfig"] = {"inputSource": source, "inputFormat": {"type": "csv", "columns": ["t"], **io}} | (
        {"inputFormat": io["inputFormat"]} if "inputFormat" in io else {}
    )
    return body | {"type": "index"}


def test_what_an_answer_cannot_carry_is_shown_as_text() -> None:
    values: list[bytes | None] = [
        b'{"t": "2024-01-01", "v": "\\ud800", "n": 1000000000000000000000000000000, "l": [{"\\udc00": 1}]}'
    ]
    answer = sample(of_topic(), lambda *_: [Poll(0, 0, 1, range(1), values, [])], NOON_MS)
    [row] = orjson.loads(orjson.dumps(answer))["data"]
    shown = {"t": "2024-01-01", "v": "\\ud800", "n": "1000000000000000000000000000000", "l": [{"\\udc00": 1}]}
    assert row["input"] == shown and "surrogate" in row["error"]


def test_a_list_without_members_rolls_up_with_null_and_is_shown_as_null() -> None:
    rows = [b'{"t": "2024-01-01", "v": %s}' % value for value in (b"[]", b"null", b"[null]", b'["x"]', b"[]", b'""')]
    values: list[bytes | None] = list(rows)
    body = of_topic()
    schema = body["spec"]["dataSchema"] | {"metricsSpec": [{"type": "count", "name": "n"}]}
    body["spec"]["dataSchema"] = schema | {"granularitySpec": {"rollup": True, "queryGranularity": "DAY"}}
    answer = sample(body, lambda *_: [Poll(0, 0, len(values), range(len(values)), values, [])], NOON_MS)
    assert [(row["parsed"]["v"], row["parsed"]["n"]) for row in answer["data"]] == [(None, 4), ("x", 1), ("", 1)]


def test_records_of_a_topic_are_read_within_what_is_asked_for() -> None:
    asked: list[Any] = []

    def read(posted: dict[str, Any], rows: int, timeout_ms: int) -> list[Poll]:
        asked.append((posted["spec"]["ioConfig"]["topic"], rows, timeout_ms))
        values = [b'{"t": "2024-01-01", "v": "a"}', b"not json", None]
        return [Poll(3, 10, 13, range(10, 13), values, [])]

    answer = sample(of_topic(numRows=7, timeoutMs=100), read, NOON_MS)
    assert asked == [("clicks", 7, 100)]
    assert answer["numRowsRead"] == 2 and answer["numRowsIndexed"] == 1
    good, bad = answer["data"]
    assert good["parsed"] == {"__time": 1_704_067_200_000, "v": "a"}
    assert bad["unparseable"] is True and bad["error"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "$.spec"),
        ({"type": "index", "spec": {"ioConfig": {"inputSource": {"type": "s3"}}}}, "inputSource"),
        (of_topic(numRows=0), "numRows"),
        ({"spec": {"ioConfig": "x"}}, "$.spec.ioConfig"),
        ({"spec": {"ioConfig": [1]}}, "$.spec.ioConfig"),
        (inline("x", inputFormat="json"), "inputFormat"),
        (inline("h" * 140_000 + "\n" + "r\n" * 600, skipHeaderRows=1), "skipHeaderRows"),
        ({"type": "kafka", "spec": {"dataSchema": {}, "ioConfig": {}}}, "dataSource"),
    ],
)
def test_what_cannot_be_sampled_is_refused_by_its_path(body: Any, told: str) -> None:
    with pytest.raises(SpecError, match=told.replace("$", "[$]")):
        sampled(body)
