"""One run: a stream, faults by seed for some minutes, everything healed, then the proof that nothing is missing."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from siltstone import ClientError
from tests.chaos.breaking import Broken
from tests.chaos.cluster import ChaosCluster, Layout
from tests.chaos.faults import Faults, enable
from tests.chaos.flow import Flow, spec
from tests.chaos.kinds import KINDS, schedule
from tests.chaos.witness import Witness
from tests.servers.disks import may_mount
from tests.servers.topics import create_topic

PARTITIONS = 4
AT_ONCE = 3
VISIBLE_S = 120.0
PUBLISHED_S = 120.0
# What a reset waits for a range that nobody can read any more (a minute), beside the other.
GIVEN_UP_S = 75.0
AGAIN_S = 1.0
LOAD_PER_CORE = 4.0
"""Beyond this the machine has other things to do, and deadlines grow in proportion."""
RATE = 400.0
ROWS_PER_SEGMENT = 1_500
COMPACTED: dict[str, Any] = {
    "cleanup_policy": "compact,delete",
    "retention_ms": -1,
    "min_cleanable_dirty_ratio": 0.01,
    "max_compaction_lag_ms": 1_000,
    "delete_retention_ms": 0,
    "segment_ms": 3_000,
}


@dataclass(slots=True)
class Outcome:
    """What a run did and found."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    what: str = ""
    rows: int = 0
    lost: int = 0
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
            f"seed {self.seed} ({self.what}): {self.rows} rows in {self.segments} segments, {self.lost} destroyed "
            f"before they were published, {sum(self.faults.values())} faults "
            f"({counts}); {self.answers} answers, {self.failed_queries} queries refused, longest silence "
            f"{self.longest_silence_s:.1f} s, behind after a node's death {self.rewinds}; after healing all rows "
            f"visible in {self.visible_after_s:.1f} s, published in {self.published_after_s:.1f} s more"
        )


def run(home: Path, *, seed: int, seconds: float, only: Sequence[str] = (), layout: Layout | None = None) -> Outcome:
    """Breaks things for ``seconds``, heals all, and proves the table. Main thread only.

    ``only`` names the kinds of faults to draw; ``layout`` is the seed's unless given.

    Raises:
        AssertionError: an answer was wrong, a row is missing, or something did not heal in time.
    """
    dice = random.Random(seed)
    replicas, groups = dice.choice([1, 2]), dice.choice([1, 2])
    drawn = Layout(
        query_nodes=dice.choice([1, 2]),
        brokers=dice.choice([1, 1, 3]),
        local_storage=dice.random() < 0.25,
        small_disks=dice.random() < 0.5 and may_mount(),
    )
    layout = layout or drawn
    transactional, compacted = dice.random() < 0.4, dice.random() < 0.4
    outcome = Outcome(seed, what=_told(replicas, groups, layout, transactional, compacted))
    say = _Log(home / "chaos.log")
    with ChaosCluster(home, layout) as cluster:
        cluster.topic_settings = COMPACTED if compacted else {}
        bootstrap = cluster.kafka.bootstrap
        topic = create_topic(bootstrap, PARTITIONS, replicas=layout.brokers, **cluster.topic_settings)
        flow = Flow(
            bootstrap, topic, partitions=PARTITIONS, rate=RATE, transactional=transactional, compacted=compacted
        )
        witnesses = [Witness(front.client, flow.content) for front in cluster.fronts]
        posted = partial(spec, cluster.bootstrap, topic, rows_per_segment=ROWS_PER_SEGMENT)
        cluster.front.client.submit(posted(replicas, groups))
        say(f"seed {seed}: {outcome.what}, {seconds:.0f} s, in {home}")
        flow.start()
        for witness in witnesses:
            witness.start()
        try:
            _until(lambda: sum(witnesses[0].seen) > 0, 60, "the first rows are seen")
            faults = Faults(cluster, flow, topic, witnesses, posted, dice)
            _break_things(cluster, faults, schedule(dice, only), seconds, outcome.faults, say)
            say("all is healed")
            _prove(cluster, flow, witnesses, outcome)
            _prove_files(cluster, flow, outcome)
        except BaseException:
            cluster.tell_stacks()
            raise
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
        _wait_and_mend(cluster, broken, min(time.monotonic() + pause_s, end), say)
        if time.monotonic() >= end:
            break
        if len(broken) >= AT_ONCE:
            continue
        busy = frozenset(part for _, each in broken for part in each.parts)
        try:
            done = KINDS[name].do(faults, busy)
        except TimeoutError as error:  # a server was too busy to be broken; whether it did as told is not known
            say(f"{name}: not in time {error}")
            continue
        if done is None:
            continue
        counts[name] += 1
        say(f"{done.what} for {lasting_s:.1f} s")
        broken.append((time.monotonic() + lasting_s, done))
    for _, each in broken:
        _until(lambda mend=each.mend: mend() is not False, 90, f"mended: {each.what}")  # type: ignore[misc]
    for server in (*cluster.servers, *cluster.members):
        server.start()
    for worker in cluster.workers:
        enable(worker)


