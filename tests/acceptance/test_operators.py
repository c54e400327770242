"""What operators meet: records that cannot be read, a topic that is not there, changed specs, resets."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from siltstone import ApiError
from tests.acceptance.edits import PARTITIONS, facts
from tests.acceptance.service import Service
from tests.acceptance.table import COUNT, Table
from tests.servers.fixtures import fresh_name
from tests.servers.kafka import KafkaCluster
from tests.servers.topics import create_topic, produce, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all tests; each has its own topic and table."""
    with Service(tmp_path_factory.mktemp("operators"), {"http": {"stop_s": 2}}) as found:
        yield found


def test_a_posted_spec_gives_its_first_row_at_once(service: Service, kafka: KafkaCluster) -> None:
    table = Table(service, kafka.bootstrap)
    table.send(100)
    begun = time.monotonic()
    table.client.submit(table.spec())
    wait_for(lambda: table.count() > 0, 90, "the first row")
    print(f"first row {time.monotonic() - begun:.2f} s after the post")
    table.client.supervisor_action(table.name, "terminate")


def test_records_that_cannot_be_read_are_counted_sampled_and_kept(service: Service, kafka: KafkaCluster) -> None:
    table = Table(service, kafka.bootstrap)
    table.send()
    produce(kafka.bootstrap, table.topic, [b"{broken", b"", None, b'{"no":"time"}', b'{"time":"not a time"}'])
    table.client.submit(table.spec())
    wait_for(lambda: table.count() == COUNT, 120, "good rows are visible")
    supervisor = f"/druid/indexer/v1/supervisor/{table.name}"
    wait_for(lambda: len(table.client.get(f"{supervisor}/parseErrors")) >= 3, 90, "samples are told")
    samples = str(table.client.get(f"{supervisor}/parseErrors"))
    assert "partition" in samples and "offset" in samples
    assert table.status()["healthy"] is True
    table.rest(COUNT)
    mended = table.spec()
    mended["spec"]["dataSchema"]["timestampSpec"]["missingValue"] = "2016-06-27T00:00:00Z"
    table.client.submit({**mended, "suspended": True})
    [done] = json.loads(service.cli("quarantine", "replay", table.name, "--json"))
    assert (done["records"], done["rows"], done["quarantined"]) == (3, 1, 2)
    wait_for(lambda: table.count() == COUNT + 1, 90, "the record that only had no time")
    assert service.verify(table.name)["replays"] == 1


def test_a_missing_topic_is_named_and_waited_for(service: Service, kafka: KafkaCluster) -> None:
    table = Table(service, kafka.bootstrap, topic=fresh_name("absent"))
    table.client.submit(table.spec())
    wait_for(lambda: not table.status()["healthy"], 120, "the supervisor is unhealthy")
    assert table.topic in str(table.status()["recentErrors"])
    create_topic(kafka.bootstrap, PARTITIONS, table.topic)
    table.send()
    wait_for(lambda: table.count() == COUNT, 120, "rows arrive")
    wait_for(lambda: table.status()["healthy"], 120, "the supervisor is healthy again")
    table.rest(COUNT)


def test_a_changed_spec_cuts_over_without_loss(service: Service, kafka: KafkaCluster) -> None:
    table = Table(service, kafka.bootstrap)
    table.send()
    table.client.submit(table.spec())
    wait_for(lambda: table.count() == COUNT, 120, "the old spec's rows")
    changed = table.spec()
    changed["spec"]["dataSchema"]["dimensionsSpec"]["dimensions"].remove("page")
    table.client.submit(changed)
    # Rows sent before the cut follow the old spec, so wait until the new one reads.
    wait_for(lambda: table.published() == COUNT, 120, "the old spec's rows are published")
    table.send()
    wait_for(lambda: table.count() == 2 * COUNT, 120, "the new spec's rows")
    [row] = table.client.sql(f'SELECT COUNT(page) AS pages, SUM(added) AS added FROM "{table.name}"')
    assert row == {"pages": COUNT, "added": 2 * facts(COUNT).added}
    table.rest(2 * COUNT)
    service.verify(table.name)


def test_a_reset_reads_again_and_says_so_in_the_audit(service: Service, kafka: KafkaCluster) -> None:
    table = Table(service, kafka.bootstrap)
    table.send()
    table.client.submit(table.spec())
    wait_for(lambda: table.count() == COUNT, 120, "every row is live")
    service.cli("supervisor", "reset", table.name, "--yes")
    wait_for(lambda: table.count() == 2 * COUNT, 120, "everything was read twice")
    table.rest(2 * COUNT)
    service.verify(table.name)


