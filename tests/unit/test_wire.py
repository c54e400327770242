"""The wire codec gives back what it was given and names what it cannot read."""

import pytest

from ingest.offsets import OffsetMap, furthest, split_run
from ingest.protocol import PartitionCounts, PublishRequest, SealCommand, SequenceRecord, SequenceRef, SequenceState
from ingest.wire import WireError, dumps, loads

RECORD = SequenceRecord(
    ref=SequenceRef("wiki", 3, 7),
    start=OffsetMap({0: 5, 1: 0}),
    epochs=OffsetMap({0: 0, 1: 2}),
    spec_version=4,
    opened_at_ms=1_700_000_000_000,
    state=SequenceState.SEALED,
    end=OffsetMap({0: 9, 1: 1}),
    assigned=True,
)


def test_a_seal_command_survives_the_wire() -> None:
    command = SealCommand(generation=2, round=5, sequences=(RECORD,), specs={4: {"type": "kafka"}})
    assert loads(SealCommand, dumps(command)) == command


def test_a_publish_request_survives_the_wire() -> None:
    request = PublishRequest(
        token="t",
        ref=RECORD.ref,
        start=RECORD.start,
        end=OffsetMap({0: 9, 1: 1}),
        epochs=RECORD.epochs,
        segments=({"id": "x"},),
        quarantine=None,
        counts={0: PartitionCounts(good=4), 1: PartitionCounts(no_record=1)},
        rows_in=4,
        rows_stored=4,
    )
    assert loads(PublishRequest, dumps(request)) == request


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"generation": 1}', b'{"generation": "1", "round": 2, "sequences": []}']
)
def test_a_malformed_message_is_a_wire_error(data: bytes) -> None:
    with pytest.raises(WireError):
        loads(SealCommand, data)


def test_furthest_takes_the_largest_offset_of_each_partition() -> None:
    assert furthest(OffsetMap({0: 1, 1: 9}), OffsetMap({0: 4, 2: 0})) == OffsetMap({0: 4, 1: 9, 2: 0})


def test_a_run_is_cut_at_an_offset_inside_and_outside_of_it() -> None:
    assert split_run(3, 8, 5) == ((3, 5), (5, 8))
    assert split_run(3, 8, 1) == ((3, 3), (3, 8))
    assert split_run(3, 8, 99) == ((3, 8), (8, 8))


def test_offset_maps_compare_by_reach() -> None:
    assert OffsetMap({0: 4, 1: 4}).reached({0: 4})
    assert not OffsetMap({0: 4}).reached({0: 4, 1: 0})
