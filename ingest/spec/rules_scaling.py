"""The rules of a spec's autoScalerConfig: Druid's lag based scaler; every other is refused by name."""

from __future__ import annotations

from typing import Final

from ingest.spec.edge import AutoScalerEdge, IOConfigEdge
from ingest.spec.model import AutoScaling, LagAggregate
from ingest.spec.notes import Notes

TASKS_MAX: Final = 100_000
_SAMPLES_MAX: Final = 100_000
_LEAST: Final = (
    ("lagCollectionIntervalMillis", "lag_collection_interval_millis", 1),
    ("lagCollectionRangeMillis", "lag_collection_range_millis", 1),
    ("scaleActionStartDelayMillis", "scale_action_start_delay_millis", 0),
    ("scaleActionPeriodMillis", "scale_action_period_millis", 1),
    ("scaleOutThreshold", "scale_out_threshold", 0),
    ("scaleInThreshold", "scale_in_threshold", 0),
    ("scaleOutStep", "scale_out_step", 1),
    ("scaleInStep", "scale_in_step", 1),
    ("minTriggerScaleActionFrequencyMillis", "min_trigger_scale_action_frequency_millis", 0),
)


def read_scaling(block: IOConfigEdge, path: str, notes: Notes) -> AutoScaling | None:
    """The scaler, None where there is none or it is switched off; faults are noted only if it is on."""
    edge, path = block.auto_scaler_config, f"{path}.autoScalerConfig"
    if edge is None or not edge.enable_task_auto_scaler:
        return None
    if edge.auto_scaler_strategy != "lagBased":
        what = "scaling by cost (it weighs how long tasks wait in polls, which says little of tasks that keep reading)"
        if edge.auto_scaler_strategy != "costBased":
            what = "this strategy"
        notes.refused(f"{path}.autoScalerStrategy", edge.auto_scaler_strategy, what, 'use "lagBased"')
    before = len(notes.problems)
    _bounds(edge, path, notes)
    _numbers(edge, path, notes)
    if len(notes.problems) > before or edge.task_count_min is None or edge.task_count_max is None:
        return None
    if edge.stop_task_count_ratio is not None:
        notes.warn(f"{path}.stopTaskCountRatio has no effect: tasks do not end with their taskDuration")
    delay_ms = edge.min_trigger_scale_action_frequency_millis
    return AutoScaling(
        task_count_min=edge.task_count_min,
        task_count_max=edge.task_count_max,
        collection_interval_ms=edge.lag_collection_interval_millis,
        collection_range_ms=edge.lag_collection_range_millis,
        start_delay_ms=edge.scale_action_start_delay_millis,
        period_ms=edge.scale_action_period_millis,
        scale_out_threshold=edge.scale_out_threshold,
        scale_out_fraction=edge.trigger_scale_out_fraction_threshold,
        scale_in_threshold=edge.scale_in_threshold,
        scale_in_fraction=edge.trigger_scale_in_fraction_threshold,
        scale_out_step=edge.scale_out_step,
        scale_in_step=edge.scale_in_step,
        scale_out_delay_ms=delay_ms if edge.min_scale_up_delay is None else edge.min_scale_up_delay,
        scale_in_delay_ms=delay_ms if edge.min_scale_down_delay is None else edge.min_scale_down_delay,
        aggregate=LagAggregate(edge.lag_aggregate.upper()),
    )


def first_task_count(block: IOConfigEdge, scaling: AutoScaling | None) -> int:
    """How many tasks a supervisor begins with: taskCountStart, else a stated taskCount, else taskCountMin."""
    edge = block.auto_scaler_config
    if scaling is None or edge is None:
        return block.task_count
    stated = block.task_count if "task_count" in block.model_fields_set else scaling.task_count_min
    wanted = stated if edge.task_count_start is None else edge.task_count_start
    return min(max(wanted, scaling.task_count_min), scaling.task_count_max)


def _bounds(edge: AutoScalerEdge, path: str, notes: Notes) -> None:
    least, most = edge.task_count_min, edge.task_count_max
    for name, value in (("taskCountMin", least), ("taskCountMax", most)):
        if value is None:
            notes.problem(f"{path}.{name}", None, "is required", "state between how many tasks to scale")
        elif not 1 <= value <= TASKS_MAX:
            notes.problem(f"{path}.{name}", value, f"must be from 1 to {TASKS_MAX}", "correct the value")
    if least is None or most is None:
        return
    if least > most:
        notes.problem(f"{path}.taskCountMax", most, f"must not be less than taskCountMin, {least}", "correct one")
    start = edge.task_count_start
    if start is not None and not least <= start <= most:
        notes.problem(f"{path}.taskCountStart", start, f"must be from {least} to {most}", "correct the value")


def _numbers(edge: AutoScalerEdge, path: str, notes: Notes) -> None:
    for name, attribute, least in _LEAST:
        value = getattr(edge, attribute)
        if value < least:
            notes.problem(f"{path}.{name}", value, f"must be {least} or more", "correct the value")
    shares = (
        ("triggerScaleOutFractionThreshold", edge.trigger_scale_out_fraction_threshold),
        ("triggerScaleInFractionThreshold", edge.trigger_scale_in_fraction_threshold),
    )
    for name, share in shares:
        if not 0 <= share <= 1:
            notes.problem(f"{path}.{name}", share, "must be from 0 to 1, a share of the samples", "correct the value")
    ratio = edge.stop_task_count_ratio
    if ratio is not None and not 0 < ratio <= 1:
        notes.problem(f"{path}.stopTaskCountRatio", ratio, "must be above 0 and at most 1", "correct the value")
    if edge.lag_aggregate.upper() not in LagAggregate.__members__:
        notes.problem(f"{path}.lagAggregate", edge.lag_aggregate, "is not known", "use SUM, MAX or AVERAGE")
    range_ms, interval_ms = edge.lag_collection_range_millis, edge.lag_collection_interval_millis
    if interval_ms > 0 and range_ms // interval_ms > _SAMPLES_MAX:
        rule = f"holds more than {_SAMPLES_MAX} intervals of {interval_ms} ms"
        notes.problem(f"{path}.lagCollectionRangeMillis", range_ms, rule, "take samples less often")
