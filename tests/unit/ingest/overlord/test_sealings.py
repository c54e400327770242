"""Who waits for a seal hears it, and a sequence that was just opened is known not to be sealed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ingest.offsets import OffsetMap
from ingest.overlord.sealings import GROUPS_MAX, Sealings
from ingest.protocol import SequenceRecord, SequenceRef, SequenceState


def record(number: int, state: SequenceState = SequenceState.OPEN, group: int = 1) -> SequenceRecord:
    offsets = OffsetMap({0: 10 * number})
    made = SequenceRecord(SequenceRef("wiki", group, number), offsets, OffsetMap({0: 0}), 1, 0, state)
    return made if state is SequenceState.OPEN else replace(made, end=OffsetMap({0: 10 * number + 10}))


def test_a_seal_wakes_whoever_waits_for_it() -> None:
    sealings = Sealings()
    sealed = (record(3, SequenceState.SEALED), record(4))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sealings.wait_for, record(3).ref, 10_000)
        sealings.tell(sealed)
        assert waiting.result(10) == sealed
    assert sealings.wait_for(record(4).ref, 0) == ()


def test_only_the_sequence_opened_last_is_known_not_to_be_sealed() -> None:
    sealings = Sealings()
    assert not sealings.opened(record(3).ref), "another leadership may have sealed it"
    sealings.tell((record(3, SequenceState.SEALED), record(4)))
    assert [sealings.opened(record(number).ref) for number in (3, 4, 5)] == [False, True, False]
    assert not sealings.opened(record(4, group=2).ref)
    sealings.tell((record(4, SequenceState.SEALED),))
    assert not sealings.opened(record(4).ref), "released: nothing was opened"


def test_groups_that_were_sealed_long_ago_are_forgotten() -> None:
    sealings = Sealings()
    for group in range(GROUPS_MAX + 100):
        sealings.tell((record(3, SequenceState.SEALED, group), record(4, group=group)))
        sealings.tell((record(3, SequenceState.SEALED, 0), record(4, group=0)))
    assert len(sealings) == GROUPS_MAX
    assert sealings.opened(record(4, group=0).ref) and not sealings.opened(record(4, group=1).ref)
