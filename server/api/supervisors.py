"""Druid's supervisor API under ``/druid/indexer/v1/supervisor``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ingest.errors import SpecError
from ingest.metadata.records import DesiredState, SpecVersion, SupervisorRecord
from ingest.metadata.store import MetadataStore
from ingest.offsets import OffsetMap
from ingest.overlord.changing import WrongState
from ingest.overlord.overlord import Overlord
from ingest.overlord.refusals import UnknownSupervisor
from ingest.spec import parse_supervisor_spec
from segments.civil import format_iso_ms
from server.api import openapi
from server.api.answers import BadRequest, JsonResponse
from server.api.requests import flag, is_number, json_of
from server.config_secrets import masked

LIST_FLAGS = (
    openapi.FULL,
    ("state", openapi.FLAG, "objects with state and health"),
    ("system", openapi.FLAG, "objects with the spec as text"),
)
DISCARD = (
    "discard",
    openapi.FLAG,
    "gives up what was read and is not published, at once; else that is published first, for up to a minute",
)
BACKFILL_TASKS = ("backfillTaskCount", {"type": "integer", "minimum": 1}, "tasks for the range; else as the spec says")
RESET_OFFSETS = openapi.body(openapi.RESET_OFFSETS) | openapi.parameters(DISCARD)
UNMODIFIED = ("skipRestartIfUnmodified", openapi.FLAG, "a spec that is just the stored one changes nothing at all")


def supervisor_router(overlord: Overlord, store: MetadataStore) -> APIRouter:
    """All routes; the overlord refuses with NotLeading where another one leads."""
    router = APIRouter(prefix="/druid/indexer/v1/supervisor", tags=["supervisors"])
    _add_lists(router, overlord, store)
    _add_reads(router, overlord, store)
    _add_changes(router, overlord)
    _add_moves(router, overlord)
    _add_all(router, overlord, store)
    return router


def _add_lists(router: APIRouter, overlord: Overlord, store: MetadataStore) -> None:
    @router.get("", openapi_extra=openapi.parameters(*LIST_FLAGS))
    def list_supervisors(request: Request) -> Response:
        """Ids, or with ``full``, ``state`` or ``system`` an object for each."""
        records = store.supervisors()
        full, system = flag(request, "full"), flag(request, "system")
        if not full and not system and not flag(request, "state"):
            return JsonResponse([record.supervisor for record in records])
        return JsonResponse([_summary(overlord, record, full, system) for record in records])

    @router.get("/history")
    def all_history() -> Response:
        """Every supervisor's spec versions, newest first."""
        return JsonResponse(
            {
                record.supervisor: [_version(item) for item in store.history(record.supervisor)]
                for record in store.supervisors()
            }
        )


def _add_reads(router: APIRouter, overlord: Overlord, store: MetadataStore) -> None:
    @router.get("/{supervisor}")
    def get_spec(supervisor: str) -> Response:
        """The spec exactly as it was posted, secrets masked."""
        return JsonResponse(_spec_of(_present(store, supervisor)))

    @router.get("/{supervisor}/status")
    def status(supervisor: str) -> Response:
        """State, lag, tasks and recent errors."""
        return JsonResponse(overlord.status(supervisor))

    @router.get("/{supervisor}/health")
    def health(supervisor: str) -> Response:
        """200 and true, or 503 and false."""
        healthy = bool(overlord.status(supervisor)["payload"]["healthy"])
        return JsonResponse({"healthy": healthy}, 200 if healthy else 503)

    @router.get("/{supervisor}/stats")
    def stats(supervisor: str) -> Response:
        """Row counts by group and task."""
        return JsonResponse(overlord.stats(supervisor))

    @router.get("/{supervisor}/parseErrors")
    def parse_errors(supervisor: str) -> Response:
        """Samples of records that could not be read whole, newest first."""
        return JsonResponse(overlord.parse_errors(supervisor))

    @router.get("/{supervisor}/history")
    def history(supervisor: str, count: int | None = None) -> Response:
        """Spec versions, newest first; a terminated time shows as a tombstone."""
        if count is not None and count <= 0:
            raise BadRequest(f"count: must be greater than 0 (found {count})")
        found = store.history(supervisor)
        if not found:
            raise UnknownSupervisor(supervisor, store.supervisors(), "was ever")
        return JsonResponse([_version(item) for item in found[:count]])


