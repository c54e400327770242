"""Druid's coordinator API: published segments and tables by the metadata, and marking segments unused or used."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import orjson
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from ingest.metadata.records import SegmentRow
from ingest.metadata.store import MetadataStore
from ingest.overlord.overlord import Overlord
from segments.interval import Interval
from segments.known import there_are
from server.api import openapi
from server.api.answers import BadRequest, JsonResponse, NotFound
from server.api.requests import flag, json_of

PAGE = 1_000


def coordinator_router(store: MetadataStore, overlord: Overlord | None) -> APIRouter:
    """All routes; those that change something need the leading overlord."""
    router = APIRouter(prefix="/druid/coordinator/v1", tags=["segments"])
    _add_metadata(router, store)
    _add_tables(router, store)
    if overlord is not None:
        _add_marks(router, store, overlord)
    return router


def used_segments(store: MetadataStore, datasource: str) -> Iterator[SegmentRow]:
    """The visible segments in id order, page by page."""
    after: str | None = None
    while page := store.segments(datasource, after, PAGE, include_unused=False):
        yield from page
        after = str(page[-1].segment.id)


def segment_json(row: SegmentRow) -> dict[str, Any]:
    """Druid's segment payload, with its row count."""
    return {**row.segment.to_druid_json(), "num_rows": row.segment.rows}


def _add_metadata(router: APIRouter, store: MetadataStore) -> None:
    @router.get("/metadata/segments", openapi_extra=openapi.parameters(openapi.DATASOURCES))
    def all_segments(request: Request) -> Response:
        """Published segments of all tables, or of those named by ``datasources``, streamed."""
        wanted = request.query_params.getlist("datasources") or store.datasources()

        def lines() -> Iterator[bytes]:
            lead = b"["
            for datasource in wanted:
                for row in used_segments(store, datasource):
                    yield lead + orjson.dumps(segment_json(row))
                    lead = b","
            yield b"[]" if lead == b"[" else b"]"

        pieces = lines()
        # Read before the answer begins, so that what refuses the first still has an error's status.
        first = next(pieces)
        return StreamingResponse(itertools.chain([first], pieces), media_type="application/json")

    @router.get("/metadata/datasources", openapi_extra=openapi.parameters(openapi.FULL))
    def datasources(request: Request) -> Response:
        """Names of tables; with ``full`` their segments, too."""
        names = store.datasources()
        if not flag(request, "full"):
            return JsonResponse(names)
        return JsonResponse([_table(store, name) for name in names])


def _add_tables(router: APIRouter, store: MetadataStore) -> None:
    @router.get("/metadata/datasources/{datasource}")
    def datasource_detail(datasource: str) -> Response:
        """A table with its segments."""
        _known(store, datasource)
        return JsonResponse(_table(store, datasource))

    @router.get("/metadata/datasources/{datasource}/segments", openapi_extra=openapi.parameters(openapi.FULL))
    def datasource_segments(datasource: str, request: Request) -> Response:
        """Ids of a table's segments; with ``full`` their payloads."""
        _known(store, datasource)
        full = flag(request, "full")
        rows = used_segments(store, datasource)
        return JsonResponse([segment_json(row) if full else str(row.segment.id) for row in rows])

    @router.get("/metadata/datasources/{datasource}/segments/{segment}")
    def one_segment(datasource: str, segment: str) -> Response:
        """One segment's payload."""
        for row in used_segments(store, datasource):
            if str(row.segment.id) == segment:
                return JsonResponse(segment_json(row))
        raise NotFound(f"table {datasource!r} has no used segment {segment!r}")

    @router.get("/datasources")
    def served() -> Response:
        """Names of tables."""
        return JsonResponse(store.datasources())


def _table(store: MetadataStore, name: str) -> dict[str, Any]:
    return {"name": name, "properties": {}, "segments": [segment_json(row) for row in used_segments(store, name)]}


def _known(store: MetadataStore, datasource: str) -> None:
    if datasource not in store.datasources():
        raise NotFound(f"no table is named {datasource!r}{there_are(datasource, store.datasources())}")


def _add_marks(router: APIRouter, store: MetadataStore, overlord: Overlord) -> None:
    async def mark(datasource: str, request: Request, used: bool) -> Response:
        posted = await json_of(request)
        return JsonResponse(await run_in_threadpool(_mark, store, overlord, datasource, posted, used))

    @router.post("/datasources/{datasource}/markUnused", openapi_extra=openapi.body(openapi.MARK))
    async def mark_unused(datasource: str, request: Request) -> Response:
        """Hides segments from queries, by ``interval`` or ``segmentIds``; their files stay."""
        return await mark(datasource, request, False)

    @router.post("/datasources/{datasource}/markUsed", openapi_extra=openapi.body(openapi.MARK))
    async def mark_used(datasource: str, request: Request) -> Response:
        """Takes an unused mark back."""
        return await mark(datasource, request, True)


def _mark(store: MetadataStore, overlord: Overlord, datasource: str, posted: Any, used: bool) -> dict[str, Any]:
    """How many were changed; ``unknown`` (ours) are ids that name no segment of the table."""
    _known(store, datasource)
    ids = posted.get("segmentIds") if isinstance(posted, dict) else None
    interval = posted.get("interval") if isinstance(posted, dict) else None
    if (ids is None) == (interval is None):
        raise BadRequest("exactly one of interval and segmentIds is needed")
    if ids is None:
        window = Interval.parse(str(interval))
        ids = [str(row.segment.id) for row in _all_rows(store, datasource) if window.contains(row.segment.interval)]
    elif not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
        raise BadRequest("segmentIds: a list of segment ids is needed")
    term = overlord.leading()
    changed = store.mark_segments(term.generation, datasource, ids, used, overlord.clock.now_ms())
    if changed >= len(set(ids)):
        return {"numChangedSegments": changed}
    unknown = set(ids) - {str(row.segment.id) for row in _all_rows(store, datasource)}
    return {"numChangedSegments": changed} | ({"unknown": sorted(unknown)} if unknown else {})


def _all_rows(store: MetadataStore, datasource: str) -> Iterator[SegmentRow]:
    after: str | None = None
    while page := store.segments(datasource, after, PAGE, include_unused=True):
        yield from page
        after = str(page[-1].segment.id)
