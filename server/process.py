"""One server process from its start to its end: socket, lock, signals, a graceful stop with a deadline, exit codes."""

from __future__ import annotations

import errno
import faulthandler
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import orjson
import setproctitle
import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from ingest.worker.launchers import ForkserverLauncher
from segments.errors import ServiceError
from server.config import HttpSettings, load
from server.data_dir import open_data_dir
from server.health import Health
from server.log_setup import set_up_logging
from server.stopping import ENDED_S, REFUSAL, Stopping, answered, refuse

if TYPE_CHECKING:
    import uvicorn

    from server.wiring import Services

log = structlog.get_logger()

TASK_ENTRY = "server.peon:run"
S3_TASK_ENTRY = "server.peon_s3:run"
STOP_S = 22.0
"""The bound of everything after the requests: roles, lease, connections."""
CUT_OFF_S = 1
THREADS_END_S = 3.0
BACKLOG = 512


class CannotListen(ServiceError):
    """The address is taken or not ours."""


class Front:
    """The ASGI application of a process: says what it waits for until the services are there, and refuses
    what comes once it stops."""

    def __init__(self, health: Health, stopping: Stopping) -> None:
        self.app: ASGIApp | None = None
        self.stopping = stopping
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if not self.stopping.takes(scope):
            await refuse(send, scope["path"], REFUSAL)
        elif self.app is None:
            await self._not_ready(send)
        else:
            with self.stopping.counted(scope):
                await answered(self.app, scope, receive, send, self.stopping)

    async def _not_ready(self, send: Send) -> None:
        faults = self._health.faults() or {"start": "the service is starting"}
        body = orjson.dumps({"healthy": False, "faults": faults, "error": "; ".join(faults.values())})
        headers = [(b"content-type", b"application/json"), (b"retry-after", b"1")]
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def serve_until_stopped(config: Path | None, overrides: Mapping[str, Any]) -> int:
    """Serves until SIGTERM or SIGINT; 0 after an orderly end, 1 when it could not start or end in time.

    Raises:
        ServiceError: settings, port or data directory cannot be used.
    """
    faulthandler.register(signal.SIGUSR1, 2)  # what every thread is doing, for whoever looks at a server that hangs
    settings = load(config, overrides)
    set_up_logging(settings.log.level, settings.log.format)
    setproctitle.setproctitle(f"siltstone: {','.join(settings.roles)}")
    listener = listen(settings.http)
    try:
        data = open_data_dir(settings.data_dir, settings.secret)
    except ServiceError:
        listener.close()
        raise
    launcher = ForkserverLauncher(S3_TASK_ENTRY if settings.deep_storage.type == "s3" else TASK_ENTRY)
    if "middle-manager" in settings.roles:
        launcher.warm_up()
    # Only now: the forkserver does its imports while we do ours.
    from server.wiring import Services

    health = Health()
    return _serve(listener, Services(settings, data, listener.getsockname()[1], health, launcher), health)


def listen(http: HttpSettings) -> socket.socket:
    """A listening socket, made before anything is started.

    Raises:
        CannotListen: the message names address and cure.
    """
    family = socket.AF_INET6 if ":" in http.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((http.host, http.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            message = f"http.port {http.port} on {http.host} is in use; stop who uses it, or choose another by --port"
        else:
            message = f"http.host {http.host}, port {http.port}: cannot listen: {error.strerror}"
        raise CannotListen(message) from error
    return listener


def _serve(listener: socket.socket, services: Services, health: Health) -> int:
    front = Front(health, Stopping(services.stop_s, health))
    server = _server(front, services)
    failure: list[str] = []

    def start() -> None:
        try:
            front.app = services.start()
            # What is there now stays: full collections, which stop all threads, need not look at it again.
            gc.collect()
            gc.freeze()
        except ServiceError as error:
            failure.append(str(error))
        except Exception as error:  # whatever it is, a half-started server must not stay
            log.exception("start broke")
            failure.append(f"{type(error).__name__}: {error}")
        if failure:
            server.should_exit = True

    # uvicorn raises the signals again when it is done: then they must not end the process.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: services.interrupt())
    starter = threading.Thread(target=start, name="start", daemon=True)
    starter.start()
    server.run(sockets=[listener])
    services.interrupt()
    starter.join()
    services.stop()
    if not failure:
        # A call to deep storage or to a task that is under way has nobody left to tell.
        watch_the_stop(services, THREADS_END_S)
    for line in failure:
        sys.stderr.write(f"error: {line}\n")
    return 1 if failure else 0


def _server(front: Front, services: Services) -> uvicorn.Server:
    """The HTTP server, which ends what is under way by name before it closes its socket."""
    import uvicorn

    from server.connections import BoundedProtocol, allow_open_files

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            stopping = front.stopping
            watch_the_stop(services, stopping.bound_s + ENDED_S + CUT_OFF_S + STOP_S + services.tasks_end_s)
            services.refuse_queries(REFUSAL)
            await stopping.finish(services.open_results, services.end_queries, lambda: self.force_exit)
            await super().shutdown(sockets)

    return Server(
        uvicorn.Config(
            front,
            http=BoundedProtocol.of(allow_open_files()),
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,  # to the root logger, in our form
            log_level="warning",
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=CUT_OFF_S,
        )
    )


class Stopped(Protocol):
    """What is being stopped: whether all of it is, and what is at the moment."""

    @property
    def is_stopped(self) -> bool: ...

    @property
    def stopping_now(self) -> str: ...


def watch_the_stop(services: Stopped, bound_s: float, leave: Callable[[int], object] = os._exit) -> None:
    """Ends the process after ``bound_s`` seconds whatever hangs, and says what. Also a thread that outlives an orderly
    stop: the exit of the interpreter would wait for it."""

    def give_up() -> None:
        if services.is_stopped:
            left = [each.name for each in threading.enumerate() if not each.daemon]
            log.warning("threads outlived the stop", threads=left, seconds=bound_s)
            leave(0)
            return
        log.error("stop took too long", seconds=bound_s, stopping=services.stopping_now)
        faulthandler.dump_traceback(2, all_threads=True)
        leave(1)

    watchdog = threading.Timer(bound_s, give_up)
    watchdog.daemon = True
    watchdog.start()
