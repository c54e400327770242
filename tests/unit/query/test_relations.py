"""Relations are put together again when the plan's part, the segments or the live chunks are not the same ones."""

from __future__ import annotations

from dataclasses import replace

from query.binding import Relation
from query.mirror import MirroredChunk
from query.model import TableUse
from query.relations import Assembled, Relations
from segments.data_segment import DataSegment

USE = TableUse("druid", "t", "t1", ())
CHUNK = MirroredChunk(("token", 1), "1.arrow", (), "", 5, 100, 0, 9)
MADE = Assembled(Relation("t1", "SELECT 1"), (), 5)


def test_a_relation_serves_again_only_over_the_very_same_parts() -> None:
    relations = Relations()
    segments: tuple[DataSegment, ...] = tuple([])
    relations.put(USE, segments, (CHUNK,), MADE)
    assert relations.get(USE, segments, (CHUNK,)) is MADE
    assert relations.get(replace(USE), segments, (CHUNK,)) is None
    assert relations.get(USE, segments, ()) is None
    assert relations.get(USE, segments, (replace(CHUNK, name="2.arrow"),)) is None
    assert relations.hits == 1


def test_of_too_many_relations_the_least_recently_used_goes() -> None:
    relations, uses = Relations(most=2), [replace(USE) for _ in range(3)]
    for use in uses[:2]:
        relations.put(use, (), (), MADE)
    assert relations.get(uses[0], (), ()) is MADE
    relations.put(uses[2], (), (), MADE)
    assert [relations.get(use, (), ()) for use in uses] == [MADE, None, MADE]
