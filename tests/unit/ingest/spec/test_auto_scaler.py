"""autoScalerConfig: Druid's fields and defaults, what is refused, and how many tasks a supervisor begins with."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.spec import AutoScaling, LagAggregate, parse_supervisor_spec
from tests.unit.ingest.spec.test_supervisor_spec import accepted, problems, spec_with

ON = {"enableTaskAutoScaler": True, "taskCountMin": 2, "taskCountMax": 10}


def scaler(**fields: Any) -> dict[str, Any]:
    return spec_with("ioConfig/autoScalerConfig", ON | fields)


def test_the_defaults_are_druids() -> None:
    spec = accepted(scaler())
    assert spec.io.auto_scaling == AutoScaling(
        task_count_min=2,
        task_count_max=10,
        collection_interval_ms=30_000,
        collection_range_ms=600_000,
        start_delay_ms=300_000,
        period_ms=60_000,
        scale_out_threshold=6_000_000,
        scale_out_fraction=0.3,
        scale_in_threshold=1_000_000,
        scale_in_fraction=0.9,
        scale_out_step=2,
        scale_in_step=1,
        scale_out_delay_ms=600_000,
        scale_in_delay_ms=600_000,
        aggregate=LagAggregate.SUM,
    )


def test_every_field_is_read() -> None:
    stated = {
        "autoScalerStrategy": "lagBased",
        "minTriggerScaleActionFrequencyMillis": 70_000,
        "minScaleUpDelay": "PT1M",
        "lagCollectionIntervalMillis": "1000",
        "lagCollectionRangeMillis": 5_000,
        "scaleActionStartDelayMillis": 0,
        "scaleActionPeriodMillis": 2_000,
        "scaleOutThreshold": 100,
        "triggerScaleOutFractionThreshold": 0.5,
        "scaleInThreshold": 10,
        "triggerScaleInFractionThreshold": 1,
        "scaleOutStep": 4,
        "scaleInStep": 3,
        "lagAggregate": "max",
    }
    found = accepted(scaler(**stated)).io.auto_scaling
    assert found == AutoScaling(
        2, 10, 1_000, 5_000, 0, 2_000, 100, 0.5, 10, 1.0, 4, 3, 60_000, 70_000, LagAggregate.MAX
    )


@pytest.mark.parametrize(
    ("more", "count"),
    [({}, 2), ({"taskCountStart": 5}, 5), ({"taskCountMin": 3}, 3)],
)
def test_a_supervisor_begins_with_task_count_start_or_the_least(more: dict[str, Any], count: int) -> None:
    assert accepted(scaler(**more)).io.task_count == count


def test_a_stated_task_count_is_the_beginning_unless_task_count_start_is_stated_too() -> None:
    posted = scaler()
    posted["spec"]["ioConfig"]["taskCount"] = 7
    assert accepted(posted).io.task_count == 7
    posted["spec"]["ioConfig"]["taskCount"] = 20
    assert accepted(posted).io.task_count == 10, "between the bounds"
    posted["spec"]["ioConfig"]["autoScalerConfig"]["taskCountStart"] = 4
    assert accepted(posted).io.task_count == 4


def test_a_scaler_that_is_switched_off_is_not_judged() -> None:
    off = {"enableTaskAutoScaler": False, "autoScalerStrategy": "costBased", "taskCountMax": 0}
    spec = accepted(spec_with("ioConfig/autoScalerConfig", off))
    assert spec.io.auto_scaling is None and spec.io.task_count == 1


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"autoScalerStrategy": "costBased"}, "autoScalerStrategy"),
        ({"autoScalerStrategy": "guess"}, "autoScalerStrategy"),
        ({"taskCountMin": None}, "taskCountMin"),
        ({"taskCountMax": 1}, "taskCountMax"),
        ({"taskCountStart": 11}, "taskCountStart"),
        ({"lagCollectionIntervalMillis": 0}, "lagCollectionIntervalMillis"),
        ({"lagCollectionIntervalMillis": 1, "lagCollectionRangeMillis": 10**9}, "lagCollectionRangeMillis"),
        ({"scaleOutStep": 0}, "scaleOutStep"),
        ({"triggerScaleInFractionThreshold": 1.5}, "triggerScaleInFractionThreshold"),
        ({"lagAggregate": "MEDIAN"}, "lagAggregate"),
        ({"stopTaskCountRatio": 0}, "stopTaskCountRatio"),
        ({"minScaleUpDelay": "soon"}, "minScaleUpDelay"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], path: str) -> None:
    [problem] = problems(scaler(**fields))
    assert problem.path == f"$.spec.ioConfig.autoScalerConfig.{path}"


def test_the_refusal_of_scaling_by_cost_says_why_and_what_to_use() -> None:
    [problem] = problems(scaler(autoScalerStrategy="costBased"))
    assert "by cost" in problem.rule and "lagBased" in problem.cure


def test_fields_without_effect_are_named() -> None:
    _, warnings = parse_supervisor_spec(scaler(stopTaskCountRatio=0.5, lagWeight=1))
    assert len(warnings) == 2 and "stopTaskCountRatio" in " ".join(warnings) and "lagWeight" in " ".join(warnings)
