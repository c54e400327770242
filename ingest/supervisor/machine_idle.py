"""When a supervisor rests because its stream is quiet or its range was read, and what wakes it (pure)."""

from __future__ import annotations

from ingest.metadata.records import DesiredState
from ingest.offsets import furthest
from ingest.supervisor.machine_exceptions import ExceptionRules
from ingest.supervisor.messages import DesiredChanged, Event, OffsetsStored, StateLoaded, StreamSeen


class IdleRules(ExceptionRules):
    """A stream that was read to its end and has brought nothing for ``idle_after_ms`` needs no tasks.

    Groups are then released as by a suspension: what was read is published, the tasks end. Whatever moves the
    stream's ends, an offset that a reset leaves behind them, and any act of an operator opens groups again.

    A bounded range that was read to its ends needs none either, at once and for good, unless an offset moves back
    or the ends move on.
    """

    def judge_idle(self, event: Event) -> None:
        """After what may change the answer; costs work in every partition then, and none at other events."""
        if not isinstance(event, StreamSeen | OffsetsStored | StateLoaded | DesiredChanged):
            return
        self.complete = self._is_complete()
        idle_after_ms = self.config.idle_after_ms
        wanted = self.desired is DesiredState.RUNNING and self.stopped is None
        if idle_after_ms is None or not wanted or self.offsets is None or isinstance(event, DesiredChanged):
            self._stir()
        elif isinstance(event, StateLoaded):
            self._sleep_on()
        elif isinstance(event, OffsetsStored):
            if not self._is_caught_up():
                self._stir()
        else:
            self._look(idle_after_ms)

    def _is_complete(self) -> bool:
        bounds = self.config.bounds
        wanted = self.desired is DesiredState.RUNNING and self.stopped is None
        return bounds is not None and wanted and self.offsets is not None and self.reached().reached(bounds)

    @property
    def is_completed(self) -> bool:
        """The bounded range was read, and all of it is published."""
        return self.complete and self.rested

    def _look(self, idle_after_ms: int) -> None:
        caught_up = bool(self.log_ends) and self._is_caught_up()
        if not caught_up or self.log_ends != self.quiet_ends:
            self._stir()
        if caught_up and self.quiet_since_ms is None:
            self.quiet_ends, self.quiet_since_ms = self.log_ends, self.now_ms
        if self.quiet_since_ms is not None and self.now_ms - self.quiet_since_ms >= idle_after_ms:
            self.idle = True

    def _sleep_on(self) -> None:
        """A leader that has not looked at the stream yet finds no open group: it starts none for a stream that
        may have brought nothing since. The first look decides."""
        assert self.offsets is not None
        if self.log_ends or any(group.open is not None for group in self.groups.values()):
            return
        ends = [r.end for group in self.groups.values() for r in group.sequences.values() if r.end is not None]
        self.idle, self.quiet_ends, self.quiet_since_ms = True, furthest(self.offsets.committed, *ends), self.now_ms

    def _is_caught_up(self) -> bool:
        return not any(self.lags().values())

    def _stir(self) -> None:
        self.idle, self.quiet_since_ms = False, None
