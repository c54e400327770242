"""Has a supervisor's stream looked at as its spec says, and the partitions of several topics numbered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ingest.offsets import OffsetMap
from ingest.protocol import Place, Source
from ingest.protocol.places import sources
from ingest.spec import SupervisorSpec
from ingest.supervisor.discovery import StreamDiscovery
from ingest.supervisor.messages import StreamFailed, StreamSeen
from ingest.supervisor.ports import RunnerPorts


def watch(
    spec: SupervisorSpec,
    generation: int,
    ports: RunnerPorts,
    post: Callable[[StreamSeen | StreamFailed], None],
    read: Callable[[], OffsetMap],
) -> StreamDiscovery:
    """Not started yet. ``post`` gets what was seen, with the stream's name and places; ``read``: how far tasks are."""
    stream = spec.io.topic

    def name(found: Sequence[Source], ids: Mapping[str, str]) -> Sequence[Place]:
        places = ports.store.name_partitions(generation, spec.supervisor, stream, found, ids)
        discovery.places = {place.number: place for place in places}
        return places

    def carry_on(starts: OffsetMap, topic_id: str | None) -> OffsetMap:
        """Where the supervisor has read a partition under another topic or pattern, it goes on there."""
        if not starts or spec.io.bounds is not None:
            return starts
        before = ports.store.read_before(spec.supervisor, stream)
        here = sources(stream, topic_id, starts, discovery.places.values())
        return starts.with_({p: before[s].offset for p, s, id_ in here if s in before and before[s].of(id_)})

    def tell(event: StreamSeen | StreamFailed) -> None:
        post(replace(event, topic=stream, places=discovery.places) if isinstance(event, StreamSeen) else event)

    discovery = StreamDiscovery(
        spec.supervisor,
        lambda: ports.suppliers(spec.posted, name),
        OffsetMap(spec.io.bounds.starts) if spec.io.bounds is not None else spec.io.use_earliest_offset,
        lambda: ports.store.offsets(spec.supervisor, stream),
        tell,
        ports.clock,
    )
    discovery.carry_on = carry_on
    if spec.io.time_lag:
        discovery.measure_time_lags(spec.tuning.offset_fetch_period_ms, read)
    return discovery
