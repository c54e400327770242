"""When a supervisor stops for what it cannot read: bad messages are counted over all ranges of one spec version."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.metadata.records import DesiredState
from ingest.supervisor.config import SupervisorConfig
from ingest.supervisor.machine_scaling import ScalingRules


@dataclass(frozen=True, slots=True)
class ExceptionsView:
    """Bad messages since an operator last started or changed the supervisor, which was ``version`` of its
    spec, and how many may be."""

    version: int
    count: int
    most: int

    @property
    def is_crossed(self) -> bool:
        return self.count > self.most


class ExceptionRules(ScalingRules):
    """An operator's start or change is a new version of the spec, so a version's ranges are those since then.

    The count outlives tasks and leaders: published ranges are counted in the store, sealed ones carry what was
    known of them, and readers repeat theirs with every heartbeat. It never falls while the ranges stay.
    """

    def exceptions(self) -> int:
        """Bad messages of this spec version: published, sealed, and as far as anybody has read."""
        version = self.config.spec_version
        return self.published_exceptions + sum(
            group.exceptions_of(record)
            for group in self.groups.values()
            for record in group.sequences.values()
            if record.spec_version == version
        )

    def judge_exceptions(self) -> None:
        """Past the limit every group is asked for a final round; none is opened again under this version
        (PR-16). What is wanted otherwise by an operator comes first."""
        view = self.exceptions_view()
        self.stopped = None
        if view is not None and view.is_crossed and self.desired is DesiredState.RUNNING:
            self.stopped = (
                f"{view.count} messages were bad since version {view.version} of the spec was started, "
                f"tuningConfig.maxParseExceptions allows {view.most}: nothing is read any more. Mend the stream or the "
                "spec, then resume the supervisor or post its spec"
            )
        self.health.stopped = self.stopped

    def exceptions_view(self) -> ExceptionsView | None:
        """For a status; None where any number is allowed."""
        most = self.config.max_parse_exceptions
        return None if most is None else ExceptionsView(self.config.spec_version, self.exceptions(), most)

    def take_config(self, config: SupervisorConfig) -> None:
        if config.spec_version != self.config.spec_version:
            self.published_exceptions = 0
        super().take_config(config)
