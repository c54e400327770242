"""The quickstart's events: the same at every start, a few late, a few malformed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from server.quickstart import producer
from server.quickstart.edits import Edits, spelt

NOW_MS = 1_800_000_000_123


@pytest.fixture(scope="module")
def edits() -> Edits:
    return Edits(seed=1, partitions=4)


def test_events_depend_on_seed_and_number_only(edits: Edits) -> None:
    again, other = Edits(seed=1, partitions=4), Edits(seed=2, partitions=4)
    assert [edits.event(n) for n in range(500)] == [again.event(n) for n in range(500)]
    assert [edits.event(n).partition for n in range(500)] != [other.event(n).partition for n in range(500)]


def test_a_day_holds_every_edit_once_and_then_begins_anew(edits: Edits) -> None:
    day = [edits.event(n) for n in range(39_244)]
    assert len({edit.line for edit in day}) > 39_000
    assert edits.event(39_244).line == edits.event(0).line
    assert (
        sum(edit.added for edit in day if not edit.malformed)
        + sum(json.loads(edit.line)["added"] for edit in day if edit.malformed)
        == 9_385_573
    )


def test_kinds_come_in_their_shares_over_all_partitions(edits: Edits) -> None:
    day = [edits.event(n) for n in range(39_244)]
    assert 0.008 < sum(edit.late_by_ms > 0 for edit in day) / len(day) < 0.012
    assert 0.0005 < sum(edit.malformed for edit in day) / len(day) < 0.0015
    per_partition = Counter(edit.partition for edit in day)
    assert sorted(per_partition) == [0, 1, 2, 3] and min(per_partition.values()) > 9_000


def test_times_are_moved_to_now_and_late_ones_behind_it(edits: Edits) -> None:
    day = [edits.event(n) for n in range(2000)]
    for edit in day:
        text = spelt(edit, NOW_MS)
        if edit.malformed:
            with pytest.raises(ValueError):
                json.loads(text)
            continue
        event = json.loads(text)
        assert event["added"] == edit.added
        assert {**event, "time": 0} == {**json.loads(edit.line), "time": 0}
        if not edit.late_by_ms:
            assert event["time"] == "2027-01-15T08:00:00.123Z"
        else:
            assert "2027-01-15T05:00" <= event["time"] <= "2027-01-15T07:00:00.123Z"
    assert any(edit.malformed for edit in day) and any(edit.late_by_ms for edit in day)


def test_a_producer_that_reaches_no_broker_says_so_in_the_line_that_its_parent_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(producer, "_WAIT_S", 0.05)
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert producer.main(["--kafka", "127.0.0.1:9", "--state", str(tmp_path / "state.json")]) == 1
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: no broker answers at 127.0.0.1:9: ")
