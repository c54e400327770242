"""What a supervisor looks like to people: Druid's status, stats and parse-error documents (pure).

Built from rows of the store, the last heartbeats and the stream as last seen; nothing is asked of a task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ingest.metadata.records import DesiredState, GroupState, StreamOffsets
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import AttemptRecord, AttemptState, Place, SequenceState, TaskHeartbeat
from ingest.supervisor.health import Problem, Status
from ingest.supervisor.machine_exceptions import ExceptionsView
from ingest.supervisor.scaling import ScalingView
from segments.civil import format_iso_ms


@dataclass(frozen=True, slots=True)
class SupervisorFacts:
    """Everything a status is made of. ``log_ends`` and ``seen_ms`` are the stream as last seen, ``time_lags`` (ms) how
    far behind its newest record tasks are, where the spec asks for that; ``places`` what partitions stand for, of
    several topics. ``reason`` says what only an operator can end, ``waiting_for`` what ends by itself."""

    supervisor: str
    datasource: str
    topic: str
    replicas: int
    task_duration_ms: int
    completion_timeout_ms: int
    desired: DesiredState
    health: Status
    reason: str | None
    offsets: StreamOffsets | None
    groups: Sequence[GroupState]
    beats: Mapping[str, TaskHeartbeat]
    log_ends: OffsetMap
    seen_ms: int | None
    problems: Sequence[Problem]
    waiting_for: Sequence[str] = ()
    scaling: ScalingView | None = None
    exceptions: ExceptionsView | None = None
    time_lags: OffsetMap | None = None
    places: Mapping[int, Place] = field(default_factory=dict)


def named(offsets: Mapping[int, int], places: Mapping[int, Place]) -> dict[str, int]:
    """Druid's form of an offset map: by partition, of several topics by ``topic:partition``."""
    return {places[p].name if p in places else str(p): offset for p, offset in offsets.items()}


def status(facts: SupervisorFacts, now_ms: int) -> dict[str, Any]:
    """The document of ``GET /druid/indexer/v1/supervisor/{id}/status``."""
    active, publishing = _task_entries(facts, now_ms)
    behind = lag(facts)
    payload: dict[str, Any] = {
        "dataSource": facts.datasource,
        "stream": facts.topic,
        "partitions": len(facts.log_ends) or (0 if facts.offsets is None else len(facts.offsets.committed)),
        "replicas": facts.replicas,
        "durationSeconds": facts.task_duration_ms // 1_000,
        "activeTasks": active,
        "publishingTasks": publishing,
        "latestOffsets": named(facts.log_ends, facts.places),
        "minimumLag": named(behind, facts.places),
        "aggregateLag": sum(behind.values()),
        "offsetsLastUpdated": None if facts.seen_ms is None else format_iso_ms(facts.seen_ms),
        "suspended": facts.desired is DesiredState.SUSPENDED,
        "healthy": facts.health.healthy,
        "state": facts.health.state,
        "detailedState": facts.health.detailed,
        "recentErrors": [_error_event(problem) for problem in sorted(facts.problems, key=lambda p: p.at_ms)],
    }
    if facts.time_lags is not None:
        payload["minimumLagMillis"] = named(facts.time_lags, facts.places)
        payload["aggregateLagMillis"] = sum(facts.time_lags.values())
    if facts.reason is not None:
        payload["stateReason"] = facts.reason
    if facts.scaling is not None:
        payload["autoScaler"] = _scaling(facts.scaling)
    if facts.exceptions is not None:
        payload["parseExceptions"] = {"count": facts.exceptions.count, "max": facts.exceptions.most}
    if facts.waiting_for:
        payload["waitingFor"] = list(facts.waiting_for)
    return {"id": facts.supervisor, "generationTime": format_iso_ms(now_ms), "payload": payload}


def _scaling(view: ScalingView) -> dict[str, Any]:
    """How many task groups there shall be, and why not more or fewer. ``lag`` is the newest sample."""
    return {
        "taskCount": view.task_count,
        "taskCountMin": view.task_count_min,
        "taskCountMax": view.task_count_max,
        "lag": view.lag,
        "samples": view.samples,
        "heldBack": view.held_back,
    }