def _add_changes(router: APIRouter, overlord: Overlord) -> None:
    @router.post("", openapi_extra=openapi.body(openapi.SUPERVISOR_SPEC) | openapi.parameters(UNMODIFIED))
    async def submit(request: Request) -> Response:
        """Creates a supervisor, or changes it at its next checkpoint. Nothing is ever restarted for that."""
        posted = await json_of(request)
        skip = flag(request, "skipRestartIfUnmodified")
        offered = await run_in_threadpool(lambda: overlord.offer(posted, skip_unmodified=skip))
        record, changed = offered.record, offered.modified
        answer = {"id": record.supervisor, "version": record.version, "modified": changed, "restarted": changed}
        if offered.warnings:
            answer["warnings"] = list(offered.warnings)
        return JsonResponse(answer)

    @router.post("/{supervisor}/suspend")
    def suspend(supervisor: str) -> Response:
        """Publishes what was read and stops reading."""
        return JsonResponse(_spec_of(overlord.suspend(supervisor)))

    @router.post("/{supervisor}/resume")
    def resume(supervisor: str) -> Response:
        """Reads on where the suspension stopped."""
        return JsonResponse(_spec_of(overlord.resume(supervisor)))

    @router.post("/{supervisor}/terminate")
    @router.post("/{supervisor}/shutdown", include_in_schema=False)
    def terminate(supervisor: str) -> Response:
        """Publishes what was read and ends the supervisor; its table stays."""
        return JsonResponse({"id": overlord.terminate(supervisor).supervisor})

    @router.post("/{supervisor}/taskGroups/handoff", openapi_extra=openapi.body(openapi.HAND_OFF), status_code=202)
    async def hand_off(supervisor: str, request: Request) -> Response:
        """Ends the open sequences of task groups early, so that they are published; as good as it can: ``unknown``
        of the answer are those that do not exist, ``groups`` those that do."""
        groups = _groups_of(await json_of(request))
        known = await run_in_threadpool(overlord.hand_off, supervisor, groups)
        return JsonResponse({"id": supervisor, "groups": list(known), "unknown": sorted(groups - set(known))}, 202)


def _add_moves(router: APIRouter, overlord: Overlord) -> None:
    @router.post("/{supervisor}/reset", openapi_extra=openapi.parameters(DISCARD))
    def reset(supervisor: str, request: Request) -> Response:
        """Moves every offset to where a new supervisor would start."""
        overlord.reset(supervisor, discard=flag(request, "discard"))
        return JsonResponse({"id": supervisor})

    @router.post("/{supervisor}/resetToLatestAndBackfill", openapi_extra=openapi.parameters(BACKFILL_TASKS))
    def backfill(supervisor: str, request: Request) -> Response:
        """Moves every offset to the latest; a new, bounded supervisor of the same table reads what is skipped."""
        stated = request.query_params.get("backfillTaskCount")
        if stated is not None and not is_number(stated):
            raise BadRequest(f"backfillTaskCount: must be a number greater than 0 (found {stated!r})")
        name = overlord.backfill(supervisor, None if stated is None else int(stated))
        return JsonResponse({"id": supervisor, "backfillSupervisorId": name})

    @router.post("/{supervisor}/resetOffsets", openapi_extra=RESET_OFFSETS)
    async def reset_offsets(supervisor: str, request: Request) -> Response:
        """Moves the named partitions; Druid's metadata document with ``partitionOffsetMap``."""
        posted = await json_of(request)
        io = (await run_in_threadpool(overlord.spec, supervisor)).io
        numbers = None if io.topic_pattern is None else await run_in_threadpool(overlord.places, supervisor)
        moves = _moves(posted, io.stream, numbers)
        dropped = flag(request, "discard")
        await run_in_threadpool(lambda: overlord.reset_offsets(supervisor, moves, discard=dropped))
        return JsonResponse({"id": supervisor})


def _add_all(router: APIRouter, overlord: Overlord, store: MetadataStore) -> None:
    wish = {
        DesiredState.SUSPENDED: overlord.suspend,
        DesiredState.RUNNING: overlord.resume,
        DesiredState.TERMINATED: overlord.terminate,
    }

    def each(wanted: DesiredState) -> Response:
        for record in store.supervisors():
            if record.desired is not wanted:
                # One that is so already, is gone, or whose spec is not understood must not keep the wish from the rest.
                with suppress(WrongState, UnknownSupervisor, SpecError):
                    wish[wanted](record.supervisor)
        return JsonResponse({"status": "success"})

    @router.post("/suspendAll")
    def suspend_all() -> Response:
        """Suspends every running supervisor."""
        return each(DesiredState.SUSPENDED)

    @router.post("/resumeAll")
    def resume_all() -> Response:
        """Resumes every suspended supervisor."""
        return each(DesiredState.RUNNING)

    @router.post("/terminateAll")
    def terminate_all() -> Response:
        """Terminates every supervisor."""
        return each(DesiredState.TERMINATED)


