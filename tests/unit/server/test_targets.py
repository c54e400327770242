"""Who must answer what a front is asked: the leader, a query node, all of them, or the front itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.clock import ManualClock
from ingest.metadata.memory import MemoryMetadataStore
from ingest.overlord.served import NODE_LEASE_MS
from query.assembly import Reached
from query.session import Seen, spell
from segments.storage.memory import MemoryDeepStorage
from server.config import Settings
from server.directory import LOOK_MS, PROMPT_MS, Directory
from server.forwarding import Headers, Refused, Target
from server.health import Health
from server.metrics import Metrics
from server.parts import Parts
from server.sessions import read_all
from server.targets import ProcessTargets

SQL = "/druid/v2/sql"


class Front:
    """A process with the role ``api`` alone, a leading overlord and query nodes by their lease rows."""

    def __init__(self, root: Path) -> None:
        self.store, self.clock = MemoryMetadataStore(), ManualClock()
        self.store.take_leadership("o", "overlord-1:1", None)
        self.targets = ProcessTargets(
            Parts(
                settings=Settings(data_dir=root),
                node="front",
                address="front:1",
                clock=self.clock,
                secret="s",
                health=Health(),
                metrics=Metrics(),
                storage=MemoryDeepStorage(),
                scratch=root,
                directory=Directory(self.store, self.clock),
                store=self.store,
            )
        )

    def renew(self, *nodes: str, **cached: int) -> None:
        for node in nodes:
            held = {"cached": {"wiki": cached.get(node, 0)}}
            now_ms = self.clock.now_ms()
            self.store.renew_node(node, ("query",), f"{node}:1", now_ms, {"wiki": 1, "ads": 1}, held)
        self.clock.advance(LOOK_MS)

    def find(self, path: str, body: bytes = b"", headers: Headers | None = None, method: str = "POST") -> Target | None:
        return self.targets.find(method, path, headers or [], body) if self.targets.concerns(path) else None

    def asked(self, path: str, body: bytes = b"", method: str = "POST") -> list[str]:
        found = self.find(path, body, method=method)
        return [] if found is None else list(found.addresses)


@pytest.fixture
def front(tmp_path: Path) -> Front:
    return Front(tmp_path)


def test_changes_go_to_the_leader_and_queries_to_a_query_node(front: Front) -> None:
    front.renew("q")
    assert front.asked("/druid/indexer/v1/supervisor/x/suspend") == ["overlord-1:1"]
    assert front.asked("/druid/coordinator/v1/datasources/x/markUnused") == ["overlord-1:1"]
    assert front.asked(SQL) == front.asked("/druid/v2") == ["q:1"]
    assert not front.asked("/druid/v2/datasources/clicks")
    assert not front.asked("/status") and not front.asked("/druid/v2/datasources")


def test_a_query_may_be_repeated_and_a_change_may_not(front: Front) -> None:
    front.renew("q")
    query, change = front.find(SQL), front.find("/druid/indexer/v1/supervisor")
    assert query is not None and query.repeats and change is not None and not change.repeats


def test_a_query_goes_first_to_who_holds_its_tables_segments(front: Front) -> None:
    front.renew("a", "b", "c", b=10)
    assert front.asked(SQL, b'{"query":"SELECT COUNT(*) FROM wiki"}')[0] == "b:1"
    assert sorted(front.asked(SQL, b"SELECT 1")) == ["a:1", "b:1", "c:1"]


def test_a_cancellation_goes_to_all_nodes(front: Front) -> None:
    front.renew("a", "b")
    found = front.find(SQL + "/some-id", method="DELETE")
    assert found is not None and found.to_all and sorted(found.addresses) == ["a:1", "b:1"]
    assert found.repeats, "told twice is told once; who is gone or breaks off holds up nobody"


def test_a_connection_of_jdbc_stays_with_one_node(front: Front) -> None:
    front.renew("a", "b", "c")
    ids = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(30)]
    chosen = []
    for connection in ids:
        json = front.asked(SQL + "/avatica/", b'{"request":"execute","connectionId":"' + connection.encode() + b'"}')
        binary = front.asked(SQL + "/avatica-protobuf/", b"\x0a\x24" + connection.encode() + b"\x12\x00")
        assert json == binary and len(json) == 1
        chosen += json
    assert len(set(chosen)) == 3


def test_a_node_that_renews_no_more_is_no_longer_waited_for(front: Front) -> None:
    front.renew("a", "b")
    front.asked(SQL)
    for _ in range(PROMPT_MS // LOOK_MS + 1):
        front.renew("a")
        front.asked(SQL)
    assert front.asked(SQL) == ["a:1", "b:1"] and front.targets.is_alive("b:1"), "late is asked last, but not gone"
    for _ in range(NODE_LEASE_MS // LOOK_MS):
        front.renew("a")
        front.asked(SQL)
    assert front.targets.is_alive("a:1") and not front.targets.is_alive("b:1")
    front.clock.advance(NODE_LEASE_MS)
    assert front.asked(SQL) == [] and front.targets.is_alive("b:1"), "all are gone: it is the database that is slow"


def test_what_a_session_saw_goes_along_and_comes_back(front: Front) -> None:
    front.renew("a", "b")
    session = [(b"X-Siltstone-Session", b"me"), (b"x-siltstone-seen", b"a client must not write this")]
    found = front.find(SQL, headers=session)
    assert found is not None and found.drop == {b"x-siltstone-seen"}
    assert found.headers() == [(b"x-siltstone-seen", b"")]
    shown = {"wiki": Seen(3, {("s", 0): Reached(0, 7)})}
    added = dict(found.answered(found.addresses[1], [(b"x-siltstone-seen", spell(shown).encode())]))
    assert added[b"x-siltstone-seen"] == b"", "it is not for the client"
    assert added[b"x-siltstone-session"] == b"me" and added[b"set-cookie"].startswith(b"siltstone-session=me; Path=/")
    [(_, told)] = found.headers()
    assert read_all(told.decode()) == shown, "also a repetition of the same query has to reach it"
    again = front.find(SQL, headers=[(b"cookie", b"siltstone-session=me")])
    assert again is not None and read_all(again.headers()[0][1].decode()) == shown
    assert again.addresses[0] == found.addresses[1], "it stays where it was answered"


def test_without_a_session_nothing_is_remembered_and_a_bad_one_is_refused(front: Front) -> None:
    front.renew("a")
    plain = front.find(SQL)
    assert plain is not None and plain.headers() == [] and plain.answered("a:1", []) == []
    with pytest.raises(Refused, match="X-Siltstone-Session"):
        front.find(SQL, headers=[(b"x-siltstone-session", b"no id")])
