"""The part of the metadata store about several topics in one stream; the promises of ``ingest.metadata.store`` hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ingest.protocol import Place, Source
from ingest.protocol.places import ReadBefore


class PlaceStore(Protocol):
    """What the numbers of partitions stand for."""

    def name_partitions(
        self, generation: int, supervisor: str, stream: str, found: Sequence[Source], ids: Mapping[str, str]
    ) -> tuple[Place, ...]:
        """Numbers for those of ``found`` that have none yet, the next ones in order of topic and partition, and all
        of the stream's places, in one transaction. Where the stream's offsets are stored, ``ids`` of topics that
        it knew nothing of join its topic id."""
        ...

    def places(self, supervisor: str, stream: str) -> tuple[Place, ...]:
        """What the numbers of a stream of several topics stand for; none for a single topic."""
        ...

    def read_before(self, supervisor: str, stream: str) -> dict[Source, ReadBefore]:
        """What the supervisor's other streams have committed, by topic and partition; the furthest of each."""
        ...
