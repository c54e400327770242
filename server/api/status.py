"""Process status as Druid answers it, health with its reasons, and the metrics page."""

from __future__ import annotations

import platform
import resource
from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

import siltstone
from server.api.answers import JsonResponse
from server.config_secrets import masked
from server.parts import Parts


def status_router(parts: Parts) -> APIRouter:
    """Routes that every process has, whatever its roles."""
    router = APIRouter(tags=["status"])

    @router.get("/status")
    def status() -> Response:
        """Version and memory."""
        return JsonResponse(status_body(parts))

    @router.get("/status/health")
    def health() -> Response:
        """200 and true; 503 and each fault by name while something is wrong."""
        faults = parts.health.faults()
        return JsonResponse({"healthy": False, "faults": faults}, 503) if faults else JsonResponse(True)

    @router.get("/status/selfDiscovered/status")
    def self_discovered() -> Response:
        """Whether the process has found its cluster."""
        return JsonResponse({"selfDiscovered": True})

    @router.get("/status/properties")
    def properties() -> Response:
        """The settings in force, secrets masked."""
        return JsonResponse(masked(parts.settings.model_dump(mode="json")))

    @router.get("/metrics")
    def metrics() -> Response:
        """Prometheus text."""
        return Response(generate_latest(parts.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router


def status_body(parts: Parts) -> dict[str, Any]:
    """What Druid's status tells of a process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    memory = {"maxMemory": peak, "totalMemory": peak, "freeMemory": 0, "usedMemory": peak, "directMemory": 0}
    return {
        "version": siltstone.__version__,
        "modules": [],
        "memory": memory,
        "node": parts.node,
        "roles": list(parts.settings.roles),
        "python": platform.python_version(),
    }
