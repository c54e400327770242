"""The HTTP front of one process: the routes of its roles, and everything else sent to who can answer it."""

from __future__ import annotations

import secrets
import time
from typing import Final

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import siltstone
from ingest.overlord.replays import ReplayPorts, Replays
from query.sql.frame import FUNCTIONS
from server.api.answers import Endpoint, install_error_answers
from server.api.avatica import avatica_router
from server.api.cluster import cluster_router
from server.api.coordinator import coordinator_router
from server.api.datasources import datasources_router
from server.api.described import describe
from server.api.internal import internal_routes
from server.api.lookups import lookup_router
from server.api.native import QueryServices, native_endpoint, native_router
from server.api.plan import plan_router
from server.api.quarantine import quarantine_router
from server.api.replay import replay_router
from server.api.sampler import sampler_router
from server.api.sql import sql_endpoint, sql_router
from server.api.status import status_router
from server.api.supervisors import supervisor_router
from server.api.tasks import task_router
from server.api.trail import trail_router
from server.api.verify import verify_router
from server.api.worker import worker_router
from server.avatica.service import AvaticaService
from server.belonging import Belonging
from server.direct import Direct
from server.forwarding import READ_S, Forwarding
from server.metrics import Metrics
from server.parts import Parts
from server.sampling import TopicSamples
from server.suppliers import registry_schemas
from server.targets import ProcessTargets
from server.task_logs import TaskLogs

_CLOSED: Final = "the handler is closed"
ANSWER_S: Final = 10.0
"""What a query node takes beyond a query's own time to say that it was over."""


def build_app(parts: Parts) -> ASGIApp:
    """The application; every service in ``parts`` must be ready to be asked."""
    database = "" if parts.store is None else parts.store.database_id()
    app = FastAPI(title="Siltstone", version=siltstone.__version__, docs_url=None, redoc_url=None)
    describe(app)
    install_error_answers(app)
    app.include_router(status_router(parts))
    if parts.overlord is not None:
        app.router.routes.extend(internal_routes(parts.overlord, parts.secret))
    if parts.overlord is not None and parts.store is not None:
        logs = TaskLogs(parts)
        app.include_router(supervisor_router(parts.overlord, parts.store))
        replays = ReplayPorts(
            parts.store, parts.storage, lambda: secrets.token_hex(24), parts.clock, parts.scratch, registry_schemas
        )
        app.include_router(replay_router(parts.overlord, Replays(replays)))
        samples = TopicSamples(parts.clock)
        app.include_router(sampler_router(samples, parts.clock))
        app.include_router(plan_router(parts.overlord, parts.store, samples, parts.clock))
        app.include_router(task_router(parts.overlord, parts.store, logs.read))
    if parts.store is not None:
        app.include_router(coordinator_router(parts.store, parts.overlord))
        app.include_router(cluster_router(parts, parts.store))
        app.include_router(lookup_router(parts.store, parts.directory, parts.clock))
        app.include_router(trail_router(parts.store))
        app.include_router(verify_router(parts.store, parts.storage, parts.scratch))
        app.include_router(quarantine_router(parts.store, parts.storage, parts.scratch))
    if parts.middle_manager is not None:
        app.include_router(worker_router(parts.middle_manager, parts.address))
    endpoints = {} if parts.queries is None else _include_queries(app, parts.queries)
    if parts.queries is not None and parts.jdbc is not None:
        functions = sorted(FUNCTIONS)
        service = AvaticaService(parts.queries, parts.jdbc, parts.address, siltstone.__version__, functions)
        app.include_router(avatica_router(service))
    if parts.catalog is not None:
        app.include_router(datasources_router(parts.catalog))
    inner: ASGIApp = Direct(app, {path + end: run for path, run in endpoints.items() for end in ("", "/")})
    if "api" in parts.settings.roles:
        longest_s = parts.settings.query.timeout_ms / 1_000
        inner = Forwarding(inner, ProcessTargets(parts), max(READ_S, longest_s + ANSWER_S), database)
    return Belonging(Measured(inner, parts.metrics), database)


def _include_queries(app: FastAPI, queries: QueryServices) -> dict[str, Endpoint]:
    """The routes of queries; what answers them, by path."""
    of_sql, of_native = sql_endpoint(queries), native_endpoint(queries)
    app.include_router(sql_router(queries, of_sql))
    app.include_router(native_router(queries, of_native))
    return {"/druid/v2/sql": of_sql, "/druid/v2": of_native}


class Measured:
    """Counts requests and the time to their first byte."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/internal/"):
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()

        async def measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.labels(scope["method"], str(message["status"])).inc()
                self._metrics.request_seconds.labels(area_of(scope["path"])).observe(time.perf_counter() - begun)
            try:
                await send(message)
            except RuntimeError as error:
                if _CLOSED not in str(error):
                    raise
                # The server has hung up on a client whose bytes were no HTTP from some point on: nobody listens.

        await self._app(scope, receive, measured)


def area_of(path: str) -> str:
    """A path's area for metrics; a fixed set, so that no path of a client makes a new series."""
    for prefix, area in (
        ("/druid/v2", "query"),
        ("/druid/indexer/v1/supervisor", "supervisor"),
        ("/druid/indexer", "task"),
        ("/druid/coordinator", "coordinator"),
        ("/druid/worker", "worker"),
        ("/siltstone", "audit"),
    ):
        if path.startswith(prefix):
            return area
    return "status"
