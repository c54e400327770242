"""A reset at every step of a publish: either the publish was before it, whole, or it is not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from ingest.errors import AttemptRefused
from ingest.metadata.store import StoreConflict
from ingest.protocol import PublishOutcome
from tests.contract.metadata.world import NOON_MS, SUPERVISOR, TOPIC, World, at, audit

STEPS = ["open", "attempt", "seal", "allocate and stage", "publish"]


def steps_of(world: World) -> list[Callable[[], None]]:
    """The steps of one publish of [0, 5) and [0, 7); each goes on from what the one before left."""
    made: dict[str, Any] = {}

    def opened() -> None:
        made["record"] = world.open(0, 1)

    def attempted() -> None:
        made["token"] = world.attempt(made["record"].ref)

    def sealed() -> None:
        made["sealed"] = world.seal(made["record"].ref, at(p0=5, p1=7))[0]

    def staged() -> None:
        made["request"] = world.prepare(made["token"], made["sealed"])

    def published() -> None:
        made["outcome"] = world.publish(made["request"]).outcome

    return [opened, attempted, sealed, staged, published]


@pytest.mark.parametrize("done", range(len(STEPS) + 1), ids=["before", *(f"after {name}" for name in STEPS)])
@pytest.mark.parametrize("to", [0, 3], ids=["to the start", "into the range"])
def test_a_reset_at_any_step_leaves_a_whole_publish_or_none(world: World, done: int, to: int) -> None:
    steps = steps_of(world)
    for step in steps[:done]:
        step()
    world.store.reset_offsets(world.generation, SUPERVISOR, TOPIC, at(p0=to), None, audit("reset"))
    for step in steps[done:]:
        # What began before the reset is refused or changes nothing; KeyError: an earlier step was refused.
        with suppress(StoreConflict, AttemptRefused, KeyError):
            step()
    was_published = done == len(STEPS)
    began_after = done == 0
    stored = world.store.offsets(SUPERVISOR, TOPIC)
    assert stored is not None
    assert stored.epochs == at(p0=1, p1=0)
    ledger = world.store.ledger(SUPERVISOR, 0, 10)
    if began_after:
        assert [(row.start, row.end) for row in ledger] == [(at(p0=to, p1=0), at(p0=5, p1=7))]
        assert stored.committed == at(p0=5, p1=7)
    else:
        assert len(ledger) == was_published
        assert stored.committed == at(p0=to, p1=7 if was_published else 0)
    _reads_on(world)


def _reads_on(world: World) -> None:
    """Whatever happened, what comes next is published from the stored offsets on."""
    for group in world.store.groups(SUPERVISOR):
        for sequence in group.sequences[:1]:
            world.store.void(world.generation, SUPERVISOR, group.group, sequence.ref.number, audit("over"))
    stored = world.store.offsets(SUPERVISOR, TOPIC)
    assert stored is not None
    record = world.open(0, 1)
    assert record.start == stored.committed and record.epochs == stored.epochs
    token = world.attempt(record.ref)
    sealed = world.seal(record.ref, at(p0=20, p1=20))[0]
    assert world.publish(world.prepare(token, sealed, now_ms=NOON_MS + 1)).outcome is PublishOutcome.PUBLISHED