def _present(store: MetadataStore, supervisor: str) -> SupervisorRecord:
    record = store.supervisor(supervisor)
    if record is None or record.desired is DesiredState.TERMINATED:
        raise UnknownSupervisor(supervisor, store.supervisors())
    return record


def _spec_of(record: SupervisorRecord) -> dict[str, Any]:
    """The posted spec with ``suspended`` as it is desired now."""
    spec: dict[str, Any] = masked({**record.spec, "suspended": record.desired is DesiredState.SUSPENDED})
    return spec


def _summary(overlord: Overlord, record: SupervisorRecord, full: bool, system: bool) -> dict[str, Any]:
    try:
        payload = overlord.status(record.supervisor)["payload"]
    except UnknownSupervisor:  # one of many must not hide the others
        payload = _unsupervised(record)
    summary: dict[str, Any] = {
        "id": record.supervisor,
        "state": payload["state"],
        "detailedState": payload["detailedState"],
        "healthy": payload["healthy"],
        "suspended": payload["suspended"],
    }
    if full or system:
        spec = _spec_of(record)
        summary |= {"dataSource": record.datasource, "type": "kafka", "source": payload["stream"]}
        summary |= {"specString": orjson.dumps(spec).decode()} if system else {"spec": spec}
    return summary


def _unsupervised(record: SupervisorRecord) -> dict[str, Any]:
    """Of one that nothing runs for: not yet, no longer, or never, as this version does not understand its spec."""
    try:
        stream, state = parse_supervisor_spec(record.spec)[0].io.stream, "PENDING"
    except SpecError:
        stream, state = None, "UNHEALTHY_SUPERVISOR"
    suspended = record.desired is DesiredState.SUSPENDED
    healthy = state == "PENDING"
    return {"state": state, "detailedState": state, "healthy": healthy, "suspended": suspended, "stream": stream}


def _version(item: SpecVersion) -> dict[str, Any]:
    spec = {"type": "NoopSupervisorSpec"} if item.spec is None else masked(item.spec)
    return {"spec": spec, "version": format_iso_ms(item.created_ms)}


def _groups_of(posted: Any) -> frozenset[int]:
    """The groups of ``{"taskGroupIds": [3, 4]}``."""
    groups = posted.get("taskGroupIds") if isinstance(posted, dict) else None
    whole = isinstance(groups, list) and all(isinstance(g, int) and not isinstance(g, bool) for g in groups)
    if not isinstance(groups, list) or not whole or not groups:
        raise BadRequest("taskGroupIds: a list of the numbers of task groups is needed, as /stats shows them")
    return frozenset(groups)


def _moves(posted: Any, topic: str, numbers: Mapping[str, int] | None) -> OffsetMap:
    """The offsets of Druid's ``{"type":"kafka","partitions":{"type":"end","stream":…,"partitionOffsetMap":{…}}}``.

    ``numbers`` are those of the partitions of several topics, which the map names ``topic:partition``.
    """
    partitions = posted.get("partitions") if isinstance(posted, dict) else None
    if not isinstance(partitions, dict) or not isinstance(partitions.get("partitionOffsetMap"), dict):
        raise BadRequest("partitions.partitionOffsetMap: an object of partition to offset is needed")
    if partitions.get("stream", topic) != topic:
        raise BadRequest(f"partitions.stream: {partitions['stream']!r} is not the supervisor's topic {topic!r}")
    moves: dict[int, int] = {}
    for partition, offset in partitions["partitionOffsetMap"].items():
        is_offset = isinstance(offset, int) and not isinstance(offset, bool) and 0 <= offset < 2**63
        if numbers is not None and str(partition) not in numbers:
            raise BadRequest(f"partitionOffsetMap: {partition!r} is no topic:partition that this supervisor reads")
        if (numbers is None and not is_number(str(partition))) or not is_offset:
            raise BadRequest(f"partitionOffsetMap: {partition!r}: {offset!r} is no partition with an offset from 0 on")
        moves[int(partition) if numbers is None else numbers[str(partition)]] = offset
    if not moves:
        raise BadRequest("partitionOffsetMap: names no partition")
    return OffsetMap(moves)
