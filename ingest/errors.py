"""The operating errors of ingestion.

::

    ServiceError (segments.errors)
    └── IngestError
        ├── SpecError              a supervisor spec is wrong; carries every problem at once
        ├── StreamError            the stream (Kafka) refused or is away; see ingest.stream.supplier
        ├── StoreUnreachable       the metadata database did not answer; the effect may be unknown
        │   └── StoreWentBack      the database was replaced by an older copy; nothing is read or written
        ├── StoreSchemaError       the database's schema is newer or older than this program
        ├── LeadershipLost         a newer overlord leads; nothing was written
        ├── AttemptRefused         a task attempt's token is unknown, ended or fenced
        ├── OverlordUnreachable    a task or worker could not reach any overlord
        │   └── OtherDatabase      who answered belongs to another installation; nothing was asked of it
        ├── TaskUnreachable        the overlord could not reach a task
        ├── CommandRefused         a task was reached and does not obey a command
        └── RequestRefused         the overlord was reached and does not grant a request

Expected results of the protocol (already published, too early, conflict, ...) are values in
``ingest.protocol``, never exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from segments.errors import ServiceError

_SHOWN_CHARS = 500


class IngestError(ServiceError):
    """Root of the operating errors raised inside ``ingest``."""


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One thing wrong with a spec: JSON path, the value found, the rule it breaks and the cure."""

    path: str
    value: object
    rule: str
    cure: str

    def __str__(self) -> str:
        return f"{self.path}: {_cut(self.rule)} (found {_cut(repr(self.value))}); {self.cure}"


def _cut(text: str) -> str:
    """A huge value must not drown its error."""
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


class SpecError(IngestError):
    """A supervisor spec cannot be accepted; ``problems`` lists every fault found in one pass, ``warnings`` what else
    is worth saying of it."""

    def __init__(self, problems: list[SpecProblem], warnings: Sequence[str] = ()) -> None:
        assert problems
        self.problems = problems
        self.warnings = tuple(warnings)
        super().__init__("; ".join(str(problem) for problem in problems))


class StreamError(IngestError):
    """The stream refused a request or is out of reach."""


class StoreUnreachable(IngestError):
    """The metadata database did not answer.

    ``effect_known_absent`` on the instance is True only when the connection failed before the
    transaction's commit was sent.
    """

    retryable = True

    def __init__(self, message: str, *, effect_known_absent: bool) -> None:
        self.effect_known_absent = effect_known_absent
        super().__init__(message)


class StoreWentBack(StoreUnreachable):
    """The database is older than what was read from it before: a copy that lost the last commits, or another.

    To everybody but people it is a database that does not answer: nothing is read, written or given up
    until the newer one is back.
    """

    def __init__(self, where: str, missing: str) -> None:
        message = (
            f"metadata database {where} is older than it was: {missing}; it was replaced by an older copy, or by "
            "another database. Nothing is read from it or written to it until the newer one is back; when that is "
            "lost, see `siltstone accept-database` in docs/operations.md"
        )
        super().__init__(message, effect_known_absent=True)


class StoreSchemaError(IngestError):
    """The database's schema revision is not the one this program was built for."""


class LeadershipLost(IngestError):
    """A newer leader generation exists; the transaction wrote nothing."""

    effect_known_absent = True


class AttemptRefused(IngestError):
    """The attempt's token is not one of a live attempt; the caller must stop by itself."""

    effect_known_absent = True


class OverlordUnreachable(IngestError):
    """No overlord answered; whether the request took effect is unknown."""

    retryable = True
    effect_known_absent = False


class OtherDatabase(OverlordUnreachable):
    """An overlord answered that works on another metadata database, so it is not the caller's: as if nobody had."""

    effect_known_absent = True


class TaskUnreachable(IngestError):
    """A task did not answer at its advertised address; whether it acted is unknown."""

    retryable = True
    effect_known_absent = False


class CommandRefused(IngestError):
    """A task was reached and does not obey: the command is outdated or does not fit its state."""

    effect_known_absent = True


class RequestRefused(IngestError):
    """The overlord was reached and does not grant the request: the caller's view is outdated."""

    effect_known_absent = True
