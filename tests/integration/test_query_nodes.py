"""Several query nodes behind one front: a session sees each row once while nodes die, freeze, leave and join."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from siltstone import Client
from tests.acceptance.edits import PARTITIONS, Edits, facts, spec
from tests.acceptance.watcher import Watcher
from tests.chaos.cluster import Member
from tests.servers.kfake import Kfake
from tests.servers.topics import create_topic, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

COUNT = 2_400
START_S = 180
RATE = 150


class Split:
    """One process with overlord and middle manager, two query nodes, and a front that knows no query of its own."""

    def __init__(self, home: Path) -> None:
        shared: dict[str, Any] = {
            "secret": "of the split roles",
            "metadata": {"url": f"sqlite:///{home / 'metadata.db'}"},
            "deep_storage": {"type": "local", "path": str(home / "segments")},
            "query": {"workers": 1, "threads": 1},
        }
        self.back = Member(home / "back", {**shared, "roles": ["overlord", "middle-manager"]})
        where = {"overlord": {"urls": [self.back.client.url]}}
        self.nodes = [Member(home / f"node{n}", {**shared, **where, "roles": ["query"]}) for n in range(2)]
        self.front = Member(home / "front", {**shared, **where, "roles": ["api"]})

    @property
    def members(self) -> list[Member]:
        return [self.back, *self.nodes, self.front]


@pytest.fixture
def split(tmp_path: Path) -> Iterator[Split]:
    found = Split(tmp_path)
    with ExitStack() as stack:
        for member in found.members:
            member.patience_s = START_S
            member.spawn()
        for member in found.members:
            stack.enter_context(member)
        wait_for(found.front.client.leads, 120, "an overlord leads")
        yield found


def test_a_session_never_sees_a_count_fall_while_nodes_come_and_go(split: Split, kfake: Kfake) -> None:
    topic, client = create_topic(kfake.bootstrap, PARTITIONS), split.front.client
    one, two = split.nodes
    with Edits(kfake.bootstrap, topic, rate=RATE, count=COUNT) as edits:
        client.submit(spec(kfake.bootstrap, topic, replicas=2, maxRowsPerSegment=700))
        with Watcher(client, "wikipedia", lambda: edits.sent) as watcher:
            wait_for(lambda: watcher.last[0] >= 300, 90, "rows arrive")

            def sees_more(what: str) -> None:
                answers = watcher.answers
                wait_for(lambda: watcher.answers >= answers + 5, 120, what)

            failed = len(watcher.failures)
            one.kill()
            sees_more("the other node answers when one is killed")
            one.start()
            two.freeze()
            sees_more("the node that came back answers while the other is frozen")
            two.thaw()
            two.stop()
            sees_more("one node is enough")
            two.start()
            sees_more("nobody minds a node that joins")
            failures = watcher.failures[failed:]
            wait_for(lambda: watcher.last[0] == edits.all_sent(), 120, "every row is seen")
            client.supervisor_action("wikipedia", "suspend")
            wait_for(lambda: not split.back.task_processes(), 120, "everything is published")
        watcher.assert_exact(facts(COUNT))
        assert failures == [], "a node that is gone is nobody's failure"
        patient = Client(client.url, timeout_s=150)
        states = patient.sql("SELECT supervisor_id, state FROM sys.supervisors")
        assert states == [{"supervisor_id": "wikipedia", "state": "SUSPENDED"}], "told by the leader"
        nodes = patient.sql("SELECT server FROM sys.servers WHERE server_type = 'broker'")
        assert len(nodes) == 2
