"""Every command that names a thing, over a whole system: an unknown name ends it with 1 and says what there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from server.app import build_app
from server.cli import app
from tests.in_process import click, eventually, spec
from tests.unit.server.test_api import SUPERVISOR, World
from tests.unit.server.test_forwarding import Listening

LOOKUP = {"version": "v1", "lookupExtractorFactory": {"type": "map", "map": {"a": "b"}}}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with the supervisor and the table ``clicks``, which has rows."""
    world = World(tmp_path_factory.mktemp("names"))
    served = Listening(build_app(world.parts))
    world.post(SUPERVISOR, spec())
    world.post("/druid/coordinator/v1/lookups/config/__default/names", LOOKUP, 202)
    world.system.stream.append("clicks", 0, [click(n) for n in range(10)])
    eventually(lambda: world.system.records_read() == 10)
    yield f"http://{served.address}"
    served.stop()
    world.system.stop()


def run(url: str, *words: str) -> tuple[int, str]:
    return invoked(*words, "--url", url)


def invoked(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    # The log of the service, which runs in this process, is no output of the command.
    return done.exit_code, re.sub(r"(?m)^\d{4}-\d\d-\d\d [\d:]+ \[.*\n", "", done.output)


NAMES = [
    *(f"supervisor {each} clikcs" for each in ("status", "spec", "history", "audit", "ledger", "stats", "errors")),
    *(f"supervisor {each} clikcs" for each in ("health", "suspend", "resume", "terminate", "reset --yes")),
    "supervisor reset-offsets clikcs 0=1 --yes",
    "supervisor reset-to-latest-and-backfill clikcs --yes",
    "supervisor handoff clikcs 1",
    "segments list clikcs",
    "segments mark-unused clikcs s1 --yes",
    "segments mark-used clikcs --interval 2026/2027",
    "verify clikcs",
    *(f"quarantine {each} clikcs" for each in ("list", "show", "replay", "export --to /nowhere")),
]
TASKS = ["task status index_kafka_clicks_9_0", "task log index_kafka_clicks_9_0", "task shutdown t --yes"]


@pytest.mark.parametrize("words", NAMES)
def test_a_supervisor_or_table_that_is_none_is_told_with_those_that_are(url: str, words: str) -> None:
    code, said = run(url, *words.split())
    assert code == 1 and re.fullmatch(r"error: no \w+ (is|was ever) named 'clikcs'; there is 'clicks'\n", said)


@pytest.mark.parametrize("words", TASKS)
def test_a_task_that_is_none_is_told_with_those_that_are(url: str, words: str) -> None:
    code, said = run(url, *words.split())
    name = words.split()[2]
    assert code == 1 and re.search(rf"no (running )?task is named {name!r}; there (is|are) 'index_kafka_clicks_", said)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("supervisor handoff clicks 77", r"clicks has no task group 77; it has \d+"),
        ("supervisor reset-offsets clicks 0=3 7=1 --yes", "supervisor 'clicks' reads no partition 7; it reads 0, 1"),
        ("segments mark-unused clicks s1 --yes", "table 'clicks' has no segment s1; `siltstone segments list clicks`"),
        ("segments mark-used clicks s1", "table 'clicks' has no segment s1; `siltstone segments list clicks`"),
        ("lookups show l9", "no lookup 'l9' is posted in tier '__default'; there is 'names'"),
        ("lookups remove l9 --yes", "no lookup 'l9' is posted in tier '__default'; there is 'names'"),
        ("lookups show names --tier x", "no lookup is posted in tier 'x'; there is '__default'"),
        ("quarantine show clicks --file f9", "table 'clicks' has no quarantine file 'f9'"),
        ("quarantine export clicks --to /nowhere --file f9", "table 'clicks' has no quarantine file 'f9'"),
        ("quarantine replay clicks --file f9", "table 'clicks' has no quarantine file 'f9'"),
        ("cancel q9", "no query has the id 'q9' now; `siltstone queries` shows"),
        ("worker drain", "the process at http://.* has no middle manager; name the address of one by --url"),
        ("worker enable", "the process at http://.* has no middle manager; name the address of one by --url"),
    ],
)
def test_what_else_is_named_and_is_not_there_ends_with_1(url: str, words: str, told: str) -> None:
    code, said = run(url, *words.split())
    assert code == 1 and re.search(f"^error: {told}", said, re.MULTILINE)


def test_of_several_groups_those_that_there_are_are_asked(url: str) -> None:
    def groups() -> list[str]:
        return list(json.loads(run(url, "supervisor", "stats", "clicks", "--json")[1]))

    eventually(groups)  # a leader that has just taken over has heard no task yet
    [group] = groups()
    code, said = run(url, "supervisor", "handoff", "clicks", group, "99")
    assert code == 1
    assert said == f"asked groups {group} of clicks to publish\nerror: clicks has no task group 99; it has {group}\n"


@pytest.mark.parametrize("more", [[], ["s1", "--interval", "2026/2027"]])
@pytest.mark.parametrize("mark", ["mark-unused", "mark-used"])
def test_segments_are_marked_one_way_and_without_a_question_first(url: str, mark: str, more: list[str]) -> None:
    code, said = run(url, "segments", mark, "clicks", *more)
    assert code == 2 and said.startswith("error: name segments, as `siltstone segments list` shows them, or give")


def test_a_spec_is_refused_in_the_same_words_with_or_without_a_service(url: str, tmp_path: Path) -> None:
    bad, deep, torn = (tmp_path / name for name in ("bad.json", "deep.json", "torn.json"))
    wrong = spec(maxRowsPerSegment="many", maxRowsPerSegmnet=5)
    del wrong["spec"]["ioConfig"]["topic"]
    bad.write_text(json.dumps(wrong))
    deep.write_text("[" * 200 + "]" * 200)
    torn.write_text("{")
    for file, code in ((bad, 1), (deep, 1), (torn, 2), (tmp_path / "absent", 2)):
        for more in ([], ["--json"]):
            alone = invoked("supervisor", "validate", str(file), *more)
            assert alone[0] == code and alone[1]
            assert run(url, "supervisor", "submit", str(file), *more) == alone
    assert run(url, "supervisor", "plan", str(bad)) == invoked("supervisor", "validate", str(bad))
