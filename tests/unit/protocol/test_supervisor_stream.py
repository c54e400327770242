"""A supervisor and its looks at the stream, which may be older than what it knows."""

from __future__ import annotations

from dataclasses import replace

from ingest.protocol import SequenceRef
from ingest.supervisor import messages as m
from tests.unit.protocol.lead import CONFIG, Lead
from tests.unit.protocol.task_builder import at

FIRST = SequenceRef("edits", 1, 0)


def published_to_five() -> Lead:
    """Offsets 5 and 3 are committed; whatever the stream no longer holds is moved without being asked."""
    lead = Lead(replace(CONFIG, reset_automatically=True))
    lead.run("t1")
    lead.ask("t1", FIRST, 5, 3)
    lead.published(FIRST)
    return lead


def look(lead: Lead, *ends: int, committed: tuple[int, int]) -> list[m.Command]:
    return lead.post(m.StreamSeen(lead.now_ms, "id", at(0, 0), at(0, 0), at(*ends), committed=at(*committed)))


def test_a_look_from_before_a_publish_does_not_make_it_a_truncation() -> None:
    lead = published_to_five()
    assert not look(lead, 4, 3, committed=(0, 0))
    assert (lead.machine.resets, lead.machine.health.named) == ([], None)
    assert lead.machine.log_ends == at(5, 3), "so much the log is known to hold"


def test_a_log_that_ends_before_what_was_committed_when_it_was_looked_at_is_truncated() -> None:
    lead = published_to_five()
    look(lead, 4, 3, committed=(5, 3))
    assert "partition 0 ends at 4, before the committed offset 5" in str(lead.machine.health.named)
    assert [reset.moves for reset in lead.machine.resets] == [at(0)]
