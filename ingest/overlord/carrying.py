"""Offsets belong to a topic's partition: what a supervisor's new topic or pattern must not read again."""

from __future__ import annotations

from ingest.metadata.records import SupervisorRecord
from ingest.metadata.store import MetadataStore
from ingest.offsets import OffsetMap
from ingest.protocol.places import sources
from ingest.spec import SupervisorSpec, parse_supervisor_spec


def read_further(store: MetadataStore, present: SupervisorRecord | None, spec: SupervisorSpec) -> OffsetMap:
    """Partitions of a stream that ``spec`` goes back to, of which another stream of the supervisor has committed more:
    where that stands. Nothing while the stream stays the same: then only people move its offsets."""
    name, stream = spec.supervisor, spec.io.topic
    stored = store.offsets(name, stream)
    if present is None or stored is None or spec.io.bounds is not None:
        return OffsetMap()
    if parse_supervisor_spec(present.spec)[0].io.topic == stream:
        return OffsetMap()
    before = store.read_before(name, stream)
    here = sources(stream, stored.topic_id, stored.committed, store.places(name, stream))
    return OffsetMap(
        (p, before[s].offset)
        for p, s, id_ in here
        if s in before and before[s].of(id_) and before[s].offset > stored.committed[p]
    )
