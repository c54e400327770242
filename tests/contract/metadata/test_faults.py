"""A connection that breaks before, during and after a commit, and a database that is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from sqlalchemy.engine import make_url

from ingest.errors import StoreUnreachable
from ingest.metadata import sql_session
from ingest.metadata.memory import MemoryMetadataStore, StoreHooks
from ingest.metadata.sql import SqlMetadataStore, open_store
from ingest.protocol import PublishOutcome
from tests.contract.metadata.world import NOON_MS, SUPERVISOR, TABLE, TOPIC, World, at
from tests.servers.proxy import Proxy


class CommitThief(Proxy):
    """A proxy that, when told, breaks the connection around the next COMMIT.

    ``steal = "reply"`` lets the server commit and drops its answer; ``"commit"`` drops the COMMIT.
    """

    steal = ""
    swallow: bytes | None = None
    """What a question names that is not passed on, nor anything after it until ``heal``; connections stay."""
    _stolen = False

    def _lets_pass(self, data: bytes) -> bool:
        if self.swallow is not None and self.swallow in data:
            self.hang()
            self._passing.wait()
        if self._stolen:  # what the server said to the COMMIT
            self._stolen = False
            return False
        if self.steal and b"COMMIT\0" in data:  # not "... READ COMMITTED"
            self._stolen, wanted = self.steal == "reply", self.steal
            self.steal = ""
            return wanted == "reply"
        return True


@pytest.fixture
def thief(new_url: Callable[[str], str]) -> Iterator[tuple[CommitThief, World]]:
    """A world on PostgreSQL behind a proxy."""
    url = make_url(new_url("postgres"))
    proxy = CommitThief(url.port or 5432)
    behind = url.set(port=proxy.port).render_as_string(hide_password=False)
    with closing(proxy), closing(open_store(behind, lease_ms=1_500)) as store:
        world = World(store)
        world.start()
        yield proxy, world


@pytest.mark.integration
def test_a_lost_reply_to_a_commit_is_unknown_and_the_retry_says_already(thief: tuple[CommitThief, World]) -> None:
    proxy, world = thief
    request = world.ready(at(p0=5))
    proxy.steal = "reply"
    with pytest.raises(StoreUnreachable) as caught:
        world.publish(request)
    assert not caught.value.effect_known_absent
    again = world.publish(request)
    assert (again.outcome, again.version) == (PublishOutcome.ALREADY, world.store.table_versions()[TABLE])
    assert len(world.store.ledger(SUPERVISOR, 0, 9)) == 1


@pytest.mark.integration
def test_a_commit_that_never_arrived_is_unknown_too_and_the_retry_publishes(thief: tuple[CommitThief, World]) -> None:
    proxy, world = thief
    request = world.ready(at(p0=5))
    proxy.steal = "commit"
    with pytest.raises(StoreUnreachable) as caught:
        world.publish(request)
    assert not caught.value.effect_known_absent, "from here the two cannot be told apart"
    assert world.publish(request).outcome is PublishOutcome.PUBLISHED


@pytest.mark.integration
def test_a_connection_that_fails_before_the_commit_has_changed_nothing(thief: tuple[CommitThief, World]) -> None:
    proxy, world = thief
    request = world.ready(at(p0=5))
    proxy.cut()
    with pytest.raises(StoreUnreachable, match="nobody listens there") as caught:
        world.publish(request)
    assert caught.value.effect_known_absent
    with pytest.raises(StoreUnreachable, match=r"postgresql\+psycopg2://app@127\.0\.0\.1"):
        world.store.table(TABLE, None)
    proxy.open()
    assert world.publish(request).outcome is PublishOutcome.PUBLISHED, "it heals by itself"


@pytest.mark.integration
def test_an_answer_that_never_comes_is_given_up_and_the_next_session_asks_again(
    thief: tuple[CommitThief, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, world = thief
    request = world.ready(at(p0=5))
    monkeypatch.setattr(sql_session, "READ_SILENCE_S", 0.2)
    proxy.swallow = b"FROM ledger"
    with pytest.raises(StoreUnreachable, match="no answer from the host in time") as caught:
        world.store.ledger(SUPERVISOR, 0, 9)
    assert caught.value.effect_known_absent
    with pytest.raises(StoreUnreachable):
        world.publish(request)
    proxy.swallow = None
    proxy.heal()
    assert world.store.ledger(SUPERVISOR, 0, 9) == []
    assert world.publish(request).outcome is PublishOutcome.PUBLISHED


@pytest.mark.integration
def test_a_session_that_the_server_ended_is_replaced(thief: tuple[CommitThief, World], new_url: object) -> None:
    _, world = thief
    assert isinstance(world.store, SqlMetadataStore)
    with world.store.session.engine.connect() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert world.publish(world.ready(at(p0=5))).outcome is PublishOutcome.PUBLISHED


@pytest.mark.integration
def test_sessions_carry_their_time_outs(new_url: Callable[[str], str]) -> None:
    url = new_url("postgres")
    with closing(open_store(url, lease_ms=5_000)) as store, store.session.engine.connect() as connection:
        names = ("statement_timeout", "idle_in_transaction_session_timeout", "lock_timeout", "timezone")
        found = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]
        driver = connection.connection.driver_connection
        assert driver is not None and driver.get_dsn_parameters()["tcp_user_timeout"] == "4000"
    assert found == ["4s", "2500ms", "2500ms", "UTC"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"database": "no_such"}, "the database does not exist; create it"),
        ({"username": "nobody_here"}, "the user of metadata.url does not exist"),
        ({"port": 1}, "nobody listens there; start the database"),
        ({"host": "no-such-host.invalid"}, "the host of metadata.url is unknown"),
    ],
)
def test_what_is_wrong_with_a_connection_is_said_in_one_line(
    new_url: Callable[[str], str], change: dict[str, object], said: str
) -> None:
    url = make_url(new_url("postgres")).set(password="s3cret").set(**change)  # type: ignore[arg-type]
    with pytest.raises(StoreUnreachable, match=said) as caught:
        open_store(url.render_as_string(hide_password=False))
    assert caught.value.effect_known_absent and "s3cret" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_memory_store_loses_replies_and_refuses_calls_on_demand() -> None:
    calls: list[str] = []
    hooks = StoreHooks(committed=calls.append)
    world = World(MemoryMetadataStore(hooks))
    world.start()
    request = world.ready(at(p0=5))

    def fail(absent: bool) -> Callable[[str], None]:
        def hook(method: str) -> None:
            if method == "publish":
                raise StoreUnreachable(f"{method} failed", effect_known_absent=absent)

        return hook

    hooks.before_commit = fail(absent=True)
    with pytest.raises(StoreUnreachable):
        world.publish(request)
    assert world.store.ledger(SUPERVISOR, 0, 9) == [] and calls[-1] == "stage"
    hooks.before_commit, hooks.after_commit = None, fail(absent=False)
    with pytest.raises(StoreUnreachable):
        world.publish(request)
    hooks.after_commit = None
    assert calls[-1] == "publish" and world.publish(request).outcome is PublishOutcome.ALREADY
    assert calls.count("publish") == 1, "a repetition commits nothing"


def test_a_clone_of_a_memory_store_goes_its_own_way() -> None:
    world = World(MemoryMetadataStore())
    world.start()
    request = world.ready(at(p0=5))
    assert isinstance(world.store, MemoryMetadataStore)
    clone = world.store.clone()
    assert clone.publish(world.generation, request, NOON_MS).outcome is PublishOutcome.PUBLISHED
    stored = world.store.offsets(SUPERVISOR, TOPIC)
    assert stored is not None and stored.committed == at(p0=0, p1=0)
    assert world.publish(request).outcome is PublishOutcome.PUBLISHED
    assert clone.table(TABLE, None) == world.store.table(TABLE, None)
