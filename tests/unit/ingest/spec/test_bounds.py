"""boundedStreamConfig: both of Druid's forms, and every fault by its path."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.spec import parse_supervisor_spec
from ingest.spec.model import Bounds
from tests.unit.ingest.spec.test_supervisor_spec import problems, spec_with

WHERE = "$.spec.ioConfig.boundedStreamConfig"


def posted(starts: Any, ends: Any) -> dict[str, Any]:
    config = {"startSequenceNumbers": starts, "endSequenceNumbers": ends}
    return spec_with("ioConfig/boundedStreamConfig", config)


def test_offsets_are_read_as_plain_maps_and_as_druids_typed_objects() -> None:
    plain = parse_supervisor_spec(posted({"0": 5, "1": "7"}, {"0": 9, "1": 7}))[0].io.bounds
    assert plain == Bounds({0: 5, 1: 7}, {0: 9, 1: 7}) and plain.ends == {0: 9, 1: 7}
    typed = posted(
        {"type": "start", "stream": "t", "partitionSequenceNumberMap": {"0": 5}, "exclusivePartitions": []},
        {"type": "end", "stream": "t", "partitionOffsetMap": {"0": 9}},
    )
    found = parse_supervisor_spec(typed)[0].io.bounds
    assert found is not None and (found.starts, found.ends) == ({0: 5}, {0: 9})


@pytest.mark.parametrize(
    ("starts", "ends", "where"),
    [
        (None, {"0": 1}, ".startSequenceNumbers"),
        ({}, {"0": 1}, ".startSequenceNumbers"),
        ({"0": 1}, 5, ".endSequenceNumbers"),
        ({"0": -1}, {"0": 1}, ".startSequenceNumbers['0']"),
        ({"0": True}, {"0": 1}, ".startSequenceNumbers['0']"),
        ({"x": 1}, {"x": 2}, ".startSequenceNumbers['x']"),
        ({"0": 1}, {"0": 2**63}, ".endSequenceNumbers['0']"),
        ({"0": 1, "1": 1}, {"0": 2}, ".endSequenceNumbers"),
        ({"0": 5}, {"0": 4}, ".endSequenceNumbers[0]"),
    ],
)
def test_a_fault_is_told_by_its_path(starts: Any, ends: Any, where: str) -> None:
    assert f"{WHERE}{where}" in [problem.path for problem in problems(posted(starts, ends))]


def test_a_range_has_one_topic_and_a_fixed_number_of_tasks() -> None:
    several = posted({"0": 1}, {"0": 2})
    io = several["spec"]["ioConfig"]
    del io["topic"]
    io["topicPattern"] = ".*"
    assert [problem.path for problem in problems(several)] == [WHERE]
    scaled = posted({"0": 1}, {"0": 2})
    scaled["spec"]["ioConfig"]["autoScalerConfig"] = {
        "enableTaskAutoScaler": True, "taskCountMin": 1, "taskCountMax": 2
    }  # fmt: skip
    assert [problem.path for problem in problems(scaled)] == [WHERE]
