"""Starts a bound statement in the engine: on all its rows, or on those that are in no groups that are kept."""

from __future__ import annotations

from query.bound import BoundQuery
from query.engine import Engine
from query.errors import QueryFailed, ResourceLimitExceeded
from query.model import PlannedQuery
from query.partials import Partials
from query.runs import TOO_MANY_GROUPS, Run
from query.worker_wire import Job

_BETTER_OF_ROWS = (TOO_MANY_GROUPS, "OutOfMemoryException")
"""Where groups are more than the statement needs (each of its counted values is one), it has an answer yet."""


class Runner:
    """What starts a node's statements; safe for many threads. One that reads ``long_rows`` counts as long."""

    def __init__(self, engine: Engine, partials: Partials, long_rows: int) -> None:
        self._engine = engine
        self._partials = partials
        self._long_rows = long_rows

    def begin(self, query: BoundQuery, planned: PlannedQuery, job: Job, left_ms: int) -> Run:
        """The run of ``job``, which reads all rows, or of a shorter one with the same answer, in ``left_ms``.

        Raises:
            QueryError: it has no answer.
        """
        deadline_ms = self._engine.clock.monotonic_ms() + left_ms
        plan = query.plan_of_groups(planned, job.functions, self._partials)
        query.hold(plan)
        if plan is None:
            return self._engine.begin(job, self._left_ms(deadline_ms), query)
        query.claims(planned, self._long_rows, plan.rows)
        try:
            run = self._engine.begin(plan.job(job, self._partials.groups_bytes), self._left_ms(deadline_ms), query)
        except (QueryFailed, ResourceLimitExceeded) as error:
            if error.context.get("engineError") not in _BETTER_OF_ROWS:
                raise
            self._partials.give_up(plan)
            query.claims(planned, self._long_rows)
            query.hold()
            return self._engine.begin(job, self._left_ms(deadline_ms), query)
        if planned.populate_cache:
            self._partials.keep(plan, run.groups)
        return run

    def _left_ms(self, deadline_ms: int) -> int:
        """What bringing files, or a first try, has left of its time."""
        return max(deadline_ms - self._engine.clock.monotonic_ms(), 1)
