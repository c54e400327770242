"""What a task finds again in its directory, whenever it was killed and whatever became of its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ingest.appenderator.appenderator import Appenderator
from ingest.offsets import OffsetMap
from ingest.protocol import PartitionCounts
from tests.unit.ingest.appenderator.rows import poll_of, record_of, spec_of
from tests.unit.ingest.appenderator.test_appenderator import PLAIN, ROWS, held, live_rows, merged, published_rows


def spilled_three_times(tmp_path: Path) -> tuple[Appenderator, list[Path]]:
    """A task's directory as it was after every persist."""
    appenderator = held(tmp_path, spec_of(PLAIN))
    states: list[Path] = []
    for step in range(3):
        appenderator.append(1, [poll_of([*ROWS[step * 10 : step * 10 + 9], b"bad"], step * 10)])
        appenderator.persist()
        states.append(tmp_path / f"state-{step}")
        shutil.copytree(tmp_path / "work", states[-1])
    return appenderator, states


def restored(tmp_path: Path, directory: Path, name: str) -> Appenderator:
    appenderator = Appenderator(tmp_path / name, 7, name)
    positions = appenderator.restore(directory, {1: spec_of(PLAIN)})
    if not positions:
        appenderator.open_sequence(record_of(), spec_of(PLAIN))
    return appenderator


def test_a_restored_attempt_reads_on_where_the_manifest_ends_and_publishes_the_same(tmp_path: Path) -> None:
    whole, states = spilled_three_times(tmp_path)
    expected = published_rows(merged(whole))
    for step, state in enumerate(states):
        again = restored(tmp_path, state, f"again-{step}")
        position = again.positions(1)[0]
        assert position == (step + 1) * 10
        for at in range(position // 10, 3):
            again.append(1, [poll_of([*ROWS[at * 10 : at * 10 + 9], b"bad"], at * 10)])
        result = merged(again)
        assert published_rows(result) == expected
        assert result.counts == {0: PartitionCounts(good=27, unparseable=3)}
        assert result.quarantine is not None and result.quarantine.rows == 3


@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "garbage"])
def test_a_damaged_file_costs_only_what_follows_it(tmp_path: Path, damage: str) -> None:
    _, states = spilled_three_times(tmp_path)
    files = sorted(path for path in states[2].iterdir() if path.name != "manifest.json")
    assert len(files) == 6
    for at, victim in enumerate(files):
        broken = tmp_path / f"broken-{at}"
        shutil.copytree(states[2], broken)
        path = broken / victim.name
        data = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "garbage": b"\0" * len(data)}[damage])
        again = restored(tmp_path, broken, f"from-{at}")
        # A quarantine part is checked by its size; garbage of the right size there is found by the merge.
        if damage == "garbage" and "quarantine" in victim.name:
            continue
        assert again.positions(1)[0] in (0, 10, 20)
        assert again.totals(1).rows == again.positions(1)[0] // 10 * 9


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": 99}', '{"format": 1}', '{"format":1,"nextFile":2,"sequences":[{}]}']
)
def test_a_manifest_that_is_not_whole_means_that_everything_is_read_again(tmp_path: Path, text: str) -> None:
    _, states = spilled_three_times(tmp_path)
    (states[2] / "manifest.json").write_text(text)
    again = restored(tmp_path, states[2], "again")
    assert again.positions(1) == OffsetMap({0: 0})


def test_files_that_were_written_but_never_named_are_removed_by_the_next_start(tmp_path: Path) -> None:
    _, states = spilled_three_times(tmp_path)
    # Killed after the third spill was written, before the manifest that names it.
    shutil.copy(states[1] / "manifest.json", states[2] / "manifest.json")
    (states[2] / ".tmp-half").write_bytes(b"half")
    same = Appenderator(states[2], 7, "same")
    assert same.restore(states[2], {1: spec_of(PLAIN)}) == {1: OffsetMap({0: 20})}
    assert len(list(states[2].iterdir())) == 5
    same.append(1, [poll_of(ROWS[20:29], 20)])
    assert merged(same).rows_stored == 27


def test_a_persist_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ingest.appenderator import appenderator as module
    from segments.errors import StorageFull

    appenderator = held(tmp_path, spec_of(PLAIN))
    appenderator.append(1, [poll_of(ROWS[:10])])

    def full(*_: object) -> None:
        raise StorageFull("no space left; free some")

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_manifest", full)
        with pytest.raises(StorageFull):
            appenderator.persist()
    assert len(live_rows(appenderator)) == 10
    appenderator.persist()
    assert restored(tmp_path, tmp_path / "work", "again").positions(1) == OffsetMap({0: 10})
