"""Druid's task API under ``/druid/indexer/v1``: lists, status, log, reports, shutdown, leader and workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from ingest.metadata.store import MetadataStore
from ingest.overlord.overlord import Overlord
from ingest.protocol import AttemptRecord, AttemptState, WorkerHeartbeat
from segments.civil import format_iso_ms
from segments.known import there_are
from server.api import openapi
from server.api.answers import BadRequest, JsonResponse, NotFound
from server.api.requests import is_number

LISTED_MAX = 10_000
STATES = ("waiting", "pending", "running", "complete")
LogReader = Callable[[AttemptRecord, int], bytes | None]
"""The log of an attempt from an offset on (negative: the tail), None when its worker has none."""


def task_router(overlord: Overlord, store: MetadataStore, read_log: LogReader) -> APIRouter:
    """All routes. One task of Druid's is one task id here; its newest attempt speaks for it."""
    router = APIRouter(prefix="/druid/indexer/v1", tags=["tasks"])
    _add_lists(router, store)
    _add_task(router, overlord, store, read_log)
    _add_overlord(router, overlord)
    return router


def _add_lists(router: APIRouter, store: MetadataStore) -> None:
    state = ("state", {"type": "string", "enum": list(STATES)}, "only tasks in this state")

    @router.get("/tasks", openapi_extra=openapi.parameters(state, *openapi.TASK_FILTERS))
    def tasks(request: Request) -> Response:
        """Status objects, newest first; ``state``, ``datasource``, ``type``, ``max`` narrow them."""
        state = request.query_params.get("state")
        if state is not None and state not in STATES:
            return PlainTextResponse(f"{state} is not a valid state type", 400)
        return JsonResponse(_listed(store, request, state))

    for each in STATES:
        _add_fixed(router, store, each)


def _add_fixed(router: APIRouter, store: MetadataStore, state: str) -> None:
    def listed(request: Request) -> Response:
        return JsonResponse(_listed(store, request, state))

    listed.__doc__ = f"The tasks that are {state}."
    told = openapi.parameters(*openapi.TASK_FILTERS)
    router.add_api_route(f"/{state}Tasks", listed, methods=["GET"], name=f"{state} tasks", openapi_extra=told)


def _listed(store: MetadataStore, request: Request, state: str | None) -> list[dict[str, Any]]:
    datasource = request.query_params.get("datasource")
    kind = request.query_params.get("type")
    most = request.query_params.get("max")
    if most is not None and (not is_number(most) or int(most) == 0):
        raise BadRequest(f"max: must be a number greater than 0 (found {most!r})")
    found = [
        task_status(attempt)
        for attempt in newest_attempts(store)
        if (state is None or _state(attempt) == state)
        and (datasource is None or attempt.datasource == datasource)
        and (kind is None or kind == "index_kafka")
    ]
    return found[: int(most)] if most else found


def newest_attempts(store: MetadataStore) -> list[AttemptRecord]:
    """One attempt per task id, newest tasks first; at most 10,000 attempts are looked at."""
    newest: dict[str, AttemptRecord] = {}
    for attempt in store.attempts(None, None, LISTED_MAX):
        held = newest.get(attempt.task_id)
        if held is None or attempt.attempt > held.attempt:
            newest[attempt.task_id] = attempt
    return list(newest.values())


def _state(attempt: AttemptRecord) -> str:
    if not attempt.state.is_live:
        return "complete"
    return "running" if attempt.state in (AttemptState.RUNNING, AttemptState.STOPPING) else "pending"


def task_status(attempt: AttemptRecord) -> dict[str, Any]:
    """Druid's status object of a task."""
    code = {AttemptState.SUCCEEDED: "SUCCESS", AttemptState.FAILED: "FAILED", AttemptState.FENCED: "FAILED"}.get(
        attempt.state, "RUNNING"
    )
    host, _, port = (attempt.address or "").rpartition(":")
    location = {"host": host or None, "port": int(port) if port.isdigit() else -1, "tlsPort": -1}
    runner = {"complete": "NONE", "running": "RUNNING", "pending": "PENDING"}[_state(attempt)]
    return {
        "id": attempt.task_id,
        "groupId": f"index_kafka_{attempt.datasource}",
        "type": "index_kafka",
        "createdTime": format_iso_ms(attempt.created_ms),
        "queueInsertionTime": format_iso_ms(attempt.created_ms),
        "statusCode": code,
        "status": code,
        "runnerStatusCode": runner,
        "duration": -1 if attempt.ended_ms is None else max(0, attempt.ended_ms - attempt.created_ms),
        "location": location,
        "dataSource": attempt.datasource,
        "errorMsg": attempt.error,
    }


