"""Puts a task's questions to the overlord; an answer that did not come is an event as well."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from ingest.clock import Clock
from ingest.errors import AttemptRefused, IngestError, OverlordUnreachable
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord, SequenceRef
from ingest.task.messages import (
    AskCheckpoint,
    AskSequences,
    CheckpointAnswered,
    EndRaised,
    Event,
    RaiseEnd,
    SequencesAnswered,
)
from ingest.task.ports import OverlordActions

log = structlog.get_logger()

RAISE_AGAIN_S: Final = 0.5


Question = AskCheckpoint | AskSequences | RaiseEnd


class Questions:
    """What waits to be asked, in order; safe from any thread. What waits already is not put a second time: an
    overlord that stands still for an hour must not be asked a thousand times over by each task afterwards."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[object, Question] = {}
        self._closed = False

    def put(self, question: Question) -> None:
        """The newer of two checkpoint asks for one sequence stands in the place of the older."""
        with self._changed:
            self._waiting[_subject(question)] = question
            self._changed.notify()

    def take(self) -> Question | None:
        """Waits for one; None when nobody needs answers any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            return None if self._closed else self._waiting.pop(next(iter(self._waiting)))

    def close(self) -> None:
        """Whatever waits is not asked any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _subject(question: Question) -> object:
    match question:
        case AskCheckpoint(ask):
            return AskCheckpoint, ask.ref
        case AskSequences(number):
            return AskSequences, number
        case RaiseEnd(ref):
            return RaiseEnd, ref


class Asking:
    """For the thread that may wait for the overlord. ``ended`` says that nobody needs answers any more."""

    def __init__(self, token: str, actions: OverlordActions, clock: Clock, ended: Callable[[], bool]) -> None:
        self._token = token
        self._actions = actions
        self._clock = clock
        self._ended = ended
        self._sleep = threading.Event()

    def ask(self, command: Question) -> Event:
        """The answer, or that there is none.

        Raises:
            AttemptRefused: the attempt is over.
        """
        actions = self._actions
        try:
            match command:
                case AskCheckpoint(ask):
                    return CheckpointAnswered(self._now(), ask.ref, actions.ask_checkpoint(ask))
                case AskSequences(number):
                    answer = actions.sequences(self._token, number)
                    return SequencesAnswered(self._now(), answer.sequences, answer.specs)
                case RaiseEnd(ref, end):
                    return EndRaised(self._now(), ref, self._raise_end(ref, end))
        except AttemptRefused:
            raise
        except IngestError as error:
            log.info("question not answered", question=type(command).__name__, error=str(error))
        except Exception:  # a thread that dies would leave every later question unanswered
            log.exception("question broke", question=type(command).__name__)
        match command:
            case AskCheckpoint(ask):
                return CheckpointAnswered(self._now(), ask.ref, None)
            case AskSequences():
                return SequencesAnswered(self._now(), None)
            case RaiseEnd(ref, _):
                return EndRaised(self._now(), ref, None)

    def _raise_end(self, ref: SequenceRef, end: OffsetMap) -> SequenceRecord | None:
        """Asks until it is answered: a silence taken for a no would give up rows that nobody else has."""
        while True:
            try:
                return self._actions.raise_end(self._token, ref, end)
            except OverlordUnreachable:
                if self._ended():
                    raise
                self._sleep.wait(RAISE_AGAIN_S)

    def _now(self) -> int:
        return self._clock.monotonic_ms()
