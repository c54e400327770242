"""What an overlord refuses by name: it does not lead, or it knows no such thing."""

from __future__ import annotations

from collections.abc import Iterable

from ingest.errors import IngestError, OverlordUnreachable
from ingest.metadata.records import DesiredState, SupervisorRecord
from segments.known import there_are


class NotLeading(OverlordUnreachable):
    """This overlord does not lead; ``leader`` is the address of the one that does, if known."""

    effect_known_absent = True

    def __init__(self, leader: str | None) -> None:
        self.leader = leader
        super().__init__(f"this overlord does not lead; {leader or 'nobody'} does")


class UnknownSupervisor(IngestError):
    """No supervisor of that name exists; ``known`` are those that do."""

    effect_known_absent = True

    def __init__(self, name: str, known: Iterable[SupervisorRecord], ever: str = "") -> None:
        names = [each.supervisor for each in known if each.desired is not DesiredState.TERMINATED]
        super().__init__(f"no supervisor {ever or 'is'} named {name!r}{there_are(name, names)}")


class UnknownPartition(IngestError):
    """The supervisor reads no such partition: an offset for it would be one that no broker knows."""

    effect_known_absent = True

    def __init__(self, supervisor: str, moves: Iterable[int], known: Iterable[int]) -> None:
        unknown = ", ".join(str(each) for each in sorted(set(moves) - set(known)))
        read = ", ".join(map(str, sorted(known)))
        super().__init__(f"supervisor {supervisor!r} reads no partition {unknown}; it reads {read or 'none yet'}")
