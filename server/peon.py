"""One task in one process: build its parts, restore, run, leave a result.

Entry points: ``run`` (called in a process forked by the forkserver) and ``python -m server.peon DIR``.
The process holds its directory's lock for life, so that a second start of the same attempt leaves at
once, and writes its result as its last act.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from contextlib import ExitStack
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import numpy.ma  # noqa: F401  # with its first batch each task would import it anew
import setproctitle
import structlog

import ingest.spec.parsing  # noqa: F401  # with its first spec each task would import pydantic and the rules anew
from ingest.clock import SystemClock
from ingest.protocol import PROTOCOL_VERSION, PauseReport, TaskCommand, TaskHello, TaskSpec
from ingest.stream.supplier import RecordSupplier
from ingest.supervisor.report import row_stats
from ingest.task.appending import AppenderRows, has_rows
from ingest.task.directory import AttemptDirectory, DirectoryTaken, TaskResult, own_identity
from ingest.task.restore import restorable
from ingest.task.runner import Outcome, TaskPorts, TaskRunner
from ingest.task.status import status_document
from segments.errors import ServiceError
from segments.live import LiveAnswer, LiveAsk
from server.clients import HttpOverlordActions
from server.http_pool import HttpPool
from server.log_setup import set_up_logging
from server.suppliers import kafka_reader, registry_schemas
from server.task_control import TaskControlServer
from server.task_settings import TaskSettings

log = structlog.get_logger()


class Controls:
    """``server.task_control.TaskControls`` over one runner and its rows."""

    def __init__(self, runner: TaskRunner, rows: AppenderRows) -> None:
        self._runner = runner
        self._rows = rows

    @property
    def token(self) -> str:
        return self._runner.token

    def command(self, command: TaskCommand) -> PauseReport | None:
        return self._runner.command(command)

    def live(self, ask: LiveAsk) -> LiveAnswer:
        return self._rows.live(ask)

    def chunk_bytes(self, number: int) -> bytes | None:
        return self._rows.chunk_bytes(number)

    def status(self) -> dict[str, Any]:
        runner = self._runner
        document = status_document(runner.view, self._rows, runner.stream_error, runner.handoffs_pending)
        return {**document, "pauses": runner.pauses}

    def row_stats(self) -> dict[str, Any]:
        return row_stats(self._rows.counters())

    def parse_errors(self) -> list[dict[str, Any]]:
        return list(self._rows.parse_errors())


class NoPandas(MetaPathFinder):
    """At its first array pyarrow imports pandas where it is installed, to tell whether it was given something of
    its: half a second and 40 MB before a task's first row. No task has to do with it."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Looks for nothing, and says of pandas that it is not there."""
        if fullname == "pandas":
            raise ModuleNotFoundError("tasks do without pandas", name=fullname)


def run(path: Path) -> int:
    """Runs the attempt in ``path`` to its end; the exit code is 0 only for success.

    For a process of its own: pandas cannot be imported in it any more.
    """
    sys.meta_path.insert(0, NoPandas())
    directory = AttemptDirectory(path)
    settings = TaskSettings.read(path.parent.parent)
    set_up_logging(settings.log_level, settings.log_format)
    spec = directory.spec()
    setproctitle.setproctitle(f"siltstone: task {spec.task_id}")
    structlog.contextvars.bind_contextvars(task=spec.task_id, attempt=spec.attempt)
    clock = SystemClock()
    try:
        with directory.held():
            outcome = _attempt(directory, spec, settings)
            directory.write_result(TaskResult(outcome.succeeded, outcome.error, clock.now_ms()))
    except DirectoryTaken as error:
        log.warning("attempt not run", error=str(error))
        return 1
    log.info("task ended", succeeded=outcome.succeeded, error=outcome.error)
    return 0 if outcome.succeeded else 1


def _attempt(directory: AttemptDirectory, spec: TaskSpec, settings: TaskSettings) -> Outcome:
    try:
        return _run_held(directory, spec, settings)
    except ServiceError as error:
        log.error("task failed", error=str(error))
        return Outcome(False, str(error))
    except Exception as error:  # the top of the process: the result file must say what happened
        log.exception("task broke")
        return Outcome(False, f"{type(error).__name__}: {error}")


def _run_held(directory: AttemptDirectory, spec: TaskSpec, settings: TaskSettings) -> Outcome:
    clock = SystemClock()
    with ExitStack() as stack:
        control = TaskControlServer(settings.bind_host)
        stack.callback(control.stop)
        address = f"{settings.advertise_host}:{control.port}"
        directory.write_identity(own_identity(spec.token, address, PROTOCOL_VERSION))
        pool = HttpPool()
        stack.callback(pool.close)
        older = restorable(directory.path.parent, spec, has_rows)
        rows = AppenderRows(directory, spec, clock, older, registry_schemas)
        stack.callback(rows.close)
        actions = HttpOverlordActions(settings.overlord_urls, pool, spec.token, spec.database)

        def supplier(posted: dict[str, Any], parts: frozenset[str]) -> RecordSupplier:
            return kafka_reader(posted, spec.topic_id, parts, spec.places)

        runner = TaskRunner(
            spec,
            TaskPorts(
                actions, rows, supplier, settings.storage(clock), clock, directory.is_scarce, settings.uploads_max
            ),
            TaskHello(spec.token, address, os.getpid()),
            settings.held_bytes_max,
        )
        faulthandler.register(signal.SIGUSR1, 2)
        signal.signal(signal.SIGTERM, lambda *_: runner.stop_restorable())
        control.start(Controls(runner, rows))
        return runner.run()


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
