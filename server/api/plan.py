"""What posting a spec would do, without posting it; answered by the leader, who knows the present one."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ingest.clock import Clock
from ingest.errors import SpecError, StreamError
from ingest.metadata.store import MetadataStore
from ingest.overlord import planning
from ingest.overlord.overlord import Overlord, Planned
from ingest.spec.formats import parts_read
from server.api import openapi
from server.api.answers import BadRequest, JsonResponse
from server.api.requests import is_number, json_of
from server.config_secrets import masked
from server.sampling import TopicSamples
from server.suppliers import registry_schemas
from server.validating import told

RECORDS_DEFAULT, RECORDS_MAX = 100, 5_000
SHOWN_DEFAULT: Final = 20
READ_MS: Final = 15_000
REGISTRY_MS: Final = 5_000
_RECORDS = (
    "records",
    {"type": "integer", "minimum": 0, "maximum": RECORDS_MAX, "default": RECORDS_DEFAULT},
    "dry run over so many of the topic's last records",
)


def plan_router(overlord: Overlord, store: MetadataStore, samples: TopicSamples, clock: Clock) -> APIRouter:
    """One route; it changes nothing."""
    router = APIRouter(prefix="/siltstone/v1", tags=["supervisors"])
    plans = Plans(overlord, store, samples, clock)

    @router.post("/plan", openapi_extra=openapi.body(openapi.SUPERVISOR_SPEC) | openapi.parameters(_RECORDS))
    async def plan(request: Request) -> Response:
        """What would change field by field, from which offsets, and what the last records would become."""
        records = _number(request, RECORDS_DEFAULT)
        posted = await json_of(request)
        return JsonResponse(await run_in_threadpool(plans.plan, posted, records))

    return router


class Plans:
    """Safe from any thread."""

    def __init__(self, overlord: Overlord, store: MetadataStore, samples: TopicSamples, clock: Clock) -> None:
        self._overlord = overlord
        self._store = store
        self._samples = samples
        self._clock = clock

    def plan(self, posted: Any, records: int) -> dict[str, Any]:
        """The report; ``action`` is create, change, none or refused."""
        try:
            planned = self._overlord.plan(posted)
        except SpecError as error:
            problems = [told(problem) for problem in error.problems]
            return {
                "action": "refused",
                "problems": problems,
                "warnings": list(error.warnings),
                "changes": [],
                "sample": None,
            }
        spec = planned.spec
        report: dict[str, Any] = {
            "supervisor": spec.supervisor,
            "dataSource": spec.datasource,
            "topic": spec.io.stream,
            "action": _action(planned),
            "problems": [] if planned.refusal is None else [{"path": "$", "text": planned.refusal}],
            "warnings": list(planned.warnings),
            "changes": _changes(planned),
            "how": None if _action(planned) in ("none", "refused") else planning.how_it_changes(planned.present, spec),
            "sample": None,
        }
        report |= self._offsets(planned)
        if records:
            report["sample"] = self._sample(planned, records)
        elif report["from"] is not None and report["committed"] is not None:
            report["streamError"] = self._stream_error(planned)
        unreached = report.get("streamError") or (report["sample"] or {}).get("error")
        return report | ({"unreached": unreached} if unreached else {})

    def _stream_error(self, planned: Planned) -> str | None:
        """Why the stream cannot be asked as the spec says, though nothing needs to be read of it."""
        try:
            self._samples.starts(planned.spec.posted)
        except (StreamError, SpecError) as error:
            return str(error)
        return None

    def _offsets(self, planned: Planned) -> dict[str, Any]:
        """Committed offsets, how far was read, and where the new spec would begin."""
        spec = planned.spec
        stored = self._store.offsets(spec.supervisor, spec.io.topic)
        if stored is not None:
            read = planning.positions(self._store.groups(spec.supervisor), stored.committed)
            names = {place.number: place.name for place in self._store.places(spec.supervisor, spec.io.topic)}
            return {name: _named(found, names) for name, found in (("committed", stored.committed), ("from", read))}
        try:
            starts = self._samples.starts(spec.posted)
        except (StreamError, SpecError) as error:
            return {"committed": None, "from": None, "streamError": str(error)}
        before = {} if spec.io.bounds is not None else self._store.read_before(spec.supervisor, spec.io.topic)
        starts |= {source: read.offset for source, read in before.items() if source in starts}
        several = spec.io.topic_pattern is not None
        return {"committed": None, "from": {f"{t}:{p}" if several else str(p): o for (t, p), o in starts.items()}}

    def _sample(self, planned: Planned, records: int) -> dict[str, Any]:
        old, new = planned.present, planned.spec
        if old is not None and old.io.topic != new.io.topic:
            old = None  # its records are others
        parts = parts_read(new.data_schema) | (frozenset() if old is None else parts_read(old.data_schema))
        try:
            polls = self._samples.last(new.posted, records, READ_MS, parts)
            patience = planning.Patience(registry_schemas, self._waiter())
            sample = planning.dry_run(old, new, polls, self._clock.now_ms(), patience, SHOWN_DEFAULT)
        except (StreamError, SpecError) as error:
            return {"error": str(error)}
        return {**sample, "ranges": _ranges(polls), "loses": planning.loses(sample)}

    def _waiter(self) -> Any:
        deadline_ms = self._clock.monotonic_ms() + REGISTRY_MS
        pause = threading.Event()

        def wait(trouble: StreamError) -> None:
            if self._clock.monotonic_ms() > deadline_ms:
                raise trouble
            pause.wait(0.05)

        return wait


def _action(planned: Planned) -> str:
    if planned.refusal is not None:
        return "refused"
    if planned.present is None:
        return "create"
    return "none" if planned.present.posted == planned.spec.posted else "change"


def _changes(planned: Planned) -> list[dict[str, Any]]:
    """Each with its values, secrets masked."""
    if planned.present is None:
        return []
    old, new = planned.present.posted, planned.spec.posted
    shown_old, shown_new = masked(old), masked(new)
    return [
        {
            "path": planning.json_path(found.place),
            "kind": found.kind,
            "old": None if found.kind == "added" else _at(shown_old, found.place),
            "new": None if found.kind == "removed" else _at(shown_new, found.place),
            "concerns": found.concerns,
        }
        for found in planning.differences(old, new)
    ]


def _at(document: Any, place: Sequence[str | int]) -> Any:
    for part in place:
        if not isinstance(document, dict | list):
            return document  # masked above it
        document = document[part]  # type: ignore[index]  # a name in an object, a number in a list
    return document


def _named(offsets: Mapping[int, int], names: Mapping[int, str]) -> dict[str, int]:
    """By partition; of several topics by ``topic:partition``."""
    return {names.get(partition, str(partition)): offset for partition, offset in offsets.items()}


def _ranges(polls: Sequence[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for poll in polls:
        name = str(poll.partition) if poll.source is None else f"{poll.source[0]}:{poll.source[1]}"
        known = found.setdefault(name, [poll.first_offset, poll.end_offset])
        known[1] = poll.end_offset
    return found


def _number(request: Request, default: int) -> int:
    text = request.query_params.get("records")
    if text is None:
        return default
    if not is_number(text) or int(text) > RECORDS_MAX:
        raise BadRequest(f"records: {text!r} is not a whole number from 0 to {RECORDS_MAX}")
    return int(text)
