"""What a task asks its leader, and what the supervisor hears of it."""

from __future__ import annotations

from ingest.clock import ManualClock
from ingest.metadata.memory import MemoryMetadataStore
from ingest.overlord.actions import LeaderActions
from ingest.overlord.sealings import Sealings
from ingest.overlord.served import ServedVersions
from ingest.protocol import PublishOutcome, SequenceState
from ingest.supervisor.messages import PublishSeen
from tests.contract.metadata.world import NOON_MS, World, at


def test_a_publish_whose_answer_was_lost_is_heard_of_when_its_task_asks_what_became_of_it() -> None:
    world, heard = World(MemoryMetadataStore()), list[object]()
    world.start()
    record = world.open(0)
    token = world.attempt(record.ref)
    sealed, following = world.seal(record.ref, at(p0=5))
    clock = ManualClock()
    actions = LeaderActions(
        world.store,
        world.generation,
        clock,
        ServedVersions(world.store, clock),
        Sealings(),
        lambda _, event: heard.append(event),
    )
    assert [r.state for r in actions.sequences(token, 0).sequences] == [SequenceState.SEALED, SequenceState.OPEN]
    assert not heard
    world.store.publish(world.generation, world.prepare(token, sealed), NOON_MS)  # and the answer is lost
    actions.sequences(token, 0)
    [seen] = heard
    assert isinstance(seen, PublishSeen)
    assert (seen.token, seen.ref, seen.outcome) == (token, sealed.ref, PublishOutcome.ALREADY)
    assert following is not None and following.ref.number == sealed.ref.number + 1
