"""One run: a stream, faults by seed for some minutes, everything healed, then the proof that nothing is missing."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from siltstone import ClientError
from tests.chaos.cluster import ChaosCluster
from tests.chaos.faults import KINDS, Broken, Faults, enable, schedule
from tests.chaos.flow import Flow, spec
from tests.chaos.witness import Witness
from tests.servers.topics import create_topic

PARTITIONS = 4
AT_ONCE = 3
VISIBLE_S = 120.0
PUBLISHED_S = 120.0
RATE = 400.0
ROWS_PER_SEGMENT = 1_500


@dataclass(slots=True)
class Outcome:
    """What a run did and found."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    answers: int = 0
    failed_queries: int = 0
    longest_silence_s: float = 0.0
    rewinds: list[int] = field(default_factory=list)
    segments: int = 0
    visible_after_s: float = 0.0
    published_after_s: float = 0.0

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        return (
            f"seed {self.seed}: {self.rows} rows in {self.segments} segments, {sum(self.faults.values())} faults "
            f"({counts}); {self.answers} answers, {self.failed_queries} queries refused, longest silence "
            f"{self.longest_silence_s:.1f} s, behind after a node's death {self.rewinds}; after healing all rows "
            f"visible in {self.visible_after_s:.1f} s, published in {self.published_after_s:.1f} s more"
        )


def run(home: Path, *, seed: int, seconds: float) -> Outcome:
    """Breaks things for ``seconds``, heals all, and proves the table. Main thread only.

    Raises:
        AssertionError: an answer was wrong, a row is missing, or something did not heal in time.
    """
    dice = random.Random(seed)
    replicas, groups, nodes = dice.choice([1, 2]), dice.choice([1, 2]), dice.choice([1, 2])
    transactional = dice.random() < 0.4
    outcome = Outcome(seed)
    say = _Log(home / "chaos.log")
    with ChaosCluster(home, query_nodes=nodes) as cluster:
        topic = create_topic(cluster.kafka.bootstrap, PARTITIONS)
        flow = Flow(cluster.kafka.bootstrap, topic, partitions=PARTITIONS, rate=RATE, transactional=transactional)
        witnesses = [Witness(front.client, flow) for front in cluster.fronts]
        posted = partial(spec, cluster.bootstrap, topic, rows_per_segment=ROWS_PER_SEGMENT)
        cluster.front.client.submit(posted(replicas, groups))
        say(
            f"seed {seed}: {replicas} replicas, {groups} groups, {nodes} query nodes, "
            f"{'transactions, ' if transactional else ''}{seconds:.0f} s, in {home}"
        )
        flow.start()
        for witness in witnesses:
            witness.start()
        try:
            _until(lambda: sum(witnesses[0].seen) > 0, 60, "the first rows are seen")
            faults = Faults(cluster, witnesses, posted, dice)
            _break_things(cluster, faults, schedule(dice), seconds, outcome.faults, say)
            say("all is healed")
            _prove(cluster, flow, witnesses, outcome)
            _prove_files(cluster, outcome)
        finally:
            for witness in witnesses:
                witness.stop()
                say(f"{witness.answers} answers, {len(witness.failures)} refusals, faults {witness.faults[:5]}")
                for reason, count in Counter(witness.failures).most_common(8):
                    say(f"    refused {count}: {reason[:300]}")
    return outcome


def _break_things(
    cluster: ChaosCluster,
    faults: Faults,
    plan: Iterator[tuple[float, str, float]],
    seconds: float,
    counts: Counter[str],
    say: Callable[[str], None],
) -> None:
    end = time.monotonic() + seconds
    broken: list[tuple[float, Broken]] = []
    for pause_s, name, lasting_s in plan:
        _wait_and_mend(broken, min(time.monotonic() + pause_s, end), say)
        if time.monotonic() >= end:
            break
        if len(broken) >= AT_ONCE:
            continue
        busy = frozenset(part for _, each in broken for part in each.parts)
        done = KINDS[name].do(faults, busy)
        if done is None:
            continue
        counts[name] += 1
        say(f"{done.what} for {lasting_s:.1f} s")
        broken.append((time.monotonic() + lasting_s, done))
    for _, each in broken:
        each.mend()
    for server in (cluster.kafka.nodes[1], cluster.postgres, cluster.seaweed, *cluster.members):
        server.start()
    for worker in cluster.workers:
        enable(worker)


