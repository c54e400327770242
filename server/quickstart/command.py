"""``siltstone quickstart``: a broker, a stream, the whole service and three questions, under one parent process.

Everything lies in one directory; a second start goes on where the first stopped. On its end the
producer stops first, then the service (its tasks keep what they read), then the broker.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segments.errors import ServiceError
from server.data_dir import open_data_dir
from server.quickstart import standing
from server.quickstart.children import Child
from server.quickstart.display import Screen, look
from siltstone import ApiError, Client, ClientError

TOPIC = "wikipedia-edits"
PARTITIONS = 4
MARK = "quickstart.json"
SPEC = Path(__file__).parent / "data" / "supervisor.json"
READY_S = 300.0
"""Only a failure waits for it: on a busy machine a start of seconds takes minutes."""
SAID_S = 10.0
ONCE_S = 180.0
POLL_S = 0.1
STATE_S = 2.0
BANNER = """Siltstone: Kafka topics as exact tables.
  data       {data_dir}
  broker     {broker}
  service    {url} (API: {url}/docs)
  ask more   siltstone query "SELECT ..." --url {url}
  stop       Ctrl-C; the next start goes on from there
"""


class QuickstartFailed(ServiceError):
    """The demonstration cannot go on; the message says why."""


@dataclass(frozen=True, slots=True)
class QuickstartOptions:
    """What the command line chose. ``kafka`` None: our own small broker. ``seconds`` None: until Ctrl-C."""

    data_dir: Path
    port: int
    rate: int
    kafka: str | None
    fresh: bool
    seconds: int | None
    once: bool


@dataclass(slots=True)
class _Moved:
    """When the rows last grew (``at_s``, monotonic), when it was said why not, and what was produced by then."""

    at_s: float
    said_s: float = 0.0
    rows: int = 0
    produced: int = -1

    def see(self, rows: int, now_s: float) -> None:
        if rows > self.rows:
            self.rows, self.at_s, self.said_s = rows, now_s, 0.0

    def is_due(self, now_s: float) -> bool:
        return now_s - max(self.at_s, self.said_s) >= standing.STANDS_S


class _Interrupted(Exception):
    """Ctrl-C or SIGTERM."""


def run(options: QuickstartOptions) -> int:
    """Runs until told to stop; 0 then.

    Raises:
        ServiceError: a part could not start, or ended by itself.
    """

    # Only the first one counts: what follows must not break the orderly end.
    def interrupt(number: int, frame: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise _Interrupted

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    demonstration = _Demonstration(options)
    try:
        demonstration.run()
    except _Interrupted:
        print(f"ended; the next start with this directory goes on: {options.data_dir.absolute()}")
        return 0
    return 0


class _Demonstration:
    def __init__(self, options: QuickstartOptions) -> None:
        self._options = options
        self._root = options.data_dir.absolute()
        self._children: list[Child] = []

    def run(self) -> None:
        self._prepare()
        with ExitStack() as stack:
            stack.callback(self._end)
            screen = stack.enter_context(Screen())
            broker = self._options.kafka or self._broker()
            port = self._options.port or free_port()
            url = f"http://127.0.0.1:{port}"
            self._start_service(port)
            self._start_producer(broker)
            screen.say(BANNER.format(data_dir=self._root, broker=broker, url=url))
            client = Client(url, timeout_s=30.0)
            self._wait_until_ready(client, screen)
            self._declare(client, broker)
            self._watch(client, screen)

    # ------------------------------------------------------------ parts

    def _prepare(self) -> None:
        """Locks nothing for long: only makes sure that nobody else is there, and that it is ours to delete."""
        known = self._root.exists() and any(self._root.iterdir())
        if known and not (self._root / MARK).exists():
            raise QuickstartFailed(f"{self._root} is not a directory of the quickstart; choose another by --data-dir")
        _claim_port(self._options.port)
        open_data_dir(self._root, None).close()
        if self._options.fresh and known:
            shutil.rmtree(self._root)
            self._root.mkdir()
        if not (self._root / MARK).exists():
            self._mark({"broker_port": free_port()})

    def _mark(self, content: dict[str, Any]) -> None:
        (self._root / MARK).write_text(json.dumps(content))

    def _broker(self) -> str:
        """The broker keeps its port over restarts: tasks remember the address."""
        port = int(json.loads((self._root / MARK).read_text())["broker_port"])
        words = ["server.devbroker", "--dir", str(self._root / "broker"), "--port", str(port)]
        self._start("broker", [*words, "--topic", f"{TOPIC}={PARTITIONS}"])
        return f"127.0.0.1:{port}"

    def _start_service(self, port: int) -> None:
        words = ["server", "serve", "--data-dir", str(self._root), "--port", str(port)]
        self._start("service", words, {"SILTSTONE_WORKER__KEEP_TASKS": "false"})

    def _start_producer(self, broker: str) -> None:
        state = str(self._state)
        words = ["server.quickstart.producer", "--kafka", broker, "--topic", TOPIC, "--state", state]
        self._start("producer", [*words, "--rate", str(self._options.rate), "--partitions", str(PARTITIONS)])

    def _start(self, name: str, words: list[str], environment: dict[str, str] | None = None) -> None:
        self._children.append(Child(name, words, self._log(name), environment))

    def _log(self, name: str) -> Path:
        return self._root / f"{name}.log"

    @property
    def _state(self) -> Path:
        return self._root / "producer.json"

    def _end(self) -> None:
        """The producer first, then the service, then the broker: nothing is waiting for what is gone."""
        by_name = {child.name: child for child in self._children}
        for name, timeout_s in (("producer", 20.0), ("service", 60.0), ("broker", 10.0)):
            if name in by_name:
                by_name[name].end(timeout_s)

    def _check(self) -> None:
        for child in self._children:
            if child.has_ended:
                raise QuickstartFailed(
                    f"the {child.name} ended by itself: {child.last_words()}\nits log is {child.log}"
                )

    # ------------------------------------------------------------ course

    def _wait_until_ready(self, client: Client, screen: Screen) -> None:
        begun = said = time.monotonic()
        while True:
            self._check()
            ours = None
            try:
                if client.health() and client.leads() and (ours := self._is_ours(client)):
                    return
            except ClientError:
                pass  # asked again below, for its words
            now = time.monotonic()
            if now - begun > READY_S:
                where = standing.named("service", self._log("service"))
                reason = standing.unready(client, ours)
                raise QuickstartFailed(f"the service did not come up in {READY_S:.0f} s: {reason}; {where}")
            if now - said > SAID_S:
                said = now
                screen.say(f"waiting for the service for {now - begun:.0f} s: {standing.unready(client, ours)}")
            time.sleep(POLL_S)

    def _is_ours(self, client: Client) -> bool:
        """Whether our own service answers: one that took the port first must not get our supervisor."""
        name = self._root / "node"
        return name.exists() and client.get("/status")["node"] == name.read_text().strip()

    def _declare(self, client: Client, broker: str) -> None:
        """Posts the spec, again while a busy machine gives no answer."""
        deadline = time.monotonic() + READY_S
        while True:
            self._check()
            try:
                return self._post(client, broker)
            except ClientError as error:
                if (isinstance(error, ApiError) and error.status < 500) or time.monotonic() > deadline:
                    raise
            time.sleep(POLL_S)

    def _post(self, client: Client, broker: str) -> None:
        """Posts the spec, unless the very same supervisor is there."""
        spec = json.loads(SPEC.read_text())
        spec["spec"]["ioConfig"] |= {"topic": TOPIC, "consumerProperties": {"bootstrap.servers": broker}}
        for known in client.supervisors():
            if known["id"] == "wikipedia" and {**known["spec"], "suspended": False} == {**spec, "suspended": False}:
                return
        client.submit(spec)

    def _watch(self, client: Client, screen: Screen) -> None:
        begun = time.monotonic()
        limit_s = self._options.seconds or (ONCE_S if self._options.once else None)
        seen = False
        moved = _Moved(begun)
        while limit_s is None or time.monotonic() - begun < limit_s:
            self._check()
            try:
                picture = look(client, self._produced)
            except ClientError as error:
                if isinstance(error, ApiError) and error.status < 500 and seen:
                    raise
                self._explain(client, screen, moved, str(error) if seen else "")
                time.sleep(POLL_S)
                continue
            if picture.rows:
                seen = True
                screen.show(picture)
            moved.see(picture.rows, time.monotonic())
            self._explain(client, screen, moved)
            if self._options.once and picture.published and picture.live:
                return
            time.sleep(1.0 if seen else POLL_S)
        if self._options.once:
            reasons = "; ".join(self._why(client, moved)) or standing.named("service", self._log("service"))
            raise QuickstartFailed(f"no published and live rows after {int(ONCE_S)} s: {reasons}")

    def _explain(self, client: Client, screen: Screen, moved: _Moved, error: str = "") -> None:
        """Says why nothing moves, once it has not for a while, and again from time to time."""
        now = time.monotonic()
        if moved.is_due(now):
            lines = [error] if error else self._why(client, moved)
            screen.say(f"nothing new for {now - moved.at_s:.0f} s: " + "\n  ".join(lines))
            moved.said_s, moved.produced = now, self._told_by_producer()

    def _why(self, client: Client, moved: _Moved) -> list[str]:
        logs = {child.name: child.log for child in self._children}
        return list(standing.why(client, "wikipedia", self._told_by_producer(), moved.produced, logs))

    def _produced(self, seen: int) -> int:
        """What the producer says to have sent. It writes that down a moment after sending, so this waits,
        bounded, until it has for the rows that are ``seen`` already."""
        deadline = time.monotonic() + STATE_S
        while (told := self._told_by_producer()) < seen and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return told

    def _told_by_producer(self) -> int:
        try:
            return int(json.loads(self._state.read_text())["messages"])
        except (OSError, ValueError, KeyError):
            return 0


def _claim_port(port: int) -> None:
    """Refuses a port that somebody listens on, before anything is started.

    Raises:
        QuickstartFailed: the port is in use, or may not be used.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise QuickstartFailed(
                f"port {port} on 127.0.0.1 cannot be used: {error.strerror}; choose another by --port"
            ) from error


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
