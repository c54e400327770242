"""The gauges of a process's services: lag and health per supervisor, tasks, tables, queries, caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from ingest.errors import OverlordUnreachable
from ingest.supervisor.scaling import ScalingView
from query.node import QueryNode
from server.api.quarantine import STATES
from server.metrics import Metrics, Samples
from server.parts import Parts

Sample = tuple[tuple[str, ...], float]
ATTEMPTS_MAX = 10_000
FATES = {
    "processed": "good",
    "processedWithError": "partly_good",
    "unparseable": "unparseable",
    "thrownAwayByReason.filtered": "filtered",
    "thrownAwayByReason.null": "tombstones",
    "thrownAwayByReason.afterMax": "early",
    "thrownAwayByReason.beforeMin": "late",
}
"""A task's counters, in Druid's names, to the names that the ledger has."""


def add_service_metrics(metrics: Metrics, parts: Parts, node: QueryNode | None) -> None:
    """Registers what this process's roles can tell."""
    metrics.gauge(
        "siltstone_fault",
        "1 for each thing that is wrong now, by the name in /status/health",
        lambda: [((concern,), 1.0) for concern in parts.health.faults()],
        ("concern",),
    )
    _add_overlord(metrics, parts)
    _add_ingestion(metrics, parts)
    _add_store(metrics, parts)
    _add_worker(metrics, parts)
    if node is not None:
        _add_query(metrics, node)


def _add_overlord(metrics: Metrics, parts: Parts) -> None:
    overlord = parts.overlord
    if overlord is None:
        return

    def lags() -> Iterable[Sample]:
        try:
            return [((name,), float(lag)) for name, lag in overlord.leading().lags().items()]
        except OverlordUnreachable:
            return []

    def time_lags() -> Iterable[Sample]:
        try:
            found = overlord.leading().time_lags()
        except OverlordUnreachable:
            return []
        return [((name, p), lag_ms / 1_000) for name, lags in found.items() for p, lag_ms in lags.items()]

    def standing() -> Iterable[Sample]:
        try:
            return [((name,), stood_ms / 1_000) for name, stood_ms in overlord.leading().standstills().items()]
        except OverlordUnreachable:
            return []

    def healthy() -> Iterable[Sample]:
        if not overlord.is_leading or parts.store is None:
            return []
        names = [record.supervisor for record in parts.store.supervisors()]
        return [((name,), float(bool(overlord.status(name)["payload"]["healthy"]))) for name in names]

    metrics.gauge("siltstone_leader", "1 where this overlord leads", lambda: [((), float(overlord.is_leading))])
    metrics.gauge("siltstone_supervisor_lag_records", "Records that no task has read yet", lags, ("supervisor",))
    metrics.gauge(
        "siltstone_supervisor_lag_seconds",
        "Time of a partition's newest record less that of the first one that no task has read",
        time_lags,
        ("supervisor", "partition"),
    )
    metrics.counter(
        "siltstone_duty_skips",
        "Turns of a periodic duty that were left out, for the one before still ran",
        lambda: [((duty,), float(count)) for duty, count in overlord.tally.skips().items()],
        ("duty",),
    )
    metrics.gauge(
        "siltstone_supervisor_standstill_seconds",
        "For how long a task that should read has not: its broker, disk, room or checkpoint; 0 while all read",
        standing,
        ("supervisor",),
    )
    metrics.gauge("siltstone_supervisor_healthy", "1 while the supervisor is healthy", healthy, ("supervisor",))


