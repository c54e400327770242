"""How a supervisor's number of tasks follows its lag: samples, decisions, and what an earlier leader decided."""

from __future__ import annotations

from typing import Any

from ingest.metadata.records import AuditRow
from ingest.offsets import OffsetMap, furthest
from ingest.supervisor.config import SupervisorConfig
from ingest.supervisor.machine_groups import GroupRules
from ingest.supervisor.messages import Command, ScaleTasks, StateLoaded, TasksScaled
from ingest.supervisor.scaling import LagScaler


class ScalingRules(GroupRules):
    """A decision is a row before it is acted on, so that the next leader lays the tasks out alike; partitions
    then move as after a posted ``taskCount`` (PR-11)."""

    def take_config(self, config: SupervisorConfig) -> None:
        """Another spec: the scaler and what was decided stay while the bounds are the same."""
        if config.scaling != self.config.scaling:
            self.scaler = None if config.scaling is None else LagScaler(config.scaling)
        if decided_for(config) != decided_for(self.config):
            self.task_count = config.task_count
        self.config = config

    def take_decided(self, event: StateLoaded) -> None:
        """What was decided last, if it was decided for these bounds."""
        row = event.state.scaled
        self.scaling = False
        self.task_count = self.config.task_count
        if self.scaler is None or row is None or row.detail["for"] != decided_for(self.config):
            return
        self.task_count = int(row.detail["taskCount"])
        if not self.scaler.has_scaled:
            self.scaler.scaled(self.now_ms - max(self.wall_ms - row.at_ms, 0))

    def advance_scaling(self) -> list[Command]:
        """Takes a sample when one is due, and decides when it is time to."""
        scaler, offsets = self.scaler, self.offsets
        if scaler is None or offsets is None or not self.reads:
            return []
        if scaler.is_sample_due(self.now_ms) and self.log_ends and not self.health.bad_runs:
            scaler.sample(self.now_ms, self.lags())
        partitions = len(offsets.committed)
        current = min(self.task_count, partitions)
        wanted = scaler.decide(self.now_ms, current, partitions, self._why_not_now())
        if wanted is None:
            return []
        self.scaling = True
        view = scaler.view(current)
        detail = {"taskCount": wanted, "from": current, "lag": view.lag, "for": decided_for(self.config)}
        return [ScaleTasks(wanted, AuditRow(self.wall_ms, self.config.supervisor, "scale", detail))]

    def lags(self) -> OffsetMap:
        """Per partition the records that nobody has read yet, as the stream was last seen."""
        reached = self.reached()
        return OffsetMap((p, max(end - reached.get(p, end), 0)) for p, end in self.log_ends.items())

    def reached(self) -> OffsetMap:
        """Per partition how far anybody has read."""
        assert self.offsets is not None
        ends = [r.end for group in self.groups.values() for r in group.sequences.values() if r.end is not None]
        return furthest(self.offsets.committed, *ends, *(group.reported for group in self.groups.values()))

    def _why_not_now(self) -> str | None:
        """One move at a time: what was released is published before the next."""
        if self.scaling or self.storing_offsets or self.reloading:
            return "the store has not answered yet"
        if self.resets:
            return "a reset is under way"
        if self.opening or any(group.release_reason for group in self.groups.values() if group.open is not None):
            return "partitions are being moved"
        if any(group.open is None and not group.is_done for group in self.groups.values()):
            return "what was read before the last move is not published yet"
        if any(group.is_done and group.replicas for group in self.groups.values()):
            return "tasks of the last move still wait for query nodes"
        return None

    def on_tasks_scaled(self, event: TasksScaled) -> list[Command]:
        self.scaling = False
        self.task_count = event.task_count
        if self.scaler is not None:
            self.scaler.scaled(self.now_ms)
        return []


def decided_for(config: SupervisorConfig) -> dict[str, Any]:
    """The part of a spec that a decision belongs to: where scaling begins and between which bounds it stays."""
    scaling = config.scaling
    if scaling is None:
        return {"start": config.task_count}
    return {"start": config.task_count, "min": scaling.task_count_min, "max": scaling.task_count_max}