def _wait_and_mend(broken: list[tuple[float, Broken]], until: float, say: Callable[[str], None]) -> None:
    while True:
        now = time.monotonic()
        for entry in [entry for entry in broken if entry[0] <= now]:
            broken.remove(entry)
            entry[1].mend()
            if entry[1].parts:
                say(f"mended: {entry[1].what}")
        if now >= until:
            return
        time.sleep(min(0.05, until - now))


def _prove(cluster: ChaosCluster, flow: Flow, witnesses: list[Witness], outcome: Outcome) -> None:
    """Every row is seen by every node, then everything is published; no answer on the way was wrong."""
    started = time.monotonic()
    client = cluster.front.client
    _until(lambda: _is_resumed(cluster), 60, "the supervisor is told to read")
    rows = flow.stop()
    outcome.rows = sum(rows)

    def all_seen() -> bool:
        return all(witness.seen == rows or witness.faults for witness in witnesses)

    _until(all_seen, VISIBLE_S, "every row is seen", lambda: [rows, *(witness.seen for witness in witnesses)])
    outcome.visible_after_s = time.monotonic() - started
    started = time.monotonic()
    _until(lambda: _done(lambda: client.supervisor_action("chaos", "suspend")), 60, "the supervisor is suspended")
    _until(
        lambda: _published(cluster) == outcome.rows or any(witness.faults for witness in witnesses),
        PUBLISHED_S,
        "everything is published",
        lambda: f"{_published(cluster)} of {outcome.rows}, {len(cluster.tasks())} tasks",
    )
    outcome.published_after_s = time.monotonic() - started
    for witness in witnesses:
        witness.stop()
        outcome.answers += witness.answers
        outcome.failed_queries += len(witness.failures)
        outcome.longest_silence_s = max(outcome.longest_silence_s, witness.longest_silence_s)
        outcome.rewinds += witness.rewinds
    assert [fault for witness in witnesses for fault in witness.faults] == []
    assert all(witness.seen == rows for witness in witnesses)


def _prove_files(cluster: ChaosCluster, outcome: Outcome) -> None:
    """The ledger, the segment rows and the files agree, and each row is there once."""
    client = cluster.front.client
    outcome.segments = len(client.segments("chaos"))
    checked = cluster.front.verify("chaos")
    assert checked["rows"] == outcome.rows, checked
    once = client.sql("SELECT COUNT(*) AS n, COUNT(DISTINCT p * 1000000000 + seq) AS d FROM chaos")
    assert once == [{"n": outcome.rows, "d": outcome.rows}]


def _published(cluster: ChaosCluster) -> int:
    """Rows in published segments once no task is left; -1 before and while nobody answers."""
    if cluster.tasks():
        return -1
    with suppress(ClientError):
        return sum(int(each["num_rows"]) for each in cluster.front.client.segments("chaos"))
    return -1


def _is_resumed(cluster: ChaosCluster) -> bool:
    """Whether the supervisor is there and not suspended; resumes it where it is (to resume twice is refused)."""
    client = cluster.front.client
    with suppress(ClientError):
        [found] = client.supervisors()
        if not found["suspended"]:
            return True
        client.supervisor_action("chaos", "resume")
    return False


def _done(action: Callable[[], object]) -> bool:
    with suppress(ClientError):
        action()
        return True
    return False


def _until(condition: Callable[[], object], seconds: float, what: str, found: Callable[[], object] = str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what} (found {found()})"
        time.sleep(0.2)


class _Log:
    """Lines with seconds since the start, printed and kept beside the servers' logs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = time.monotonic()

    def __call__(self, line: str) -> None:
        stamp = time.strftime("%H:%M:%S", time.gmtime())
        text = f"{stamp} [{time.monotonic() - self._start:6.1f}] {line}"
        print(text, flush=True)
        with self._path.open("a") as file:
            file.write(text + "\n")
