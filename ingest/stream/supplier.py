"""The stream port: explicit assignment, columnar polls, positions that pass over what is invisible.

Offsets are next-to-read and ranges half-open. Nothing here moves an offset by policy: a position
changes by `assign` and by reading on, never by a reset, a commit or a rebalance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ingest.errors import StreamError

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class OpenDocuments:
    """Which documents of a message have not become rows yet: their positions among the ``of`` that it holds."""

    positions: tuple[int, ...]
    of: int


@dataclass(frozen=True, slots=True)
class Poll:
    """What one poll read of one partition, in columns of equal length, in offset order.

    The poll covers the offsets ``[first_offset, end_offset)``: records at ``offsets`` and nothing
    visible between them (transaction markers, aborted records, compaction holes). ``end_offset`` is
    the next offset to read. A poll without records says that only invisible offsets were passed.

    ``offsets`` is strictly ascending; it is a ``range`` where no offset is missing. A value of
    ``None`` is a tombstone. ``timestamps_ms`` are Kafka's, ms UTC, -1 where the record has none;
    the column is empty when the supplier was built without timestamps. ``keys`` and ``headers``
    are None unless the supplier was built with them. ``source`` is the topic and its partition where
    ``partition`` is a number that stands for them.

    ``documents`` is None but in a replay of the quarantine: for each message which of its documents are to
    be read, None for all of them.
    """

    partition: int
    first_offset: int
    end_offset: int
    offsets: Sequence[int]
    values: list[bytes | None]
    timestamps_ms: list[int]
    keys: list[bytes | None] | None = None
    headers: list[Headers] | None = None
    source: tuple[str, int] | None = None
    documents: list[OpenDocuments | None] | None = None

    def __len__(self) -> int:
        return len(self.values)


class RecordSupplier(Protocol):
    """One topic's records and offsets. Every method is for one thread, the reader's.

    Every call may raise the errors of this module; none of them moves a position, and a supplier
    can be used on after any of them.
    """

    def assign(self, positions: Mapping[int, int]) -> None:
        """Reads exactly these partitions from these offsets on, replacing what was assigned.

        Nothing is paused afterwards. Whether an offset exists is seen by the next polls.
        """

    def pause(self, partitions: Collection[int]) -> None:
        """Stops reading these assigned partitions; their positions stay."""

    def resume(self, partitions: Collection[int]) -> None:
        """Goes on reading paused partitions where they stood."""

    def poll(self, max_records: int, timeout_ms: int) -> list[Poll]:
        """Returns records as soon as there are any, at most ``max_records`` (> 0), one `Poll` each partition.

        Waits up to ``timeout_ms`` (0 does not wait) for the first record. Caught up it returns what
        there is, without lingering; behind it gathers more for a few milliseconds,
        but no more than some tens of megabytes.

        Raises:
            OffsetOutOfRange: once for each partition whose position does not exist; that partition
                stands still until it is assigned anew, the others are read on by the next poll.
            TopicRecreated: from now on at every poll. It is noticed within about a second, so that
                records of the new incarnation may have been read by then: before a range is
                published, `topic_id` asked after its last poll proves that none of them is in it.
            TopicMissing, AuthenticationRefused: the caller decides whether to go on polling.
            BrokerUnreachable: nothing could be read; polling on waits for the broker.
        """

    def positions(self) -> dict[int, int]:
        """The next offset of every assigned partition.

        At the end of what is visible it stands after the last marker, so that the distance to
        `last_stable` becomes 0 there.
        """

    def earliest(self, partitions: Collection[int]) -> dict[int, int]:
        """The first offset that the log still has, for each partition."""

    def latest(self, partitions: Collection[int]) -> dict[int, int]:
        """The end of the log, open transactions included, for each partition."""

    def last_stable(self, partitions: Collection[int]) -> dict[int, int]:
        """The first offset of the earliest open transaction, else the end of the log."""

    def partitions(self) -> list[int]:
        """The topic's partitions, ascending."""

    def topic_id(self) -> str | None:
        """The id of the topic's present incarnation; None where the broker has no topic ids."""

    def close(self) -> None:
        """Lets go of connections and threads; safe to repeat."""


class TopicMissing(StreamError):
    """The topic or one of the named partitions does not exist (any more)."""

    retryable = True

    def __init__(self, topic: str, detail: str = "") -> None:
        self.topic = topic
        extra = f" ({detail})" if detail else ""
        super().__init__(
            f"topic {topic!r} does not exist on the broker{extra}; create it or correct spec.ioConfig.topic"
        )


class TopicRecreated(StreamError):
    """The topic was deleted and made again: its offsets mean other records now."""

    def __init__(self, topic: str, expected: str, found: str) -> None:
        self.topic = topic
        self.expected = expected
        self.found = found
        super().__init__(
            f"topic {topic!r} was deleted and created again (id {found}, was {expected}): the stored offsets belong "
            "to the old one; reset the supervisor on purpose to read the new one, nothing was skipped"
        )


class BrokerUnreachable(StreamError):
    """No broker answered in time."""

    retryable = True

    def __init__(self, bootstrap: str, detail: str) -> None:
        self.bootstrap = bootstrap
        super().__init__(
            f"no Kafka broker answers at {bootstrap} ({detail}); start it, see whether it can be "
            "reached from here, or correct spec.ioConfig.consumerProperties['bootstrap.servers']"
        )


class CallUnanswered(BrokerUnreachable):
    """The call that was needed has no answer, and others have: ``cluster`` says what the brokers say of themselves.
    Empty: whether others have one is not known yet."""

    def __init__(self, bootstrap: str, call: str, detail: str, cluster: str) -> None:
        self.bootstrap = bootstrap
        found = f"answers, but not {call} ({detail}): {cluster}"
        if not cluster:
            found = f"has not answered {call} ({detail}); whether it answers anything else is being looked at"
        # Not of a broker that is away, and not for its class to word.
        StreamError.__init__(
            self,
            f"Kafka at {bootstrap} {found}. Reading waits where it is and goes on by itself; nothing is lost or "
            "skipped",
        )


class AuthenticationRefused(StreamError):
    """The broker refused the credentials, or the right to read this topic."""

    retryable = True

    def __init__(self, topic: str, bootstrap: str, detail: str) -> None:
        self.topic = topic
        super().__init__(
            f"the broker at {bootstrap} refused access to topic {topic!r} ({detail}); correct the sasl.* and ssl.* "
            "entries of spec.ioConfig.consumerProperties or the broker's ACLs"
        )


class OffsetOutOfRange(StreamError):
    """A position lies below the first or above the last offset of the log.

    ``earliest`` and ``latest`` are -1 where they could not be learnt.
    """

    def __init__(self, topic: str, partition: int, asked: int, earliest: int, latest: int) -> None:
        self.topic = topic
        self.partition = partition
        self.asked = asked
        self.earliest = earliest
        self.latest = latest
        super().__init__(
            f"offset {asked} of topic {topic!r} partition {partition} does not exist: the log holds "
            f"[{earliest}, {latest}); reset the partition's offset on purpose, nothing was skipped"
        )


class StreamRefused(StreamError):
    """Any other refusal of the client or the broker, with its name."""

    retryable = True

    def __init__(self, topic: str, detail: str) -> None:
        self.topic = topic
        super().__init__(f"reading topic {topic!r} failed: {detail}")
