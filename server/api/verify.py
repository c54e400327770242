"""The audit of one table, run by whoever can reach the metadata and deep storage."""

from __future__ import annotations

import threading
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import Response

from ingest.metadata.store import MetadataStore
from segments.known import there_are
from segments.storage.base import DeepStorage
from server.api.answers import BadRequest, JsonResponse, NotFound
from server.audit.table import audit_table


def verify_router(store: MetadataStore, storage: DeepStorage, scratch: Path) -> APIRouter:
    """One route. One audit at a time: it reads every file of a table."""
    router = APIRouter(prefix="/siltstone/v1", tags=["audit"])
    running = threading.Lock()

    @router.post("/verify/{table}")
    def verify(table: str) -> Response:
        """Walks ledger, segments and files; the answer lists every fault."""
        if table not in store.datasources():
            raise NotFound(f"no table is named {table!r}{there_are(table, store.datasources())}")
        if not running.acquire(blocking=False):
            raise BadRequest("an audit is already running; ask again when it is done")
        try:
            return JsonResponse(audit_table(store, storage, table, scratch).to_json())
        finally:
            running.release()

    return router
