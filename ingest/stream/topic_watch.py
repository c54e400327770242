"""Whether a topic is still the one that is being read: its id, asked for beside the reading (decision 5)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from ingest.clock import Clock
from ingest.stream.supplier import BrokerUnreachable, TopicRecreated

# How often the id is looked at while the topic is read, and how old its last proof may be when records are taken.
WATCH_MS = 1_000
PROOF_MS = 3_000


class TopicWatch:
    """One incarnation of a topic: the one of ``topic_id``, else the one it finds first. For the reader's thread.

    ``ask`` sends the question, ``answer`` reads what came of it (an id, or None from a broker without ids).
    """

    def __init__(
        self,
        topic: str,
        topic_id: str | None,
        ask: Callable[[], Future[Any]],
        answer: Callable[[Future[Any]], str | None],
        clock: Clock,
    ) -> None:
        self._topic = topic
        self._topic_id = topic_id
        self._ask = ask
        self._answer = answer
        self._clock = clock
        self._asked: Future[Any] | None = None
        self._asked_ms = 0
        self._looked_ms = 0
        self._proved_ms: int | None = None  # when the question was sent that last proved the id
        self._recreated: TopicRecreated | None = None
        self._unanswered: BrokerUnreachable | None = None  # why nothing is proved, until an answer comes

    def proves(self, timeout_s: float) -> bool:
        """Before every poll: whether records may be taken.

        The client itself reads a re-created topic on as if it were the old one. An answer is waited for only
        where the last one is old: before the first record, after a process stood still or a broker was away,
        since a new topic may have grown past the position by then. False: it did not come in that time.

        Raises:
            TopicRecreated: the id is not the one it began with; then at every call.
            TopicMissing: the topic is gone.
            BrokerUnreachable: no answer, where one had to be waited for; then at every call until one comes.
        """
        if self._recreated is not None:
            raise self._recreated
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms >= PROOF_MS:
            self._asked = None  # an answer from before a standstill proves nothing about what comes after it
        self._looked_ms = now_ms
        old = self._proved_ms is None or now_ms - self._proved_ms >= PROOF_MS
        stale = self._topic_id is not None and old  # nothing is known that could have become another
        if self._asked is None and (stale or now_ms - self._asked_ms >= WATCH_MS):
            self._asked, self._asked_ms = self._ask(), now_ms
        if stale and self._asked is not None:
            wait([self._asked], timeout_s)
        if self._asked is None or not self._asked.done():
            if stale and self._unanswered is not None:
                # Waiting again is no news: who reads would take it for the end of the trouble.
                raise self._unanswered
            return not stale
        asked, self._asked = self._asked, None
        return self._judge(asked, stale)

    def _judge(self, asked: Future[Any], stale: bool) -> bool:
        try:
            found = self._answer(asked)
        except BrokerUnreachable as error:
            if stale:
                self._unanswered = error
                raise
            return True  # the reader itself will notice
        self._unanswered = None
        if self._topic_id is None:
            self._topic_id = found
        elif found != self._topic_id:
            self._recreated = TopicRecreated(self._topic, self._topic_id, str(found))
            raise self._recreated
        self._proved_ms = self._asked_ms
        return True

    def close(self) -> None:
        self._asked = None