def test_a_restarted_service_goes_on_where_it_was(service: Service, kafka: KafkaCluster) -> None:
    table = Table(service, kafka.bootstrap)
    table.send()
    table.client.submit(table.spec())
    wait_for(lambda: table.count() == COUNT, 120, "every row is live")
    wait_for(lambda: len(service.task_processes()) == 1, 120, "tasks of other tables are gone")
    before = {task.pid for task in service.task_processes()}
    told: list[ApiError] = []
    assert service.proc is not None
    with ThreadPoolExecutor(1) as pool:
        each = ", ".join(f'"{table.name}" {alias}' for alias in "abc")
        slow = f"SELECT COUNT(*) FROM {each} WHERE a.added + b.added + c.added < -9"
        running = pool.submit(service.client.sql, slow)
        wait_for(lambda: len(service.client.get("/druid/v2/sql/queries")["queries"]) == 1, what="it runs")
        service.proc.terminate()
        begun = time.monotonic()

        def is_refused() -> bool:
            try:
                table.count()
            except ApiError as error:
                told.append(error)
            return bool(told)

        wait_for(is_refused, what="new queries are refused")
        with pytest.raises(ApiError, match=r"is stopping.*http\.stop_s") as ended:
            running.result()
    assert (told[0].status, ended.value.status) == (503, 503)
    assert "takes no new requests" in str(told[0]) and told[0].body["errorCode"] == "serviceUnavailable"
    assert service.proc.wait(30) == 0
    print(f"ended {time.monotonic() - begun:.1f} s after SIGTERM")
    assert "Traceback" not in service.tail(40)
    service.start()
    assert table.count() == COUNT
    assert before <= {task.pid for task in service.task_processes()}
    table.rest(COUNT)
    service.verify(table.name)


def test_a_drained_worker_publishes_early_and_reads_on_when_enabled(service: Service, kafka: KafkaCluster) -> None:
    table = Table(service, kafka.bootstrap)
    table.send()
    table.client.submit(table.spec())
    wait_for(lambda: table.count() == COUNT, 120, "every row is live")
    service.cli("worker", "drain", "--wait", "60")
    assert not service.task_processes() and table.published() == COUNT
    table.send()
    service.cli("worker", "enable")
    wait_for(lambda: table.count() == 2 * COUNT, 120, "it reads on")
    table.rest(2 * COUNT)
    service.verify(table.name)


def test_tasks_are_added_and_taken_away_while_rows_arrive_and_everything_is_killed(
    service: Service, kafka: KafkaCluster
) -> None:
    table = Table(service, kafka.bootstrap)
    expected, seen = 0, 0
    for task_count in (1, 3, 1):
        posted = table.spec()
        posted["spec"]["ioConfig"]["taskCount"] = task_count
        table.client.submit(posted)
        if task_count == 3:  # the next leader finishes what this one began
            service.kill()
            service.start()
        table.send()
        expected += COUNT
        begun = time.monotonic()
        while seen < expected:
            count = table.count()
            assert seen <= count <= expected, "a count never falls"
            seen = count
            assert time.monotonic() - begun < 90, f"{seen} of {expected} rows with {task_count} tasks"
        print(f"{task_count} tasks: all rows after {time.monotonic() - begun:.1f} s")
        wait_for(lambda n=task_count: len(table.status()["activeTasks"]) == n, 120, f"{task_count} tasks")  # type: ignore[misc]
    table.rest(expected)
    service.verify(table.name)


def test_too_many_bad_records_stop_a_supervisor_until_it_is_resumed(service: Service, kafka: KafkaCluster) -> None:
    table = Table(service, kafka.bootstrap)
    table.client.submit(table.spec(maxParseExceptions=2))
    table.send()
    produce(kafka.bootstrap, table.topic, [b"{broken"] * 3)
    wait_for(lambda: not table.status()["healthy"], 120, "three of two")
    wait_for(lambda: not table.status()["activeTasks"] and not table.status()["publishingTasks"], 120, "its tasks end")
    status = table.status()
    assert status["state"] == "UNHEALTHY_TASKS" and "maxParseExceptions allows 2" in status["stateReason"]
    before = table.published()
    table.send()
    assert table.count() == before, "nothing is read"
    service.cli("supervisor", "resume", table.name)
    wait_for(lambda: table.count() == 2 * COUNT, 120, "it reads on after the bad ones")
    wait_for(lambda: table.status()["healthy"], 90, "and is healthy")
    table.rest(2 * COUNT)
    service.verify(table.name)


