"""The rules of a spec's ioConfig and tuningConfig."""

from __future__ import annotations

import re
from typing import Final

from ingest.spec.edge import IdleEdge, IOConfigEdge, TuningEdge
from ingest.spec.model import SAVED_UNSTATED, UNLIMITED, IdleConfig, IOConfig, Rejection, TuningConfig
from ingest.spec.notes import Notes
from ingest.spec.rules_bounds import read_bounds
from ingest.spec.rules_index import read_index_spec
from ingest.spec.rules_scaling import TASKS_MAX, first_task_count, read_scaling
from ingest.spec.rules_text import BEYOND_LINEAR
from segments.civil import parse_iso_ms
from segments.errors import InvalidInterval

# Druid's P2147483647D, its default, and everything beyond a century: never.
_NEVER_MS: Final = 100 * 365 * 86_400_000
_LIMIT_MAX: Final = 2**63 - 1
_REPLICAS_MAX: Final = 100
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""What Kafka lets a topic be called."""


def read_io(block: IOConfigEdge, path: str, present: bool, notes: Notes) -> IOConfig | None:
    """The ioConfig, or None with its faults noted. ``present``: the spec has one at all."""
    if not present:
        return None
    before = len(notes.problems)
    _topic(block, path, notes)
    _consumer_properties(block, path, notes)
    bounds = read_bounds(block, path, notes)
    if block.config_overrides is not None:
        notes.refused(f"{path}.configOverrides", "{...}", "overriding properties", "put them into consumerProperties")
    _counts(block, path, notes)
    least = (
        ("pollTimeout", block.poll_timeout, 0),
        ("taskDuration", block.task_duration, 1),
        ("period", block.period, 1),
        ("completionTimeout", block.completion_timeout, 1),
        ("idleConfig.inactiveAfterMillis", (block.idle_config or IdleEdge()).inactive_after_millis, 1),
    )
    for name, value, minimum in least:
        if value < minimum:
            notes.problem(f"{path}.{name}", value, f"must be {minimum} or more", "correct the value")
    rejection = _rejection(block, path, notes)
    scaling = read_scaling(block, path, notes)
    if len(notes.problems) > before:
        return None
    idle = block.idle_config or IdleEdge()
    return IOConfig(
        topic=block.topic or f"/{block.topic_pattern}/",
        consumer_properties=dict(block.consumer_properties or {}),
        task_count=first_task_count(block, scaling),
        replicas=block.replicas,
        task_duration_ms=block.task_duration,
        start_delay_ms=block.start_delay,
        period_ms=block.period,
        completion_timeout_ms=block.completion_timeout,
        poll_timeout_ms=block.poll_timeout,
        use_earliest_offset=block.use_earliest_offset,
        stop_task_count=block.stop_task_count,
        rejection=rejection,
        idle=IdleConfig(idle.enabled, idle.inactive_after_millis),
        auto_scaling=scaling,
        time_lag=block.emit_time_lag_metrics,
        bounds=bounds,
    )


def _topic(block: IOConfigEdge, path: str, notes: Notes) -> None:
    if block.topic_pattern is not None:
        _topic_pattern(block, path, notes)
    elif not block.topic or not block.topic.strip():
        notes.problem(f"{path}.topic", block.topic, "is required", "name the Kafka topic")
    elif not _TOPIC.fullmatch(block.topic) or block.topic in (".", ".."):
        rule = "is no name of a Kafka topic: up to 249 letters, digits, dots, underscores and hyphens of ASCII"
        notes.problem(f"{path}.topic", block.topic, rule, "correct the name")


def _topic_pattern(block: IOConfigEdge, path: str, notes: Notes) -> None:
    where, pattern = f"{path}.topicPattern", block.topic_pattern
    if block.topic is not None:
        notes.problem(where, pattern, "excludes topic, which is set too", "keep one of them")
    if not pattern:
        notes.problem(where, pattern, "must not be empty", "write a regular expression of whole names of topics")
        return
    if BEYOND_LINEAR.search(pattern):
        rule = "look-around, back references and possessive parts are not supported: a name could take for ever"
        notes.problem(where, pattern, rule, "do without them")
        return
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        notes.problem(where, pattern, f"is no regular expression that is known here: {error}", "correct it")


def _counts(block: IOConfigEdge, path: str, notes: Notes) -> None:
    if block.stop_task_count is not None and block.stop_task_count < 1:
        notes.problem(f"{path}.stopTaskCount", block.stop_task_count, "must be 1 or more", "leave it out")
    for name, value, most in (("taskCount", block.task_count, TASKS_MAX), ("replicas", block.replicas, _REPLICAS_MAX)):
        if not 1 <= value <= most:
            notes.problem(f"{path}.{name}", value, f"must be from 1 to {most}", "correct the value")


def _consumer_properties(block: IOConfigEdge, path: str, notes: Notes) -> None:
    properties = block.consumer_properties
    if properties is None:
        cure = 'set {"bootstrap.servers": "host:9092"}'
        notes.problem(f"{path}.consumerProperties", None, "is required", cure)
    elif not properties.get("bootstrap.servers") and "druid.dynamic.config.provider" not in properties:
        where = f"{path}.consumerProperties['bootstrap.servers']"
        notes.problem(where, properties.get("bootstrap.servers"), "is required", "list the brokers as host:port")


def _rejection(block: IOConfigEdge, path: str, notes: Notes) -> Rejection:
    start_ms = None
    text = block.late_message_rejection_start_date_time
    if text is not None:
        try:
            start_ms = parse_iso_ms(text)
        except InvalidInterval as error:
            where = f"{path}.lateMessageRejectionStartDateTime"
            notes.problem(where, text, str(error), "write an ISO 8601 time")
        if block.late_message_rejection_period is not None:
            rule = "lateMessageRejectionPeriod and lateMessageRejectionStartDateTime exclude each other"
            notes.problem(f"{path}.lateMessageRejectionPeriod", block.late_message_rejection_period, rule, "keep one")
    return Rejection(block.late_message_rejection_period, start_ms, block.early_message_rejection_period)


def read_tuning(block: TuningEdge, path: str, notes: Notes) -> TuningConfig:
    """The tuningConfig with Druid's spellings of "no limit" resolved; faults are noted."""
    if block.type != "kafka":
        notes.refused(f"{path}.type", block.type, "this tuningConfig", 'use "kafka"')
    if block.on_bad_value not in ("null", "reject"):
        notes.problem(f"{path}.onBadValue", block.on_bad_value, "is not a known policy", "use null or reject")
    limits = {
        "maxRowsInMemory": block.max_rows_in_memory,
        "maxRowsPerSegment": block.max_rows_per_segment,
        "maxTotalRows": block.max_total_rows,
    }
    for name, value in limits.items():
        if value is not None and (value == 0 or value < -1):
            notes.problem(f"{path}.{name}", value, "must be 1 or more", "correct it; -1 is no limit")
    if block.max_bytes_in_memory < -1:
        notes.problem(f"{path}.maxBytesInMemory", block.max_bytes_in_memory, "must be -1, 0 or more", "correct it")
    handoff_ms = block.intermediate_handoff_period
    return TuningConfig(
        max_rows_in_memory=_limit(block.max_rows_in_memory, 150_000),
        max_bytes_in_memory=block.max_bytes_in_memory,
        max_rows_per_segment=_limit(block.max_rows_per_segment, 5_000_000),
        max_total_rows=_limit(block.max_total_rows, 20_000_000),
        intermediate_persist_period_ms=block.intermediate_persist_period,
        intermediate_handoff_period_ms=handoff_ms if handoff_ms is not None and handoff_ms < _NEVER_MS else None,
        max_pending_persists=block.max_pending_persists,
        log_parse_exceptions=block.log_parse_exceptions,
        max_parse_exceptions=_parse_exceptions(block),
        max_saved_parse_exceptions=_saved_exceptions(block),
        handoff_condition_timeout_ms=block.handoff_condition_timeout,
        reset_offset_automatically=block.reset_offset_automatically,
        http_timeout_ms=block.http_timeout,
        shutdown_timeout_ms=block.shutdown_timeout,
        offset_fetch_period_ms=max(block.offset_fetch_period, 5_000),
        chat_retries=block.chat_retries,
        reject_bad_values=block.on_bad_value == "reject",
        codecs=read_index_spec(block.index_spec, f"{path}.indexSpec", notes),
    )


def _limit(value: int | None, default: int) -> int:
    if value is None:
        return default
    return _LIMIT_MAX if value == -1 else value


def _parse_exceptions(block: TuningEdge) -> int:
    if block.report_parse_exceptions:
        return 0
    stated = block.max_parse_exceptions
    return UNLIMITED if stated is None or stated < 0 else stated


def _saved_exceptions(block: TuningEdge) -> int:
    if block.report_parse_exceptions:
        return 1
    stated = block.max_saved_parse_exceptions
    return SAVED_UNSTATED if stated is None else max(stated, 0)