def _add_ingestion(metrics: Metrics, parts: Parts) -> None:
    overlord, store = parts.overlord, parts.store
    if overlord is None or store is None:
        return

    def task_messages() -> Iterable[Sample]:
        try:
            counted = overlord.leading().counters()
        except OverlordUnreachable:
            return []
        live = [attempt for attempt in store.attempts(None, True, ATTEMPTS_MAX) if attempt.token in counted]
        return [
            ((attempt.supervisor, attempt.task_id, fate), float(counted[attempt.token].get(name, 0)))
            for attempt in live
            for name, fate in FATES.items()
        ]

    def scalings(value: Callable[[ScalingView], float]) -> Samples:
        def samples() -> Iterable[Sample]:
            try:
                return [((name,), value(view)) for name, view in overlord.leading().scalings().items()]
            except OverlordUnreachable:
                return []

        return samples

    metrics.counter(
        "siltstone_supervisor_messages",
        "Messages of published ranges by what became of them, each once",
        lambda: [(key, float(count)) for key, count in overlord.tally.messages().items()],
        ("supervisor", "fate"),
    )
    metrics.gauge(
        "siltstone_task_messages",
        "Messages a live task has read since it began, by what became of them",
        task_messages,
        ("supervisor", "task", "fate"),
    )
    metrics.counter(
        "siltstone_supervisor_scalings",
        "Decisions of the auto scaler on another number of task groups",
        lambda: [(key, float(count)) for key, count in overlord.tally.scalings().items()],
        ("supervisor", "direction"),
    )
    metrics.gauge(
        "siltstone_supervisor_tasks_wanted",
        "Task groups that the auto scaler wants",
        scalings(lambda view: float(view.task_count)),
        ("supervisor",),
    )
    metrics.gauge(
        "siltstone_supervisor_scaling_held_back",
        "1 while something holds the auto scaler back from what it would decide",
        scalings(lambda view: float(view.held_back is not None)),
        ("supervisor",),
    )


def _add_store(metrics: Metrics, parts: Parts) -> None:
    store = parts.store
    if store is None:
        return

    def tasks() -> Iterable[Sample]:
        live = Counter(attempt.state.value for attempt in store.attempts(None, True, ATTEMPTS_MAX))
        return [((state,), float(count)) for state, count in live.items()]

    def versions() -> Iterable[Sample]:
        return [((name,), float(version)) for name, version in store.table_versions().items()]

    def quarantine(of: str) -> Samples:
        def told() -> Iterable[Sample]:
            found = store.quarantine_totals().items()
            return [((table, STATES.get(state, state)), float(getattr(sums, of))) for (table, state), sums in found]

        return told

    states = ("table", "state")
    metrics.gauge(
        "siltstone_quarantine_records",
        "Records in quarantine files by state: kept (they wait), replayed, expired (given up)",
        quarantine("rows"),
        states,
    )
    metrics.gauge("siltstone_quarantine_bytes", "Size of those files", quarantine("size_bytes"), states)
    metrics.gauge("siltstone_tasks", "Live task attempts by state", tasks, ("state",))
    metrics.gauge("siltstone_table_version", "The table's version: it grows with every publish", versions, ("table",))


def _add_worker(metrics: Metrics, parts: Parts) -> None:
    worker = parts.middle_manager
    if worker is None:
        return
    room = float(parts.settings.worker.capacity)
    metrics.gauge("siltstone_worker_capacity", "Tasks this worker may run at once", lambda: [((), room)])
    metrics.gauge("siltstone_worker_tasks", "Tasks that run here", lambda: [((), float(len(worker.running())))])


def _add_query(metrics: Metrics, node: QueryNode) -> None:
    for name, meaning, key in (
        ("siltstone_queries_running", "Queries that hold a worker process", "queriesRunning"),
        ("siltstone_queries_waiting", "Queries that wait for a worker process", "queriesWaiting"),
        ("siltstone_segment_cache_bytes", "Local copies of segments", "cacheBytes"),
        ("siltstone_mirror_bytes", "Local copies of live rows", "mirrorBytes"),
        ("siltstone_mirror_chunks", "Live chunks that are mirrored", "mirrorChunks"),
    ):
        metrics.gauge(name, meaning, _of_status(node, key))


def _of_status(node: QueryNode, key: str) -> Samples:
    return lambda: [((), _number(node.status()[key]))]


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