def _wait_and_mend(
    cluster: ChaosCluster, broken: list[tuple[float, Broken]], until: float, say: Callable[[str], None]
) -> None:
    while True:
        now = time.monotonic()
        for entry in [entry for entry in broken if entry[0] <= now]:
            broken.remove(entry)
            if entry[1].mend() is False:
                broken.append((now + AGAIN_S, entry[1]))
            elif entry[1].parts:
                say(f"mended: {entry[1].what}")
        _start_what_ended(cluster, frozenset(part for _, each in broken for part in each.parts), say)
        if now >= until:
            return
        time.sleep(min(0.05, until - now))


def _start_what_ended(cluster: ChaosCluster, busy: frozenset[str], say: Callable[[str], None]) -> None:
    """A process that ended by itself is started again by whoever watches over it, as on any machine."""
    for member in cluster.members:
        if member.home.name not in busy and not member.alive:
            say(f"{member.home.name} had ended by itself: {member.tail(1)[-200:]}")
            member.spawn()


def _prove(cluster: ChaosCluster, flow: Flow, witnesses: list[Witness], outcome: Outcome) -> None:
    """Every row is seen by every node, then everything is published; no answer on the way was wrong."""
    started = time.monotonic()
    client, content = cluster.front.client, flow.content
    more_s = GIVEN_UP_S if content.loss.ranges else 0.0
    _until(lambda: _is_resumed(cluster), 60, "the supervisor is told to read")
    flow.stop()

    def all_seen() -> bool:
        return all(witness.sees_all() or witness.faults for witness in witnesses)

    _until(
        all_seen,
        VISIBLE_S + more_s,
        "every row is seen",
        lambda: [content.reaches(), *(witness.seen for witness in witnesses)],
    )
    outcome.visible_after_s = time.monotonic() - started
    started = time.monotonic()
    _until(lambda: _done(lambda: client.supervisor_action("chaos", "suspend")), 60, "the supervisor is suspended")
    _until(
        lambda: _published(cluster) >= content.sound or any(witness.faults for witness in witnesses),
        PUBLISHED_S + more_s,
        "everything is published",
        lambda: f"{_published(cluster)} of {content.sound}, {len(cluster.tasks())} tasks",
    )
    outcome.published_after_s = time.monotonic() - started
    for witness in witnesses:
        witness.stop()
        outcome.answers += witness.answers
        outcome.failed_queries += len(witness.failures)
        outcome.longest_silence_s = max(outcome.longest_silence_s, witness.longest_silence_s)
        outcome.rewinds += witness.rewinds
    assert [fault for witness in witnesses for fault in witness.faults] == []
    assert all(witness.sees_all() for witness in witnesses)


def _prove_files(cluster: ChaosCluster, flow: Flow, outcome: Outcome) -> None:
    """The ledger, the segment rows and the files agree, each row is there once, and all that were not destroyed."""
    client, content = cluster.front.client, flow.content
    outcome.segments = len(client.segments("chaos"))
    checked = cluster.front.verify("chaos")
    sound = f"COUNT(*) FILTER (WHERE {content.loss.condition()})"
    [found] = client.sql(
        f"SELECT COUNT(*) AS n, COUNT(DISTINCT p * 1000000000 + seq) AS d, {sound} AS sound FROM chaos"
    )
    outcome.rows = int(found["n"])
    outcome.lost = sum(content.sent) - outcome.rows
    assert found == {"n": checked["rows"], "d": checked["rows"], "sound": content.sound}, checked


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
    seconds *= max(1.0, os.getloadavg()[0] / (LOAD_PER_CORE * (os.cpu_count() or 1)))
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what} (found {found()})"
        time.sleep(0.2)


def _told(replicas: int, groups: int, layout: Layout, transactional: bool, compacted: bool) -> str:
    words = [
        f"{replicas} replicas, {groups} groups, {layout.query_nodes} query nodes, {layout.brokers} brokers",
        "local storage" if layout.local_storage else "S3",
        *(["small disks"] if layout.small_disks else []),
        *(["transactions"] if transactional else []),
        *(["compaction"] if compacted else []),
    ]
    return ", ".join(words)


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
