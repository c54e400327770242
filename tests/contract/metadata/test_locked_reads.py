"""A row read under its lock is the newest one, also when the reader had to wait for the lock."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
import sqlalchemy as sa

from ingest.metadata import tables as t
from ingest.metadata.engine import WRITING
from ingest.metadata.records import DesiredState
from ingest.metadata.sql import open_store
from tests.contract.metadata.conftest import PATIENT_MS
from tests.contract.metadata.world import NOON_MS, SUPERVISOR, World


@pytest.mark.integration
@pytest.mark.parametrize("sql_url", ["postgres"], indirect=True)
def test_a_suspend_that_waited_for_a_new_spec_still_finds_its_supervisor(sql_url: str) -> None:
    store, other = open_store(sql_url, lease_ms=PATIENT_MS), open_store(sql_url, lease_ms=PATIENT_MS)
    with closing(store), closing(other):
        world = World(store)
        world.start()
        old = store.supervisor(SUPERVISOR)
        assert old is not None
        answers: list[object] = []

        def suspend() -> None:
            try:
                answers.append(other.set_desired(world.generation, SUPERVISOR, DesiredState.SUSPENDED, NOON_MS))
            except Exception as error:
                answers.append(error)

        options = {WRITING: True}
        with store.session.engine.connect().execution_options(**options) as connection, connection.begin():
            version = old.version + 1
            values = {"supervisor": SUPERVISOR, "version": version, "spec": {"new": 1}, "created_ms": NOON_MS}
            connection.execute(sa.insert(t.supervisor_specs).values(**values))
            connection.execute(sa.update(t.supervisors).values(version=version))
            waiting = threading.Thread(target=suspend)
            waiting.start()
            waits = sa.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            for _ in range(2_000):
                if connection.execute(waits).scalar_one() > 0:
                    break
                threading.Event().wait(0.005)
        waiting.join(10)
        (record,) = answers
        assert getattr(record, "version", record) == version
