"""Offsets belong to a topic's partition: what a supervisor's new topic or pattern must not read again."""

from __future__ import annotations

from ingest.metadata.records import SupervisorRecord
from ingest.metadata.store import MetadataStore
from ingest.offsets import OffsetMap, furthest
from ingest.protocol.places import sources
from ingest.spec import SupervisorSpec, parse_supervisor_spec


def gone_back_to(store: MetadataStore, present: SupervisorRecord | None, spec: SupervisorSpec) -> OffsetMap:
    """Where reading goes on in a stream that ``spec`` goes back to: as it was committed, or where another stream of the
    supervisor has committed the same partition further. Nothing while the stream stays the same: then only people move
    its offsets.

    All partitions are named: the reset to there makes a new version of the table, for its queries go by other offsets.
    """
    name, stream = spec.supervisor, spec.io.topic
    stored = store.offsets(name, stream)
    if present is None or stored is None:
        return OffsetMap()
    if parse_supervisor_spec(present.spec)[0].io.topic == stream:
        return OffsetMap()
    before = {} if spec.io.bounds is not None else store.read_before(name, stream)
    here = sources(stream, stored.topic_id, stored.committed, store.places(name, stream))
    read = {p: before[s].offset for p, s, id_ in here if s in before and before[s].of(id_)}
    return furthest(stored.committed, read)
