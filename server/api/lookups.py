"""Druid's lookup API: posting, reading and removing lookups by tier, and which query nodes have loaded them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ingest.clock import Clock
from ingest.metadata.records import LookupChange
from ingest.metadata.store import MetadataStore
from query.lookups.spec import InvalidLookup, parse_lookup
from segments.known import there_are
from server.api import openapi
from server.api.answers import BadRequest, JsonResponse, NotFound
from server.api.requests import flag, json_of
from server.config_secrets import MASK, masked
from server.directory import Directory
from server.lookups import TIER

Lookups = dict[str, dict[str, Any]]
DETAILED = ("detailed", openapi.FLAG, "objects instead of names")
DISCOVER = ("discover", openapi.FLAG, "also tiers without lookups that have nodes")


def lookup_router(store: MetadataStore, directory: Directory, clock: Clock) -> APIRouter:
    """All routes; any process that knows the database answers them."""
    router = APIRouter(prefix="/druid/coordinator/v1/lookups", tags=["lookups"])
    _add_reads(router, store)
    _add_changes(router, store, clock)
    _add_status(router, store, directory)
    return router


def _tiers(store: MetadataStore) -> dict[str, Lookups]:
    found = store.lookups(None)
    if found is None:
        raise NotFound("no lookups were ever posted; POST {} to this path once, or a lookup")
    return found.tiers


def _tier(store: MetadataStore, tier: str) -> Lookups:
    tiers = _tiers(store)
    if tier not in tiers:
        raise NotFound(f"no lookup is posted in tier {tier!r}{there_are(tier, tiers)}")
    return tiers[tier]


def _one(lookups: Lookups, tier: str, name: str) -> dict[str, Any]:
    if name not in lookups:
        raise NotFound(f"no lookup {name!r} is posted in tier {tier!r}{there_are(name, lookups)}")
    return lookups[name]


def _add_reads(router: APIRouter, store: MetadataStore) -> None:
    @router.get("/config", openapi_extra=openapi.parameters(DISCOVER))
    def tiers(request: Request) -> Response:
        """Names of tiers."""
        names = {TIER} if flag(request, "discover") else set()
        found = store.lookups(None)
        if found is None and not names:
            _tiers(store)
        return JsonResponse(sorted(names | set(found.tiers if found else ())))

    @router.get("/config/all")
    def everything() -> Response:
        """Every lookup as posted, secrets masked, by tier and name."""
        return JsonResponse(masked(_tiers(store)))

    @router.get("/config/{tier}", openapi_extra=openapi.parameters(DETAILED))
    def tier_lookups(tier: str, request: Request) -> Response:
        """A tier's lookups: names, or with ``detailed`` what was posted."""
        lookups = _tier(store, tier)
        return JsonResponse(masked(lookups) if flag(request, "detailed") else sorted(lookups))

    @router.get("/config/{tier}/{name}")
    def one_lookup(tier: str, name: str) -> Response:
        """A lookup as posted, secrets masked."""
        return JsonResponse(masked(_one(_tier(store, tier), tier, name)))