def _error_event(problem: Problem) -> dict[str, Any]:
    return {
        "timestamp": format_iso_ms(problem.at_ms),
        "exceptionClass": problem.kind,
        "message": problem.message,
        "streamException": problem.stream,
    }


def reached(facts: SupervisorFacts) -> OffsetMap:
    """Per partition the furthest offset that any attempt has read, else the committed one."""
    committed = OffsetMap() if facts.offsets is None else facts.offsets.committed
    ends = [s.end for group in facts.groups for s in group.sequences if s.end is not None]
    stored = [attempt.positions for group in facts.groups for attempt in group.attempts]
    beaten = [beat.positions for beat in facts.beats.values()]
    return furthest(committed, *ends, *stored, *beaten)


def lag(facts: SupervisorFacts) -> OffsetMap:
    """Per partition the records not yet read, as of the stream's last sight."""
    positions = reached(facts)
    return OffsetMap((p, max(0, end - positions.get(p, 0))) for p, end in facts.log_ends.items())


def _task_entries(facts: SupervisorFacts, now_ms: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    active: list[dict[str, Any]] = []
    publishing: list[dict[str, Any]] = []
    for group in facts.groups:
        for attempt in group.attempts:
            if attempt.state.is_live:
                entry = _task_entry(facts, group, attempt, now_ms)
                (active if entry["type"] == "ACTIVE" else publishing).append(entry)
    return active, publishing


def _task_entry(facts: SupervisorFacts, group: GroupState, attempt: AttemptRecord, now_ms: int) -> dict[str, Any]:
    opened = [s for s in group.sequences if s.state is SequenceState.OPEN]
    reading = bool(opened) and attempt.state is not AttemptState.STOPPING
    known = opened or list(group.sequences)
    sequence = known[-1] if known else None
    beat = facts.beats.get(attempt.token)
    positions = attempt.positions if beat is None else furthest(attempt.positions, beat.positions)
    age_ms = now_ms - (attempt.created_ms if sequence is None else sequence.opened_at_ms)
    limit_ms = facts.task_duration_ms if reading else facts.completion_timeout_ms
    ends = facts.log_ends
    behind = OffsetMap((p, max(0, ends[p] - offset)) for p, offset in positions.items() if p in ends)
    return {
        "id": attempt.task_id,
        "startingOffsets": {} if sequence is None else named(sequence.start, facts.places),
        "startTime": format_iso_ms(attempt.created_ms),
        "remainingSeconds": max(0, limit_ms - age_ms) // 1_000,
        "type": "ACTIVE" if reading else "PUBLISHING",
        "currentOffsets": named(positions, facts.places),
        "lag": named(behind, facts.places) if reading else None,
    }


def stats(
    groups: Sequence[GroupState], beats: Mapping[str, TaskHeartbeat], rates: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """The document of ``…/stats``: group, task, row statistics since the attempt started; ``rates`` by token."""
    document: dict[str, Any] = {}
    for group in groups:
        tasks = {
            attempt.task_id: row_stats(beats[attempt.token].counters, rates.get(attempt.token))
            for attempt in group.attempts
            if attempt.token in beats
        }
        if tasks:
            document[str(group.group)] = tasks
    return document


def row_stats(counters: Mapping[str, int], rates: dict[str, Any] | None = None) -> dict[str, Any]:
    """Druid's row statistics of one task from its counters and, where they are known, its moving averages."""
    names = ("processed", "processedBytes", "processedWithError", "thrownAway", "unparseable")
    totals: dict[str, Any] = {name: counters.get(name, 0) for name in names}
    reasons = {
        name.partition(".")[2]: count for name, count in counters.items() if name.startswith("thrownAwayByReason.")
    }
    if reasons:
        totals["thrownAwayByReason"] = reasons
    return {"movingAverages": rates or {}, "totals": {"buildSegments": totals}}


def parse_errors(beats: Mapping[str, TaskHeartbeat]) -> list[dict[str, Any]]:
    """The document of ``…/parseErrors``: samples of all tasks, newest first."""
    samples = [error for beat in beats.values() for error in beat.parse_errors]
    return sorted(samples, key=lambda error: -int(error.get("timeOfExceptionMillis", 0)))
