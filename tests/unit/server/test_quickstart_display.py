"""The quickstart without a terminal: answers are printed while it runs, and never more rows than events."""

from __future__ import annotations

from typing import Any

import pytest

from server.quickstart import display
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


def test_the_producer_is_asked_after_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Edits()
    picture = display.look(client, lambda seen: client.edits)
    assert picture.produced >= picture.rows > 0
