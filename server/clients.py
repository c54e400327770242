"""The ports between processes over HTTP: the overlord for tasks and workers, tasks for overlord and queries."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
import orjson

from ingest.errors import (
    AttemptRefused,
    CommandRefused,
    OtherDatabase,
    OverlordUnreachable,
    RequestRefused,
    TaskUnreachable,
)
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AllocateRequest,
    CheckpointAnswer,
    CheckpointAsk,
    HeartbeatReply,
    PauseReport,
    PendingSegment,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    SequenceRef,
    StageRequest,
    TaskCommand,
    TaskHeartbeat,
    TaskHello,
    TaskWelcome,
    WorkerHeartbeat,
    WorkerOrders,
)
from ingest.task.proof import is_proof
from ingest.wire import dumps, from_json
from query.source import LiveAttempt
from segments.errors import ServiceError
from segments.live import ChunkInfo, LiveAnswer, LiveAsk
from server.http_pool import HttpPool, Stranger, Unanswered
from server.task_control import COMMANDS, TOKEN_HEADER

T = TypeVar("T")

SECRET_HEADER: Final = "X-Siltstone-Secret"
ACTIONS_PATH: Final = "/internal/v1/actions/"
BEAT_PATH: Final = "/internal/v1/workers/beat"
ACTION_S: Final = 10.0
PUBLISH_S: Final = 60.0
COMMAND_S: Final = 5.0
CHALLENGE_S: Final = 1.0
COMMAND_NAMES: Final = {kind: name for name, kind in COMMANDS.items()}


class OverlordCaller:
    """Finds the leading overlord among configured addresses and remembers it; safe from any thread."""

    def __init__(self, urls: Sequence[str], pool: HttpPool) -> None:
        assert urls, "overlord.urls is empty"
        self._urls = [url.rstrip("/") for url in urls]
        self._pool = pool
        self._lock = threading.Lock()
        self._leader = self._urls[0]

    def call(
        self, path: str, body: bytes, headers: dict[str, str], read_s: float, database: str = ""
    ) -> tuple[Any, bool]:
        """The leader's answer as JSON values; only of a service of ``database``, where it is named.

        Raises:
            OverlordUnreachable: nobody answered; ``effect_known_absent`` on it says whether some
                overlord may have acted. OtherDatabase, if somebody else answered.
            AttemptRefused, RequestRefused: as the overlord says.
        """
        with self._lock:
            candidates = [self._leader, *(url for url in self._urls if url != self._leader)]
        tried: list[str] = []
        strange: list[str] = []
        maybe_sent = False
        while candidates:
            url = candidates.pop(0)
            if url in tried:
                continue
            tried.append(url)
            try:
                status, data = self._pool.request(
                    "POST", url + path, body=body, headers=headers, read_s=read_s, database=database
                )
            except Unanswered as error:
                strange += [str(error)] if isinstance(error, Stranger) else []
                maybe_sent = maybe_sent or error.sent
                continue
            if status == 200:
                with self._lock:
                    self._leader = url
                return orjson.loads(data), maybe_sent
            hint = self._judge(status, data, url)
            if hint is not None:
                candidates.insert(0, hint)
        kind = OtherDatabase if strange else OverlordUnreachable
        error_ = kind("; ".join([f"no overlord leads at {', '.join(tried)}", *strange]))
        error_.effect_known_absent = not maybe_sent
        raise error_

    def _judge(self, status: int, data: bytes, url: str) -> str | None:
        """Raises what the refusal means, or names where the leader is said to be."""
        try:
            document = orjson.loads(data)
        except orjson.JSONDecodeError:
            document = {}
        message = str(document.get("error", f"{url} answered {status}"))
        if status == 403:
            raise AttemptRefused(message)
        if status in (400, 404, 409, 422):
            raise RequestRefused(message)
        leader = document.get("leader")
        return f"http://{leader}" if leader and "://" not in leader else leader


class HttpOverlordActions:
    """``ingest.task.ports.OverlordActions`` over HTTP, for one attempt, which obeys nobody but the service of its
    ``database``."""

    def __init__(self, urls: Sequence[str], pool: HttpPool, token: str, database: str = "") -> None:
        self._caller = OverlordCaller(urls, pool)
        self._database = database
        self._headers = {"Content-Type": "application/json", TOKEN_HEADER: token}

    def _ask(self, name: str, message: object, kind: Any, read_s: float = ACTION_S) -> Any:
        answer, _ = self._caller.call(ACTIONS_PATH + name, dumps(message), self._headers, read_s, self._database)
        return None if kind is None else from_json(kind, answer)

    def register(self, hello: TaskHello) -> TaskWelcome:
        welcome: TaskWelcome = self._ask("register", hello, TaskWelcome)
        return welcome

    def heartbeat(self, beat: TaskHeartbeat) -> HeartbeatReply:
        reply: HeartbeatReply = self._ask("heartbeat", beat, HeartbeatReply)
        return reply

    def ask_checkpoint(self, ask: CheckpointAsk) -> CheckpointAnswer:
        answer: CheckpointAnswer = self._ask("checkpoint", ask, CheckpointAnswer)
        return answer

    def sequences(self, token: str, from_number: int) -> CheckpointAnswer:
        answer: CheckpointAnswer = self._ask(
            "sequences", {"token": token, "from_number": from_number}, CheckpointAnswer
        )
        return answer

    def raise_end(self, token: str, ref: SequenceRef, end: OffsetMap) -> SequenceRecord | None:
        request = {"token": token, "ref": ref, "end": end}
        record: SequenceRecord | None = self._ask("raise-end", request, SequenceRecord | None)
        return record

    def allocate(self, request: AllocateRequest) -> PendingSegment:
        pending: PendingSegment = self._ask("allocate", request, PendingSegment)
        return pending

    def stage(self, request: StageRequest) -> None:
        self._ask("stage", request, None)

    def publish(self, request: PublishRequest) -> PublishReply:
        try:
            reply: PublishReply = self._ask("publish", request, PublishReply, PUBLISH_S)
        except OverlordUnreachable as error:
            if error.effect_known_absent:
                raise
            return PublishReply(PublishOutcome.UNKNOWN, detail=str(error))
        return reply


class HttpWorkers:
    """``ingest.worker.ports.OverlordWorkers`` over HTTP."""

    def __init__(self, urls: Sequence[str], pool: HttpPool, secret: str) -> None:
        self._caller = OverlordCaller(urls, pool)
        self._headers = {"Content-Type": "application/json", SECRET_HEADER: secret}

    def beat(self, beat: WorkerHeartbeat) -> WorkerOrders:
        try:
            read_s = beat.wait_ms / 1_000 + ACTION_S
            answer, _ = self._caller.call(BEAT_PATH, dumps(beat), self._headers, read_s, beat.database)
        except (AttemptRefused, RequestRefused) as error:
            raise OverlordUnreachable(f"the overlord refused this worker: {error}") from error
        return from_json(WorkerOrders, answer)


class HttpTaskClient:
    """``ingest.supervisor.ports.TaskClient`` over HTTP."""

    def __init__(self, pool: HttpPool) -> None:
        self._pool = pool

    def send(self, address: str, token: str, command: TaskCommand) -> PauseReport | None:
        url = f"http://{address}/v1/{COMMAND_NAMES[type(command)]}"
        data = _task_call(self._pool, "POST", url, token, dumps(command), COMMAND_S)
        return from_json(PauseReport | None, orjson.loads(data)["report"])  # type: ignore[arg-type]  # mypy takes no union for a type

    def get(self, address: str, token: str, name: str) -> Any:
        """One of the task's documents: status, rowStats or parseErrors."""
        return orjson.loads(_task_call(self._pool, "GET", f"http://{address}/v1/{name}", token, None, COMMAND_S))


