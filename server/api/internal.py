"""Routes between our own processes, under ``/internal/v1``: task actions and worker beats.

A task is authorised by its attempt's token, which the store judges; a worker by the cluster's
secret. Answers: 200 with the protocol's message, 403 refused token or secret, 409 not granted, 503
when this overlord does not lead (with the leader's address) or the database is away.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any, Final

import orjson
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ingest.errors import AttemptRefused, OverlordUnreachable, RequestRefused
from ingest.offsets import OffsetMap
from ingest.overlord.overlord import Overlord
from ingest.overlord.refusals import NotLeading
from ingest.protocol import (
    AllocateRequest,
    CheckpointAsk,
    PublishRequest,
    SequenceRef,
    StageRequest,
    TaskHeartbeat,
    TaskHello,
    WorkerHeartbeat,
)
from ingest.task.ports import OverlordActions
from ingest.wire import WireError, dumps, from_json, loads
from segments.errors import ServiceError
from server.clients import ACTIONS_PATH, BEAT_PATH, SECRET_HEADER
from server.task_control import TOKEN_HEADER

BEATS_AT_ONCE: Final = 200
ACTIONS_AT_ONCE: Final = 64


def _sequences(actions: OverlordActions, body: Any) -> Any:
    return actions.sequences(str(body["token"]), from_json(int, body["from_number"]))


def _raise_end(actions: OverlordActions, body: Any) -> Any:
    ref, end = from_json(SequenceRef, body["ref"]), from_json(OffsetMap, body["end"])
    return actions.raise_end(str(body["token"]), ref, end)


ACTIONS: Final[dict[str, Callable[[OverlordActions, Any], Any]]] = {
    "register": lambda actions, body: actions.register(from_json(TaskHello, body)),
    "heartbeat": lambda actions, body: actions.heartbeat(from_json(TaskHeartbeat, body)),
    "checkpoint": lambda actions, body: actions.ask_checkpoint(from_json(CheckpointAsk, body)),
    "sequences": _sequences,
    "raise-end": _raise_end,
    "allocate": lambda actions, body: actions.allocate(from_json(AllocateRequest, body)),
    "stage": lambda actions, body: actions.stage(from_json(StageRequest, body)),
    "publish": lambda actions, body: actions.publish(from_json(PublishRequest, body)),
}


def internal_routes(overlord: Overlord, secret: str) -> list[Route]:
    """The routes of a process with the role overlord; ``secret`` is the cluster's."""
    beats = CapacityLimiter(BEATS_AT_ONCE)
    calls = CapacityLimiter(ACTIONS_AT_ONCE)

    async def action(request: Request) -> Response:
        run = ACTIONS.get(request.path_params["name"])
        if run is None:
            return _answer(404, {"error": f"no action {request.path_params['name']!r}"})
        body, token = await request.body(), request.headers.get(TOKEN_HEADER, "")
        return await to_thread.run_sync(_act, overlord, run, body, token, limiter=calls)

    async def beat(request: Request) -> Response:
        if not hmac.compare_digest(request.headers.get(SECRET_HEADER, "").encode(), secret.encode()):
            return _answer(403, {"error": "the cluster secret is not this cluster's; see overlord.secret"})
        body = await request.body()
        return await to_thread.run_sync(_translated, lambda: overlord.beat(loads(WorkerHeartbeat, body)), limiter=beats)

    return [
        Route(ACTIONS_PATH + "{name}", action, methods=["POST"]),
        Route(BEAT_PATH, beat, methods=["POST"]),
    ]


def _act(overlord: Overlord, run: Callable[[OverlordActions, Any], Any], body: bytes, token: str) -> Response:
    def act() -> Any:
        document = orjson.loads(body)
        if document.get("token") != token:
            raise AttemptRefused("the token of the header is not the one of the message")
        return run(overlord.actions, document)

    return _translated(act)


def _translated(act: Callable[[], Any]) -> Response:
    try:
        return _answer(200, act())
    except NotLeading as error:
        return _answer(503, {"error": str(error), "leader": error.leader})
    except OverlordUnreachable as error:
        return _answer(503, {"error": str(error)})
    except AttemptRefused as error:
        return _answer(403, {"error": str(error)})
    except RequestRefused as error:
        return _answer(409, {"error": str(error)})
    except (WireError, orjson.JSONDecodeError, KeyError, AttributeError) as error:
        return _answer(400, {"error": f"malformed message: {error}"})
    except ServiceError as error:
        return _answer(500, {"error": str(error)})


def _answer(status: int, value: Any) -> Response:
    return Response(dumps(value), status, media_type="application/json")