def find_attempt(store: MetadataStore, task: str) -> AttemptRecord:
    """The newest attempt of a task id."""
    attempts = newest_attempts(store)
    found = next((attempt for attempt in attempts if attempt.task_id == task), None)
    if found is None:
        raise NotFound(f"no task is named {task!r}{there_are(task, (each.task_id for each in attempts))}")
    return found


def _add_task(router: APIRouter, overlord: Overlord, store: MetadataStore, read_log: LogReader) -> None:
    @router.get("/task/{task}")
    def get_task(task: str) -> Response:
        """The task with the group and supervisor it works for."""
        attempt = find_attempt(store, task)
        payload = {
            "id": task,
            "type": "index_kafka",
            "dataSource": attempt.datasource,
            "supervisorId": attempt.supervisor,
            "taskGroupId": attempt.group,
            "attempt": attempt.attempt,
            "worker": attempt.worker,
        }
        return JsonResponse({"task": task, "payload": payload})

    @router.get("/task/{task}/status")
    def get_status(task: str) -> Response:
        """What became of the task."""
        return JsonResponse({"task": task, "status": task_status(find_attempt(store, task))})

    @router.get("/task/{task}/reports")
    def get_reports(task: str) -> Response:
        """Row counts of a running task, as last heard."""
        attempt = find_attempt(store, task)
        counted = overlord.row_stats(attempt) if attempt.state.is_live else None
        if counted is None:
            raise NotFound(f"no report of task {task!r} is held; reports live as long as the task")
        state = "RUNNING" if _state(attempt) == "running" else "PENDING"
        payload = {"ingestionState": state, "rowStats": counted, "errorMsg": attempt.error}
        body = {"ingestionStatsAndErrors": {"taskId": task, "type": "ingestionStatsAndErrors", "payload": payload}}
        return JsonResponse(body)

    @router.get("/task/{task}/log")
    def get_log(task: str, offset: int = 0) -> Response:
        """The task's log as text; a negative offset gives the tail."""
        text = read_log(find_attempt(store, task), offset)
        if text is None:
            raise NotFound(f"the log of task {task!r} is not held by any worker that answers")
        return PlainTextResponse(text)

    @router.post("/task/{task}/shutdown")
    def shut_down(task: str) -> Response:
        """Fails the task's present attempt; its group gets another at once."""
        if not overlord.shut_down_task(task):
            running = (each.task_id for each in newest_attempts(store) if each.state.is_live)
            raise NotFound(f"no running task is named {task!r}{there_are(task, running)}")
        return JsonResponse({"task": task})


def _add_overlord(router: APIRouter, overlord: Overlord) -> None:
    @router.get("/leader")
    def leader() -> Response:
        """The leading overlord's address."""
        row = overlord.leader()
        if row is None:
            raise NotFound("no overlord leads at the moment")
        return PlainTextResponse(row.address)

    @router.get("/isLeader")
    def is_leader() -> Response:
        """200 where the overlord leads, 404 elsewhere."""
        row = overlord.leader()
        leads = row is not None and row.address == overlord.settings.address
        return JsonResponse({"leader": leads}, 200 if leads else 404)

    @router.get("/workers")
    def workers() -> Response:
        """The middle managers as last heard."""
        return JsonResponse([_worker(beat, age_ms) for beat, age_ms in overlord.workers()])

    @router.get("/totalWorkerCapacity")
    def capacity() -> Response:
        """How many tasks fit and how many run."""
        beats = [beat for beat, _ in overlord.workers()]
        total = sum(beat.capacity for beat in beats if beat.enabled)
        used = sum(len(beat.running) for beat in beats)
        return JsonResponse({"currentClusterCapacity": total, "usedClusterCapacity": used})


def _worker(beat: WorkerHeartbeat, age_ms: int) -> dict[str, Any]:
    ip = beat.address.rpartition(":")[0]
    return {
        "worker": {"scheme": "http", "host": beat.address, "ip": ip, "capacity": beat.capacity},
        "enabled": beat.enabled,
        "currCapacityUsed": len(beat.running),
        "runningTasks": [task.task_id for task in beat.running],
        "silentForMs": age_ms,
    }
