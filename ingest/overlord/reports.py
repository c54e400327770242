"""Gathers the facts of one supervisor's status from the store and from its runner."""

from __future__ import annotations

from ingest.metadata.records import DesiredState
from ingest.metadata.store import MetadataStore
from ingest.overlord.served import ServedVersions
from ingest.supervisor.discovery import StreamView
from ingest.supervisor.report import SupervisorFacts
from ingest.supervisor.runner import SupervisorRunner
from segments.civil import format_iso_ms


def facts_of(store: MetadataStore, runner: SupervisorRunner, served: ServedVersions | None = None) -> SupervisorFacts:
    """A moment of the supervisor: rows read now, heartbeats and stream as last heard; with ``served`` also
    who holds a hand-off back."""
    view = runner.view()
    spec = view.spec
    record = store.supervisor(spec.supervisor)
    return SupervisorFacts(
        supervisor=spec.supervisor,
        datasource=spec.datasource,
        topic=spec.io.stream,
        replicas=spec.io.replicas,
        task_duration_ms=spec.io.task_duration_ms,
        completion_timeout_ms=spec.io.completion_timeout_ms,
        desired=DesiredState.TERMINATED if record is None else record.desired,
        health=view.health,
        reason=view.reason,
        offsets=store.offsets(spec.supervisor, spec.io.topic),
        groups=store.groups(spec.supervisor),
        beats=view.beats,
        log_ends=view.stream.log_ends,
        seen_ms=view.stream.seen_ms,
        problems=view.problems,
        waiting_for=(*view.waiting_for, *_unseen(view.stream), *(served.waits_for(spec.datasource) if served else ())),
        scaling=view.scaling,
        exceptions=view.exceptions,
        time_lags=view.stream.time_lags,
        places=view.stream.places,
    )


def _unseen(stream: StreamView) -> list[str]:
    """That lag and partitions are not of now, and why; tasks may read on meanwhile."""
    if stream.error is None or stream.failing_ms is None:
        return []
    known = "nothing is known of it yet" if stream.seen_ms is None else f"lag is as of {format_iso_ms(stream.seen_ms)}"
    return [f"the stream is not seen since {format_iso_ms(stream.failing_ms)} ({known}): {stream.error}"]
