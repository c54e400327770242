"""What a Kafka cluster says of itself while one of its calls goes unanswered, in words for people.

"No broker answers" sends an operator to the network; a broker that its controller has fenced, a leader that is missing
or one call that is too slow send him elsewhere. So the cluster is asked for its metadata beside whoever reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from ingest.clock import Clock
from ingest.errors import StreamError

LOOK_S: Final = 2.0
"""What a broker is given to answer with its metadata."""
PATIENCE_S: Final = 0.3
"""What who reads waits for that: a broker that is well takes milliseconds. Later answers are told the next time."""
FRESH_MS: Final = 30_000
"""What was seen longer ago is of an earlier trouble."""


class ClusterLook:
    """Asks when it is asked, once at a time. ``ask`` brings the client's metadata within so many seconds, or raises
    StreamError."""

    def __init__(self, ask: Callable[[float], Any], clock: Clock, patience_s: float = PATIENCE_S) -> None:
        self._ask = ask
        self._clock = clock
        self._patience_s = patience_s
        self._looking: threading.Thread | None = None
        self._seen: tuple[int, Any] | None = None

    def told(self, topic: str) -> str | None:
        """What is odd about the cluster as it was seen just now; None when nobody has answered, nothing ("") while
        that is not known yet. For one thread at a time; waits no longer than its patience."""
        if self._looking is None or not self._looking.is_alive():
            self._looking = threading.Thread(target=self._look, name="kafka-look", daemon=True)
            self._looking.start()
        self._looking.join(self._patience_s)
        seen = self._seen
        if seen is not None and self._clock.monotonic_ms() - seen[0] <= FRESH_MS:
            return in_words(seen[1], topic)
        return "" if self._looking.is_alive() else None

    def _look(self) -> None:
        try:
            found = self._ask(LOOK_S)
        except StreamError:
            self._seen = None
        else:
            self._seen = (self._clock.monotonic_ms(), found)


def in_words(metadata: Any, topic: str) -> str:
    """``metadata`` is the client's ``ClusterMetadata``; pure."""
    brokers, controller = metadata.brokers, metadata.controller_id
    if not brokers:
        return (
            "the broker that answers knows of no broker that is alive: its controller has fenced it, as one that was "
            "too slow for its heartbeats is, or it is just starting. What is written to it may still arrive. Its log "
            "says which; take load off it, or give it more processor and a faster disk"
        )
    if controller not in brokers:
        return (
            f"the {_counted(len(brokers), 'broker')} it names have no controller: one is being elected, or their "
            "quorum is lost. What is written may still arrive; look at the controllers' logs"
        )
    partitions = metadata.topics[topic].partitions if topic in metadata.topics else {}
    headless = sorted(number for number, each in partitions.items() if each.leader < 0)
    if headless:
        which = ", ".join(map(str, headless[:5])) + (", ..." if len(headless) > 5 else "")
        return (
            f"{len(headless)} of the {_counted(len(partitions), 'partition')} of {topic!r} have no leader ({which}): "
            "the brokers that hold them are down or fenced; start them, or look at their logs"
        )
    return (
        f"it names {_counted(len(brokers), 'broker')} with controller {controller} at {brokers[controller].host}:"
        f"{brokers[controller].port}, and all leaders: a broker that is too busy for this call, or a network that "
        "lets some addresses pass and others not; look at the brokers' load and logs, and whether that address can "
        "be reached from here"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
