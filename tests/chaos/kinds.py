"""The kinds of faults, how long each lasts and how often it is drawn, and the schedule that a seed makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.breaking import Broken
from tests.chaos.faults import Faults


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: how long it lasts in seconds, and how often it is drawn beside the others."""

    do: Callable[[Faults, frozenset[str]], Broken | None]
    shortest_s: float
    longest_s: float
    weight: int


KINDS: dict[str, Kind] = {
    "task killed": Kind(Faults.kill_task, 0, 0, 6),
    "all tasks killed": Kind(Faults.kill_tasks, 0, 0, 1),
    "task ended": Kind(Faults.end_task, 0, 0, 2),
    "task frozen": Kind(Faults.freeze_task, 1, 25, 4),
    "task's disk full": Kind(Faults.fill_disk_of_task, 2, 10, 2),
    "middle manager's disk full": Kind(Faults.fill_disk_of_worker, 2, 10, 1),
    "middle manager killed": Kind(Faults.kill_worker, 0, 10, 3),
    "middle manager stopped": Kind(Faults.stop_worker, 0, 5, 2),
    "middle managers rolled": Kind(Faults.roll_workers, 0, 0, 2),
    "middle manager frozen": Kind(Faults.freeze_worker, 1, 20, 2),
    "host lost": Kind(Faults.lose_host, 0, 25, 2),
    "overlord killed": Kind(Faults.kill_overlord, 0, 8, 3),
    "both overlords killed": Kind(Faults.kill_overlords, 0, 8, 1),
    "overlord frozen": Kind(Faults.freeze_overlord, 1, 12, 3),
    "query node killed": Kind(Faults.kill_query_node, 0, 4, 2),
    "query node frozen": Kind(Faults.freeze_query_node, 1, 15, 1),
    "all processes killed": Kind(Faults.kill_all, 0, 4, 1),
    "machine lost": Kind(Faults.lose_machine, 0, 4, 1),
    "PostgreSQL killed": Kind(Faults.kill_postgres, 0, 8, 2),
    "PostgreSQL stopped": Kind(Faults.stop_postgres, 0, 12, 1),
    "broker killed": Kind(Faults.kill_broker, 0, 8, 2),
    "broker stopped": Kind(Faults.restart_broker, 0, 4, 1),
    "broker frozen": Kind(Faults.freeze_broker, 1, 10, 1),
    "partition added": Kind(Faults.add_partition, 0, 0, 1),
    "records expired": Kind(Faults.expire_records, 0, 0, 1),
    "topic made again": Kind(Faults.make_topic_again, 0, 0, 1),
    "transaction left open": Kind(Faults.leave_transaction_open, 1, 12, 2),
    "S3 killed": Kind(Faults.kill_s3, 0, 15, 2),
    "S3 busy": Kind(Faults.busy_s3, 1, 12, 1),
    "S3 slow": Kind(Faults.slow_s3, 2, 12, 1),
    "S3 short": Kind(Faults.short_s3, 1, 12, 1),
    "small disk full": Kind(Faults.fill_small_disk, 2, 12, 3),
    "connections cut": Kind(Faults.cut_connections, 0, 8, 4),
    "connections hung": Kind(Faults.hang_connections, 1, 15, 4),
    "spec changed": Kind(Faults.change_spec, 0, 0, 2),
    "middle manager drained": Kind(Faults.drain_worker, 1, 8, 1),
    "supervisor suspended": Kind(Faults.suspend, 0, 10, 1),
}


def schedule(dice: random.Random, only: Sequence[str] = ()) -> Iterator[tuple[float, str, float]]:
    """Without end: seconds to wait, which kind of fault, how many seconds it lasts. ``only`` names those to draw."""
    names = list(only or KINDS)
    weights = [KINDS[name].weight for name in names]
    while True:
        [name] = dice.choices(names, weights)
        kind = KINDS[name]
        yield dice.uniform(0.5, 5.0), name, dice.uniform(kind.shortest_s, kind.longest_s)
