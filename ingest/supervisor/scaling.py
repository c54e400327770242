"""How many tasks there should be, from samples of lag: Druid's lag based scaler (pure).

Samples are taken every ``collection_interval_ms`` once ``start_delay_ms`` is over; the first decision falls
a whole ``collection_range_ms`` later, the next ones every ``period_ms``. The window is emptied only when the
number of tasks really changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from ingest.spec.model import AutoScaling, LagAggregate


@dataclass(frozen=True, slots=True)
class ScalingView:
    """A moment of the scaler for a status. ``lag`` is the last sample; ``held_back`` says why the tasks stay
    as they are although the lag asks for another number."""

    task_count: int
    task_count_min: int
    task_count_max: int
    lag: int | None
    samples: int
    held_back: str | None


class LagScaler:
    """One supervisor's samples and decisions. ``now_ms`` is deadline time; a change of leader begins anew."""

    def __init__(self, config: AutoScaling) -> None:
        self.config = config
        kept = config.collection_range_ms // config.collection_interval_ms + 1
        self._samples: deque[int] = deque(maxlen=kept)
        self._sample_ms: int | None = None
        self._decide_ms = 0
        self._scaled_ms: int | None = None
        self.held_back: str | None = None

    def is_sample_due(self, now_ms: int) -> bool:
        """Whether the lag should be looked at now; the first question begins the start delay."""
        if self._sample_ms is None:
            self._sample_ms = now_ms + self.config.start_delay_ms
            self._decide_ms = self._sample_ms + self.config.collection_range_ms
        return now_ms >= self._sample_ms

    def sample(self, now_ms: int, lags: Mapping[int, int]) -> None:
        """Notes the lag of every partition."""
        self._sample_ms = now_ms + self.config.collection_interval_ms
        self._samples.append(aggregated(self.config.aggregate, lags))

    def decide(self, now_ms: int, current: int, partitions: int, busy: str | None) -> int | None:
        """The number of tasks to have from now on, None for the present one.

        ``current`` is that number, ``busy`` why it cannot be changed at this moment.
        """
        if not self._samples or now_ms < self._decide_ms:
            return None
        self._decide_ms = now_ms + self.config.period_ms
        self.held_back = None
        wanted = self._wanted(current, partitions)
        if wanted == current:
            return None
        delay_ms = self.config.scale_out_delay_ms if wanted > current else self.config.scale_in_delay_ms
        if busy is not None:
            self.held_back = f"{wanted} tasks are wanted, but {busy}"
        elif self._scaled_ms is not None and now_ms - self._scaled_ms < delay_ms:
            self.held_back = f"{wanted} tasks are wanted, but the last change is less than {delay_ms} ms ago"
        return None if self.held_back else wanted

    def _wanted(self, current: int, partitions: int) -> int:
        """Scaling out comes first; both stay between the bounds, which end at the number of partitions."""
        config, count = self.config, len(self._samples)
        most = min(config.task_count_max, max(partitions, 1))
        least = min(config.task_count_min, most)
        beyond = sum(lag >= config.scale_out_threshold for lag in self._samples) / count
        within = sum(lag <= config.scale_in_threshold for lag in self._samples) / count
        if beyond >= config.scale_out_fraction:
            return max(current, min(current + config.scale_out_step, most))
        if within >= config.scale_in_fraction:
            return min(current, max(current - config.scale_in_step, least))
        return current

    def scaled(self, at_ms: int) -> None:
        """The number of tasks changed at ``at_ms`` (deadline time; before now for a change by an earlier leader)."""
        self._samples.clear()
        self._scaled_ms = at_ms
        self.held_back = None

    @property
    def has_scaled(self) -> bool:
        return self._scaled_ms is not None

    def view(self, task_count: int) -> ScalingView:
        lag = self._samples[-1] if self._samples else None
        config = self.config
        return ScalingView(
            task_count, config.task_count_min, config.task_count_max, lag, len(self._samples), self.held_back
        )


def aggregated(aggregate: LagAggregate, lags: Mapping[int, int]) -> int:
    """One number for all partitions; none at all have no lag."""
    if not lags:
        return 0
    match aggregate:
        case LagAggregate.SUM:
            return sum(lags.values())
        case LagAggregate.MAX:
            return max(lags.values())
        case LagAggregate.AVERAGE:
            return sum(lags.values()) // len(lags)