def test_the_command_line_prints_bare_csv_and_names_what_is_not_there(service: Service) -> None:
    assert service.cli("query", "SELECT 1 AS one", "--csv") == "one\n1\n"
    assert service.cli("segments", "list", "nope", code=1) == "", "only an error line"


def test_a_server_says_what_its_threads_are_doing_and_goes_on(service: Service) -> None:
    assert service.proc is not None
    os.kill(service.proc.pid, signal.SIGUSR1)
    wait_for(lambda: "most recent call first" in service.tail(400), 90, "the stacks are in the log")
    assert service.client.health()


def test_a_range_is_planned_read_completed_and_reads_nothing_else(service: Service, kafka: KafkaCluster) -> None:
    table = Table(service, kafka.bootstrap)
    table.send()
    ends = {str(partition): COUNT // PARTITIONS // 2 for partition in range(PARTITIONS)}
    posted = table.spec()
    posted["spec"]["ioConfig"] |= {
        "boundedStreamConfig": {"startSequenceNumbers": dict.fromkeys(ends, 100), "endSequenceNumbers": ends},
        "taskCount": 1,
    }
    file = service.home / f"{table.name}.json"
    file.write_text(json.dumps(posted))
    plan = json.loads(service.cli("supervisor", "plan", str(file), "--records", "40", "--json"))
    assert (plan["action"], plan["problems"], plan["from"]) == ("create", [], dict.fromkeys(ends, 100))
    assert plan["sample"]["planned"] == {"rows": 40, "good": 40}
    table.client.submit(posted)
    wait_for(lambda: table.status()["state"] == "COMPLETED", 120, "it is completed")
    table.send(400)
    rows = sum(ends.values()) - 100 * PARTITIONS
    wait_for(lambda: table.published() == rows, 90, "its rows are published")
    assert table.count() == rows and table.status()["state"] == "COMPLETED"
    service.verify(table.name)
    plan = json.loads(service.cli("supervisor", "plan", str(file), "--records", "0", "--json"))
    assert (plan["action"], plan["committed"]) == ("none", ends)


def test_a_quiet_supervisor_goes_idle_and_wakes_with_exact_rows(service: Service, kafka: KafkaCluster) -> None:
    table = Table(service, kafka.bootstrap)
    table.send()
    posted = table.spec()
    posted["spec"]["ioConfig"]["idleConfig"] = {"enabled": True, "inactiveAfterMillis": 500}
    table.client.submit(posted)
    wait_for(lambda: table.status()["state"] == "IDLE", 120, "it is idle")
    wait_for(lambda: not table.status()["activeTasks"] and table.published() == COUNT, 90, "its tasks have ended")
    table.send()
    wait_for(lambda: table.count() == 2 * COUNT, 120, "it wakes")
    wait_for(lambda: table.published() == 2 * COUNT, 120, "and publishes")
    service.verify(table.name)


def test_a_jump_to_the_latest_offsets_loses_and_doubles_nothing(service: Service, kafka: KafkaCluster) -> None:
    table = Table(service, kafka.bootstrap)
    posted = table.spec()
    posted["spec"]["ioConfig"]["useEarliestOffset"] = False
    table.client.submit(posted)
    wait_for(lambda: table.status()["state"] == "RUNNING" and table.status()["latestOffsets"], 120, "it reads")
    table.send()
    jump = ("supervisor", "reset-to-latest-and-backfill", table.name)
    later = json.loads(service.cli(*jump, "--yes", "--json"))["backfillSupervisorId"]
    table.send()
    supervisor = f"/druid/indexer/v1/supervisor/{later}"

    def completed() -> bool:
        known = later in table.client.get("/druid/indexer/v1/supervisor")
        return known and table.client.get(f"{supervisor}/status")["payload"]["state"] == "COMPLETED"

    wait_for(completed, 120, "what was skipped is read")
    wait_for(lambda: table.count() == 2 * COUNT, 120, "every row once")
    table.rest(2 * COUNT)
    service.verify(table.name)
