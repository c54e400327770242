"""Replays of the quarantine over HTTP; answered by the leader."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from ingest.appenderator.replaying import NotReplayable
from ingest.metadata.store import StoreConflict
from ingest.overlord.overlord import Overlord
from ingest.overlord.replays import ReplayRefused, Replays
from server.api import openapi
from server.api.answers import BadRequest, JsonResponse

_PATH = ("path", {"type": "string"}, "which file; needed")


def replay_router(overlord: Overlord, replays: Replays) -> APIRouter:
    """One route; it answers when the file's records are published, or nothing was changed."""
    router = APIRouter(prefix="/siltstone/v1", tags=["quarantine"])

    @router.post("/quarantine/{table}/replay", openapi_extra=openapi.parameters(_PATH))
    def replay(table: str, request: Request) -> Response:
        """Ingests a quarantine file's records by the newest spec, each once; asking again changes nothing more."""
        path = request.query_params.get("path")
        if not path:
            raise BadRequest("path: names the file, as the list of the table's quarantine files tells it")
        try:
            return JsonResponse(replays.replay(overlord.leading().generation, table, path))
        except (NotReplayable, ReplayRefused, StoreConflict) as error:
            raise BadRequest(str(error)) from error

    return router
