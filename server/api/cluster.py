"""Druid's views of a cluster that consoles ask for: what tables hold, who leads, how segments are loaded.

Every query node answers for every segment and nothing is moved by rules: what Druid lets a person configure here has
one answer, Druid's default.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ingest.metadata.store import MetadataStore
from segments.civil import format_iso_ms
from server.api import openapi
from server.api.answers import JsonResponse
from server.api.coordinator import used_segments
from server.api.requests import flag
from server.api.status import status_body
from server.parts import Parts

TIER = "_default_tier"
LOAD_FOREVER: list[dict[str, Any]] = [
    {"type": "loadForever", "tieredReplicants": {TIER: 1}, "useDefaultTierForNull": True}
]
SIMPLE = ("simple", openapi.FLAG, "counts instead of shares")


def cluster_router(parts: Parts, store: MetadataStore) -> APIRouter:
    """All routes; any process that knows the database answers them."""
    router = APIRouter(tags=["cluster"])
    _add_tables(router, store)
    _add_rules(router, store)
    _add_leaders(router, parts)
    return router


def _add_tables(router: APIRouter, store: MetadataStore) -> None:
    @router.get("/druid/coordinator/v1/datasources/{datasource}", openapi_extra=openapi.parameters(openapi.FULL))
    def datasource(datasource: str, request: Request) -> Response:
        """What a table holds; with ``full`` its segments; 204 when there is no such table."""
        if datasource not in store.datasources():
            return Response(status_code=204)
        segments = [row.segment for row in used_segments(store, datasource)]
        if flag(request, "full"):
            whole = {str(segment.id): segment.to_druid_json() for segment in segments}
            return JsonResponse({"name": datasource, "properties": {}, "segments": whole})
        size = sum(segment.size_bytes for segment in segments)
        held: dict[str, Any] = {"count": len(segments), "size": size, "replicatedSize": size}
        if segments:
            held["minTime"] = format_iso_ms(min(segment.interval.start_ms for segment in segments))
            held["maxTime"] = format_iso_ms(max(segment.interval.end_ms for segment in segments))
        tiers = {TIER: {"size": size, "replicatedSize": size, "segmentCount": len(segments)}}
        return JsonResponse({"tiers": tiers, "segments": held})

    @router.get("/druid/coordinator/v1/datasources/{datasource}/intervals")
    def intervals(datasource: str) -> Response:
        """The time chunks of a table's segments, the newest first; 204 when there is no such table."""
        if datasource not in store.datasources():
            return Response(status_code=204)
        found = {
            (row.segment.interval.start_ms, row.segment.interval.end_ms) for row in used_segments(store, datasource)
        }
        newest = sorted(found, reverse=True)
        return JsonResponse([f"{format_iso_ms(start)}/{format_iso_ms(end)}" for start, end in newest])


def _add_rules(router: APIRouter, store: MetadataStore) -> None:
    @router.get("/druid/coordinator/v1/rules")
    def rules() -> Response:
        """Druid's default rule: everything is loaded, for ever."""
        return JsonResponse({"_default": LOAD_FOREVER})

    @router.get("/druid/coordinator/v1/rules/{datasource}", openapi_extra=openapi.parameters(openapi.FULL))
    def rules_of(datasource: str, request: Request) -> Response:
        """A table's own rules: none; with ``full`` those that hold for it."""
        return JsonResponse(LOAD_FOREVER if flag(request, "full") else [])

    @router.get("/druid/coordinator/v1/loadstatus", openapi_extra=openapi.parameters(SIMPLE, openapi.FULL))
    def load_status(request: Request) -> Response:
        """By table, the share of published segments that can be queried: all of them, from the moment of publishing."""
        names = store.datasources()
        if flag(request, "full"):
            return JsonResponse({TIER: {name: 0 for name in names}})
        return JsonResponse({name: 0 if flag(request, "simple") else 100.0 for name in names})


def _add_leaders(router: APIRouter, parts: Parts) -> None:
    def leader() -> str:
        return next(iter(parts.directory.leaders()), "")

    @router.get("/druid/coordinator/v1/leader")
    def coordinator_leader() -> Response:
        """The leading overlord, which does a coordinator's work."""
        address = leader()
        return Response(f"http://{address}" if address else "", 200 if address else 404, media_type="text/plain")

    @router.get("/druid/coordinator/v1/isLeader")
    def is_leader() -> Response:
        """200 on the leader, 404 elsewhere."""
        leads = parts.overlord is not None and parts.overlord.is_leading
        return JsonResponse({"leader": leads}, 200 if leads else 404)

    @router.get("/druid/indexer/v1/worker")
    def worker_behaviour() -> Response:
        """How tasks are given to workers: Druid's default, the emptiest first."""
        return JsonResponse({"type": "default", "selectStrategy": {"type": "equalDistribution"}, "autoScaler": None})

    @router.get("/druid/indexer/v1/scaling")
    def scaling() -> Response:
        """Workers that were started or ended for a load: none, people do that."""
        return JsonResponse([])

    @router.get("/proxy/enabled")
    def proxy() -> Response:
        """Whether this process passes on what others must answer."""
        return JsonResponse({"enabled": "api" in parts.settings.roles})

    @router.get("/proxy/coordinator/status")
    def coordinator_status() -> Response:
        """The status of this process, which answers as a coordinator does."""
        return JsonResponse(status_body(parts))

    @router.get("/proxy/overlord/status")
    def overlord_status() -> Response:
        """The status of this process, which passes on to the overlord."""
        return JsonResponse(status_body(parts))
