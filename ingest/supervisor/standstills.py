"""Which tasks do not read at present, why, and since when: a status must say why counts stand (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingest.protocol import TaskHeartbeat
from segments.civil import format_iso_ms

LASTING_MS = 5_000
"""A broker that restarts is back sooner, and a checkpoint is over."""
CANNOT_READ, PAUSED, BACK_PRESSURE = "cannot_read", "paused", "back_pressure"
"""Words of a task's beat while it does not read; ``detail`` says of the first why."""


@dataclass(frozen=True, slots=True)
class Standstill:
    """``since_ms`` is monotonic. ``is_ill``: an operator should look, not only know."""

    since_ms: int
    kind: str
    why: str

    @property
    def is_ill(self) -> bool:
        return self.kind == CANNOT_READ


@dataclass(slots=True)
class Standstills:
    """Of one supervisor, by token. Its own look at the stream may be well meanwhile. Times are monotonic."""

    found: dict[str, Standstill] = field(default_factory=dict)

    def heard(self, beat: TaskHeartbeat, now_ms: int) -> None:
        """A task's beat. A reason that changes is the same standstill, another kind is another one."""
        why = _why(beat)
        if why is None:
            self.gone(beat.token)
            return
        before = self.found.get(beat.token)
        since_ms = before.since_ms if before is not None and before.kind == beat.status else now_ms
        self.found[beat.token] = Standstill(since_ms, beat.status, why)

    def gone(self, token: str) -> None:
        self.found.pop(token, None)

    def lasting(self, now_ms: int) -> list[Standstill]:
        """Those of which people should know, the oldest first."""
        found = [each for each in self.found.values() if now_ms - each.since_ms >= LASTING_MS]
        return sorted(found, key=lambda each: each.since_ms)


def told(lasting: list[Standstill], now_ms: int, wall_ms: int) -> tuple[str, ...]:
    """A line for each reason, with how many tasks it holds up and since when by the wall clock."""
    tasks: dict[str, list[Standstill]] = {}
    for each in lasting:
        tasks.setdefault(each.why, []).append(each)
    return tuple(
        f"{'a task does' if len(held) == 1 else f'{len(held)} tasks do'} not read since "
        f"{format_iso_ms(wall_ms - (now_ms - held[0].since_ms))}: {why}"
        for why, held in tasks.items()
    )


def _why(beat: TaskHeartbeat) -> str | None:
    """In words; None while it reads, or ends."""
    if beat.status == CANNOT_READ:
        return beat.detail or "it does not say why; its log does"
    if beat.status == PAUSED:
        return (
            "it is paused for a checkpoint, whose saved end it waits to be told; after its lease it reads on by "
            "itself. If this lasts, the overlord or the database is away or busy: see /status/health"
            + (f". Besides: {beat.detail}" if beat.detail else "")
        )
    if beat.status == BACK_PRESSURE:
        bound = "its rows have reached worker.disk_max_bytes"
        return (
            f"it waits for room: {beat.detail or bound} ({beat.unpublished_rows} rows, {beat.unpublished_bytes} bytes "
            f"are held, {beat.pending_publishes} sequences wait to be published). It reads on by itself once some are "
            "published and served: see deep_storage and metadata in /status/health"
        )
    return None
