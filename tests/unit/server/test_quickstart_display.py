"""The quickstart without a terminal: answers are printed while it runs, and never more rows than events."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from server.quickstart import display, standing
from siltstone import Client


class Edits(Client):
    """A service whose table grows between two questions."""

    def __init__(self) -> None:
        super().__init__()
        self.edits = 0

    def sql(self, query: str, parameters: Any = None, context: Any = None) -> list[dict[str, Any]]:
        self.edits += 10
        return [{"n": 5}] if query == display.PUBLISHED else [{"edits": self.edits}]


def test_the_answers_are_printed_every_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    client, printed = Edits(), []
    screen = display.Screen()
    for _ in range(21):
        screen.show(display.look(client, lambda seen: seen))
        printed.append(capsys.readouterr().out)
        now += 1.0
    assert [at for at, text in enumerate(printed) if "SELECT channel" in text] == [0, 10, 20]
    assert [at for at, text in enumerate(printed) if " rows: " in text] == [0, 5, 10, 15, 20]
    assert max(text.count(" rows: ") for text in printed) == 1


@pytest.mark.parametrize(("height", "rows"), [(50, 5), (24, 5), (20, 3), (16, 1)])
def test_a_screen_shows_every_question_with_as_many_rows_as_it_has_room_for(height: int, rows: int) -> None:
    channels = [{"channel": f"#{n}.wikipedia", "edits": 9 - n, "characters_added": 10**9} for n in range(5)]
    recent = [{"ten_seconds": f"2026-11-30T13:49:{n}0.000Z", "edits": n} for n in range(5)]
    totals = [{"edits": 10**6, "characters_added": 10**9, "editors": 10**5}]
    console = Console(width=80, height=height, file=io.StringIO(), force_terminal=True, color_system=None)
    picture = display.fitted(display.Picture(10**6, totals, channels, recent, 10**6), console)
    with console.capture() as captured:
        console.print(picture)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert len(lines) < height and lines[0] == "1,000,000 rows: 1,000,000 published, 0 live"
    questions = "\n".join((display.TOTALS, display.CHANNELS, display.RECENT)).split("\n")
    assert [line for line in lines if line in questions] == questions, "none is folded or cut"
    assert sum(line.startswith("#") for line in lines) == sum(line.startswith("2026") for line in lines) == rows


def test_the_producer_is_asked_after_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Edits()
    picture = display.look(client, lambda seen: client.edits)
    assert picture.produced >= picture.rows > 0


class Troubled(Client):
    """A service whose supervisor says what ``payload`` says."""

    def __init__(self, **payload: Any) -> None:
        super().__init__()
        self.payload: dict[str, Any] = {"healthy": True, "aggregateLag": 70, "activeTasks": [{}], **payload}
        self.leading = False
        self.ill: dict[str, str] = {"metadata": "the database is away"}

    def supervisor_status(self, supervisor: str) -> dict[str, Any]:
        return {"payload": self.payload}

    def faults(self) -> dict[str, str]:
        return self.ill

    def leads(self) -> bool:
        return self.leading


def logs(folder: Path) -> dict[str, Path]:
    found = {name: folder / f"{name}.log" for name in ("broker", "service", "producer")}
    coloured = "\x1b[2m2026\x1b[0m [\x1b[33m\x1b[1mwarning  \x1b[0m] lease   taken late"
    found["service"].write_text(f"2026 [info     ] started\n{coloured}\n2026 [info     ] on\n")
    found["producer"].write_text("error: the broker refused a record\n")
    return found


@pytest.mark.parametrize(
    ("payload", "produced", "words"),
    [
        ({"waitingFor": ["a task does not read since 1970: no broker"]}, 20, ["no broker"]),
        ({"stateReason": "the topic was made again"}, 20, ["the topic was made again"]),
        ({"suspended": True}, 20, ["siltstone supervisor resume wikipedia"]),
        ({"healthy": False, "recentErrors": [{"message": "old"}, {"message": "newest"}]}, 20, ["newest"]),
        ({}, 10, ["sent nothing more (10 events)", "producer.log", "the broker refused a record"]),
        (
            {"detailedState": "CREATING_TASKS"},
            20,
            ["70 events are not", "CREATING_TASKS", "[warning ] lease taken late"],
        ),
    ],
)
def test_counts_that_stand_are_explained(tmp_path: Path, payload: Any, produced: int, words: list[str]) -> None:
    told = " ".join(standing.why(Troubled(**payload), "wikipedia", produced, 10, logs(tmp_path)))
    assert all(word in told for word in words), told


def test_a_service_that_does_not_come_up_is_told_with_its_log_and_never_called_another_without_proof(
    tmp_path: Path,
) -> None:
    client = Troubled()
    assert standing.unready(client, None) == "metadata: the database is away"
    client.ill = {}
    assert "no overlord leads yet" in standing.unready(client, None)
    client.leading = True
    assert "another" not in standing.unready(client, None)
    assert "--port" in standing.unready(client, False)
    found = logs(tmp_path)
    told = standing.named("service", found["service"])
    assert told.endswith(f"{found['service']}; its last trouble: 2026 [warning ] lease taken late")
    assert "without a trouble" in standing.named("broker", found["broker"])
