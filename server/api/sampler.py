"""Druid's sampler under ``/druid/indexer/v1/sampler``: what ingestion would make of some records."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ingest.clock import Clock
from ingest.overlord.sampler import Reader, sample
from server.api import openapi
from server.api.answers import JsonResponse
from server.api.requests import json_of
from server.suppliers import registry_schemas


def sampler_router(read: Reader, clock: Clock) -> APIRouter:
    """The route; ``read`` reads topics."""
    router = APIRouter(prefix="/druid/indexer/v1", tags=["supervisors"])

    @router.post("/sampler", openapi_extra=openapi.body(openapi.SAMPLE))
    async def sampled(request: Request) -> Response:
        """Per record what came in, the row it makes and what is wrong with it; of text in the request or of a topic."""
        posted = await json_of(request)
        return JsonResponse(await run_in_threadpool(sample, posted, read, clock.now_ms(), registry_schemas))

    return router
