"""Druid's older list of tables and their columns under ``/druid/v2/datasources``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from query.source import SegmentCatalog
from segments.schema import ColumnSpec
from server.api.answers import JsonResponse, NotFound


def datasources_router(catalog: SegmentCatalog) -> APIRouter:
    """All routes."""
    router = APIRouter(prefix="/druid/v2/datasources", tags=["queries"])

    def columns(datasource: str, kind: str) -> list[str]:
        found = [column.name for column in table_columns(catalog, datasource) if column.kind == kind]
        return sorted(found)

    @router.get("")
    def names() -> Response:
        """Names of tables."""
        return JsonResponse(sorted(catalog.versions()))

    @router.get("/{datasource}")
    def one(datasource: str) -> Response:
        """Dimensions and metrics of a table."""
        return JsonResponse({"dimensions": columns(datasource, "dimension"), "metrics": columns(datasource, "metric")})

    @router.get("/{datasource}/dimensions")
    def dimensions(datasource: str) -> Response:
        """Names of a table's dimensions."""
        return JsonResponse(columns(datasource, "dimension"))

    @router.get("/{datasource}/metrics")
    def metrics(datasource: str) -> Response:
        """Names of a table's metrics."""
        return JsonResponse(columns(datasource, "metric"))

    return router


def table_columns(catalog: SegmentCatalog, datasource: str) -> list[ColumnSpec]:
    """Declared columns and those that visible segments have; the declaration's kind wins."""
    snapshot = catalog.snapshot(datasource, None)
    if snapshot is None:
        raise NotFound(f"no table is named {datasource!r}")
    found: dict[str, ColumnSpec] = {}
    for schema in (snapshot.schema, *(segment.schema for segment in snapshot.segments)):
        for column in schema.columns:
            found.setdefault(column.name, column)
    return list(found.values())
