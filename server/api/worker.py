"""Druid's worker API under ``/druid/worker/v1``: drain a middle manager, list its tasks, read their logs."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from ingest.worker.middle_manager import MiddleManager
from server.api.answers import JsonResponse, NotFound

LOG_BYTES_MAX = 16 * 2**20


def worker_router(middle_manager: MiddleManager, address: str) -> APIRouter:
    """All routes; ``address`` is how Druid's answers name this worker."""
    router = APIRouter(prefix="/druid/worker/v1", tags=["worker"])

    @router.get("/enabled")
    def enabled() -> Response:
        """Whether it takes new tasks."""
        return JsonResponse({address: middle_manager.enabled})

    @router.post("/enable")
    def enable() -> Response:
        """Takes new tasks again."""
        middle_manager.set_enabled(True)
        return JsonResponse({address: "enabled"})

    @router.post("/disable")
    def disable() -> Response:
        """Takes no new tasks; those that run here publish what they read and end."""
        middle_manager.set_enabled(False)
        return JsonResponse({address: "disabled"})

    @router.get("/tasks")
    def tasks() -> Response:
        """Ids of the tasks that run here."""
        return JsonResponse([task.task_id for task in middle_manager.running()])

    @router.get("/task/{task}/log")
    def log(task: str, offset: int = 0) -> Response:
        """The newest attempt's log."""
        path = middle_manager.log_path(task)
        if path is None:
            raise NotFound(f"no task named {task!r} ran here")
        return PlainTextResponse(read_from(path, offset))

    return router


def read_from(path: Path, offset: int) -> bytes:
    """At most 16 MiB of a file from ``offset`` on; a negative one counts from its end."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size + offset) if offset < 0 else min(offset, size))
        return file.read(LOG_BYTES_MAX)