class HttpTaskChallenge:
    """``ingest.worker.ports.TaskChallenge`` over HTTP."""

    def __init__(self, pool: HttpPool, nonces: Callable[[], str] = lambda: secrets.token_hex(16)) -> None:
        self._pool = pool
        self._nonces = nonces

    def proves(self, address: str, token: str, pid: int) -> bool:
        nonce = self._nonces()
        try:
            status, data = self._pool.request(
                "POST", f"http://{address}/v1/challenge", body=orjson.dumps({"nonce": nonce}), read_s=CHALLENGE_S
            )
        except Unanswered as error:
            raise TaskUnreachable(str(error)) from error
        try:
            answer = str(orjson.loads(data)["answer"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return False
        return status == 200 and is_proof(answer, token, nonce, pid)


class HttpLiveSource:
    """``query.source.LiveSource`` over HTTP: the tasks as a query node sees them."""

    def __init__(self, pool: HttpPool) -> None:
        self._pool = pool
        self._decoder = msgspec.json.Decoder(LiveAnswer)

    def ask(self, attempt: LiveAttempt, ask: LiveAsk, timeout_ms: int) -> LiveAnswer:
        body = orjson.dumps(ask, option=orjson.OPT_NON_STR_KEYS)
        url = f"http://{attempt.address}/v1/live"
        data = _task_call(self._pool, "POST", url, attempt.token, body, timeout_ms / 1_000)
        try:
            return self._decoder.decode(data)
        except msgspec.DecodeError as error:
            raise TaskUnreachable(f"{url} answered nonsense: {error}") from error

    def fetch(self, attempt: LiveAttempt, chunk: ChunkInfo, timeout_ms: int) -> bytes:
        url = f"http://{attempt.address}/v1/chunks/{chunk.number}"
        return _task_call(self._pool, "GET", url, attempt.token, None, timeout_ms / 1_000)


def _task_call(pool: HttpPool, method: str, url: str, token: str, body: bytes | None, read_s: float) -> bytes:
    headers = {TOKEN_HEADER: token, "Content-Type": "application/json"}
    try:
        status, data = pool.request(method, url, body=body, headers=headers, read_s=read_s)
    except Unanswered as error:
        raise TaskUnreachable(str(error)) from error
    if status == 200:
        return data
    message = f"{url} answered {status}: {data[:500].decode(errors='replace')}"
    failures: dict[int, type[ServiceError]] = {403: AttemptRefused, 409: CommandRefused, 410: CommandRefused}
    raise failures.get(status, TaskUnreachable)(message)