def _add_changes(router: APIRouter, store: MetadataStore, clock: Clock) -> None:
    async def change(request: Request, put: dict[str, Lookups], removed: tuple[tuple[str, str], ...] = ()) -> None:
        headers = request.headers
        asked = LookupChange(put, removed, headers.get("x-druid-author", ""), headers.get("x-druid-comment", ""))
        await run_in_threadpool(store.change_lookups, asked, clock.now_ms())

    @router.post("/config", openapi_extra=openapi.body(openapi.LOOKUP_TIERS))
    async def post_all(request: Request) -> Response:
        """Creates and replaces lookups, by tier and name; others stay. ``X-Druid-Author`` and ``X-Druid-Comment`` go
        into the audit trail."""
        posted = await json_of(request)
        if not isinstance(posted, dict) or not all(isinstance(lookups, dict) for lookups in posted.values()):
            raise BadRequest(
                'an object is needed: {"__default": {"name": {"version": …, "lookupExtractorFactory": …}}}'
            )
        _check(posted)
        await change(request, posted)
        return JsonResponse(masked(posted), 202)

    @router.post("/config/{tier}/{name}", openapi_extra=openapi.body(openapi.LOOKUP))
    async def post_one(tier: str, name: str, request: Request) -> Response:
        """Creates or replaces a lookup; other content needs a version that sorts after the one that is there."""
        posted = await json_of(request)
        _check({tier: {name: posted}})
        await change(request, {tier: {name: posted}})
        return JsonResponse(masked(posted), 202)

    @router.delete("/config/{tier}/{name}")
    async def delete_one(tier: str, name: str, request: Request) -> Response:
        """Removes a lookup."""
        _one(await run_in_threadpool(_tier, store, tier), tier, name)
        await change(request, {}, ((tier, name),))
        return Response(status_code=202)

    @router.delete("/config/{tier}")
    async def delete_tier(tier: str, request: Request) -> Response:
        """Removes all lookups of a tier."""
        lookups = await run_in_threadpool(_tier, store, tier)
        await change(request, {}, tuple((tier, name) for name in lookups))
        return Response(status_code=202)


def _check(tiers: dict[str, Lookups]) -> None:
    """Raises InvalidLookup with the faults of all of them."""
    problems: list[str] = []
    for lookups in tiers.values():
        for name, container in lookups.items():
            try:
                parse_lookup(name, container)
            except InvalidLookup as invalid:
                problems += invalid.problems
            if masked(container) == container and MASK in str(container):
                problems.append(f"lookup {name!r}: a secret is {MASK}, as an answer masks it; post the secret itself")
    if problems:
        raise InvalidLookup(problems)


def _add_status(router: APIRouter, store: MetadataStore, directory: Directory) -> None:
    def loaded(tier: str, name: str, container: dict[str, Any], detailed: bool) -> dict[str, Any]:
        """Whether every live query node answers with that version."""
        nodes = [node for node in directory.nodes() if "query" in node.roles] if tier == TIER else []
        version = str(container.get("version") or "")
        pending = [node.address for node in nodes if node.detail.get("lookups", {}).get(name) != version]
        answer: dict[str, Any] = {"loaded": bool(nodes) and not pending}
        if not detailed or not pending:
            return answer
        told = {node.address: node.detail.get("lookupTroubles", {}).get(name) or ["", ""] for node in nodes}
        troubles = {address: error for address, (of, error) in told.items() if of == version and error}
        return answer | {"pendingNodes": pending} | ({"troubles": troubles} if troubles else {})

    def tier_status(tier: str, request: Request) -> dict[str, Any]:
        detailed = flag(request, "detailed")
        return {name: loaded(tier, name, one, detailed) for name, one in _tier(store, tier).items()}

    @router.get("/status", openapi_extra=openapi.parameters(DETAILED))
    def status(request: Request) -> Response:
        """By tier and name, whether all query nodes have loaded it; with ``detailed`` which have not."""
        return JsonResponse({tier: tier_status(tier, request) for tier in _tiers(store)})

    @router.get("/status/{tier}", openapi_extra=openapi.parameters(DETAILED))
    def status_of_tier(tier: str, request: Request) -> Response:
        """The same for one tier."""
        return JsonResponse(tier_status(tier, request))

    @router.get("/status/{tier}/{name}", openapi_extra=openapi.parameters(DETAILED))
    def status_of_one(tier: str, name: str, request: Request) -> Response:
        """The same for one lookup."""
        container = _one(_tier(store, tier), tier, name)
        return JsonResponse(loaded(tier, name, container, flag(request, "detailed")))

    @router.get("/nodeStatus")
    def node_status() -> Response:
        """The versions that each query node has loaded, by tier and node."""
        nodes = [node for node in directory.nodes() if "query" in node.roles]
        return JsonResponse({TIER: {node.address: node.detail.get("lookups", {}) for node in nodes}})
