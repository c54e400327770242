"""Every metric of a process, each with its unit and meaning; read when Prometheus asks."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from segments.errors import ServiceError

Samples = Callable[[], Iterable[tuple[tuple[str, ...], float]]]
"""Label values and value of each series, now; quick, and may raise ServiceError (then nothing is told)."""

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class _Asked:
    name: str
    meaning: str
    labels: tuple[str, ...]
    samples: Samples
    counts: bool = False


class Metrics(Collector):
    """One process's metrics; safe from any thread."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client leaves it without types
        self.registry = CollectorRegistry()
        self._asked: list[_Asked] = []
        self.requests = Counter(
            "siltstone_http_requests",
            "HTTP requests answered, by method and status",
            ("method", "status"),
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "siltstone_http_request_seconds",
            "Seconds until the first byte of an answer, by area of the API",
            ("area",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.registry.register(self)
        begun_s = time.time()
        self.gauge("siltstone_process_start_seconds", "Begin of the process, Unix seconds", lambda: [((), begun_s)])
        self.gauge("siltstone_process_peak_memory_bytes", "Largest resident memory of the process", _peak_memory)

    def gauge(self, name: str, meaning: str, samples: Samples, labels: tuple[str, ...] = ()) -> None:
        """Adds a value that is looked up when asked for."""
        self._asked.append(_Asked(name, meaning, labels, samples))

    def counter(self, name: str, meaning: str, samples: Samples, labels: tuple[str, ...] = ()) -> None:
        """Adds a value that somebody else counts and that only grows; told with ``_total`` behind its name."""
        self._asked.append(_Asked(name, meaning, labels, samples, counts=True))

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        for asked in self._asked:
            kind = CounterMetricFamily if asked.counts else GaugeMetricFamily
            family = kind(asked.name, asked.meaning, labels=asked.labels)
            try:
                for labels, value in asked.samples():
                    family.add_metric(labels, value)
            except ServiceError:
                continue
            yield family

    def describe(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Nothing: names are checked by our own test, not by asking every service at start."""
        return iter(())


def _peak_memory() -> list[tuple[tuple[str, ...], float]]:
    return [((), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0)]
