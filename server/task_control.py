"""The HTTP server of one task: commands of the overlord, questions of query nodes, proof for the middle manager.

One daemon thread per kept-alive connection; every route but the challenge demands the attempt's
token. The routes are listed in ``ROUTES``.
"""

from __future__ import annotations

import hmac
import os
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol

import msgspec
import orjson
import structlog

from ingest.errors import CommandRefused
from ingest.protocol import (
    CommitterCommand,
    PauseCommand,
    PauseReport,
    ResumeCommand,
    SealCommand,
    StopCommand,
    TaskCommand,
)
from ingest.task.proof import proof
from ingest.wire import WireError, loads, to_json
from segments.errors import ServiceError
from segments.live import LiveAnswer, LiveAsk

log = structlog.get_logger()

TOKEN_HEADER: Final = "X-Siltstone-Token"
COMMANDS: Final[dict[str, type[Any]]] = {
    "pause": PauseCommand,
    "seal": SealCommand,
    "resume": ResumeCommand,
    "committer": CommitterCommand,
    "stop": StopCommand,
}
ROUTES: Final = (
    *(f"POST /v1/{name}" for name in COMMANDS),
    "POST /v1/challenge",
    "POST /v1/live",
    "GET /v1/chunks/{number}",
    "GET /v1/status",
    "GET /v1/rowStats",
    "GET /v1/parseErrors",
)
BODY_BYTES_MAX: Final = 64 << 20
IDLE_S: Final = 120.0


class TaskControls(Protocol):
    """The task as its control server sees it; every method is safe from any thread and answers soon."""

    @property
    def token(self) -> str: ...

    def command(self, command: TaskCommand) -> PauseReport | None:
        """Obeys; the report answers a pause. Raises CommandRefused."""
        ...

    def live(self, ask: LiveAsk) -> LiveAnswer: ...

    def chunk_bytes(self, number: int) -> bytes | None:
        """The chunk as one Arrow IPC stream; None when it is gone (replaced or dropped)."""
        ...

    def status(self) -> dict[str, Any]: ...

    def row_stats(self) -> dict[str, Any]: ...

    def parse_errors(self) -> list[dict[str, Any]]: ...


class TaskControlServer:
    """Listens from the moment it is made, so that its address can be told; serves from ``start``."""

    def __init__(self, bind_host: str, port: int = 0) -> None:
        self._server = _Server((bind_host, port), _Handler)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self, controls: TaskControls) -> None:
        self._server.controls = controls
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="control", daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    controls: TaskControls

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that went away in the middle is nobody's fault; anything else was answered with 500 already."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    # Small answers must not wait for the peer's delayed acknowledgement, nor go out in pieces.
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    # A peer that died without a word must not keep its thread; one that lives opens another connection.
    timeout = IDLE_S

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: query nodes ask many times a second."""

    def do_GET(self) -> None:  # the names are http.server's
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, route: Callable[[], tuple[int, bytes, str]]) -> None:
        try:
            status, body, kind = route()
        except CommandRefused as error:
            status, body, kind = 409, _error(error), "application/json"
        except (WireError, msgspec.DecodeError) as error:
            status, body, kind = 400, _error(error), "application/json"
        except ServiceError as error:
            status, body, kind = 503, _error(error), "application/json"
        except ConnectionError:
            raise
        except Exception as error:  # else the peer would see a connection that breaks, and ask the same again
            log.exception("request broke", path=self.path)
            status, body, kind = 500, _error(f"{type(error).__name__}: {error}"), "application/json"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _authorised(self) -> bool:
        told = self.headers.get(TOKEN_HEADER, "")
        return hmac.compare_digest(told.encode(), self.server.controls.token.encode())

    def _body(self) -> bytes:
        told = self.headers.get("Content-Length", "0")
        length = int(told) if told.isascii() and told.isdigit() else -1
        if not 0 <= length <= BODY_BYTES_MAX:
            self.close_connection = True  # where the next request begins is not known
            raise WireError(f"a body of {told} bytes is not taken; at most {BODY_BYTES_MAX} are")
        return self.rfile.read(length)

    def _post(self) -> tuple[int, bytes, str]:
        body, name = self._body(), self.path.removeprefix("/v1/")
        controls = self.server.controls
        if name == "challenge":
            nonce = msgspec.json.decode(body, type=dict[str, str]).get("nonce", "")
            return _json({"answer": proof(controls.token, nonce, os.getpid()), "pid": os.getpid()})
        if not self._authorised():
            return 403, _error("the token is not this attempt's"), "application/json"
        if name == "live":
            return _json(controls.live(msgspec.json.decode(body, type=LiveAsk)))
        if name in COMMANDS:
            return _json({"report": to_json(controls.command(loads(COMMANDS[name], body)))})
        return 404, _error(f"no route {self.path}"), "application/json"

    def _get(self) -> tuple[int, bytes, str]:
        if not self._authorised():
            return 403, _error("the token is not this attempt's"), "application/json"
        controls, name = self.server.controls, self.path.removeprefix("/v1/")
        if name.startswith("chunks/") and name[7:].isdecimal():
            chunk = controls.chunk_bytes(int(name[7:]))
            if chunk is None:
                return 410, _error("the chunk is gone: ask again what there is"), "application/json"
            return 200, chunk, "application/vnd.apache.arrow.stream"
        if name == "status":
            return _json(controls.status())
        if name == "rowStats":
            return _json(controls.row_stats())
        if name == "parseErrors":
            return _json(controls.parse_errors())
        return 404, _error(f"no route {self.path}"), "application/json"


def _json(value: Any) -> tuple[int, bytes, str]:
    return 200, orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS), "application/json"


def _error(error: object) -> bytes:
    return orjson.dumps({"error": str(error)})
