"""What became of a supervisor: its audit trail and its ledger, with partitions of several topics by their names.

Stored rows count partitions of a topicPattern by number; the names are put in here, where people read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ingest.errors import SpecError
from ingest.metadata.records import AuditRow, LedgerRow
from ingest.metadata.store import MetadataStore
from ingest.overlord.refusals import UnknownSupervisor
from ingest.protocol.places import pattern_of
from ingest.spec import parse_supervisor_spec
from segments.civil import format_iso_ms
from server.api import openapi
from server.api.answers import JsonResponse
from server.api.requests import number

ROWS_MAX = 1_000
_LIMIT = ("limit", {"type": "integer", "minimum": 1, "maximum": ROWS_MAX, "default": 100}, "at most so many")
_SKIP = ("skip", {"type": "integer", "minimum": 0, "default": 0}, "how many of the newest to pass over")
_AFTER = ("after", {"type": "integer", "minimum": 0, "default": 0}, "only ranges published after this table version")
Names = Mapping[str, str]


def trail_router(store: MetadataStore) -> APIRouter:
    """Two routes; any process with a database answers."""
    router = APIRouter(prefix="/siltstone/v1/supervisor", tags=["audit"])

    @router.get("/{supervisor}/audit", openapi_extra=openapi.parameters(_LIMIT, _SKIP))
    def audit(supervisor: str, request: Request) -> Response:
        """What an operator or the service did to its course, newest first: resets, losses, voids, jumps, scalings."""
        limit, skip = number(request, "limit", 100, ROWS_MAX), number(request, "skip", 0, 2**53, 0)
        found = store.audit(supervisor, limit, skip)
        names = _names_now(store, supervisor, bool(found))
        return JsonResponse([audit_json(row, names) for row in found])

    @router.get("/{supervisor}/ledger", openapi_extra=openapi.parameters(_LIMIT, _AFTER))
    def ledger(supervisor: str, request: Request) -> Response:
        """Its published ranges in the order in which they were, with what became of their messages."""
        limit, after = number(request, "limit", 100, ROWS_MAX), number(request, "after", 0, 2**53, 0)
        found = store.ledger(supervisor, after, limit)
        if not found:
            _names_now(store, supervisor, False)
        names = {topic: _names(store, supervisor, topic) for topic in {row.topic for row in found}}
        return JsonResponse([ledger_json(row, names[row.topic]) for row in found])

    return router


def _names(store: MetadataStore, supervisor: str, stream: str) -> Names:
    """By number, as text; empty for a single topic."""
    if pattern_of(stream) is None:
        return {}
    return {str(place.number): place.name for place in store.places(supervisor, stream)}


def _names_now(store: MetadataStore, supervisor: str, is_known: bool) -> Names:
    """Those of the stream that it reads by its newest spec.

    Raises:
        UnknownSupervisor: there is none, and there are no rows (``is_known``) of one either.
    """
    record = store.supervisor(supervisor)
    if record is None:
        if not is_known:
            raise UnknownSupervisor(supervisor, store.supervisors(), "was ever")
        return {}
    try:
        return _names(store, supervisor, parse_supervisor_spec(record.spec)[0].io.topic)
    except SpecError:  # of another version
        return {}


def audit_json(row: AuditRow, names: Names) -> dict[str, Any]:
    """One row; the names that were stored with it go before those of today."""
    detail = dict(row.detail)
    own = {str(number): name for name, number in detail.pop("partitions", {}).items()}
    return {"at": format_iso_ms(row.at_ms), "action": row.action, "detail": _renamed(detail, {**names, **own})}


def _renamed(value: Any, names: Names) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): _renamed(inner, names) for key, inner in value.items()}
    return value


def ledger_json(row: LedgerRow, names: Names) -> dict[str, Any]:
    """One publish: half-open ranges, and the messages of each by what became of them."""

    def name(partition: int) -> str:
        return names.get(str(partition), str(partition))

    return {
        "sequence": row.ref.name,
        "published": format_iso_ms(row.published_ms),
        "version": row.version,
        "stream": pattern_of(row.topic) or row.topic,
        "ranges": {name(p): [row.start[p], row.end[p]] for p in row.start if p in row.end},
        "messages": {name(p): {k: v for k, v in asdict(c).items() if v} for p, c in sorted(row.counts.items())},
        "rowsIn": row.rows_in,
        "rowsStored": row.rows_stored,
        "segments": list(row.segment_ids),
        "quarantine": row.quarantine_path,
        "replayed": row.replayed_path,
        "specVersion": row.spec_version,
    }
