"""Spells Python's values as parameters of a statement, by Druid's names of types."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterable
from typing import Any

import urllib3


class ClientError(Exception):
    """The service could not be asked: nobody listens there, no answer came in time, or it broke off."""


class InvalidAddress(ClientError):
    """What should lead to a service is no ``http://HOST:PORT``; nobody was asked."""


class ApiError(ClientError):
    """The service refused; ``status`` is the HTTP code and ``body`` its JSON answer if there was one."""

    def __init__(self, status: int, message: str, body: Any) -> None:
        self.status = status
        self.body = body
        super().__init__(message)


def parameters_of(values: Iterable[Any] | None) -> list[dict[str, Any]]:
    """Each value as ``{"type", "value"}``; what is such an object already stays as it is.

    A datetime without a zone is a reading of the query's ``sqlTimeZone``; one with a zone is that instant.

    Raises:
        ClientError: a value of a kind that SQL has not.
    """
    return [_parameter(at, value) for at, value in enumerate(values or (), 1)]


def _parameter(at: int, value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and "type" in value:
        return value
    if value is None or isinstance(value, str):
        return {"type": "VARCHAR", "value": value}
    if isinstance(value, bool):
        return {"type": "BOOLEAN", "value": value}
    if isinstance(value, int):
        return {"type": "BIGINT", "value": value}
    if isinstance(value, float | decimal.Decimal):
        return {"type": "DOUBLE", "value": float(value)}
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            whole = value.astimezone(datetime.UTC) - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            return {"type": "TIMESTAMP", "value": whole // datetime.timedelta(milliseconds=1)}
        return {"type": "TIMESTAMP", "value": value.isoformat(" ", "milliseconds")}
    if isinstance(value, datetime.date):
        return {"type": "DATE", "value": value.isoformat()}
    if isinstance(value, list | tuple):
        return {"type": "ARRAY", "value": list(value)}
    raise ClientError(
        f"parameter {at} is a {type(value).__name__}; None, bool, int, float, str, datetime, date and list can be"
    )


def reason_of(error: BaseException) -> str:
    """Why a request had no answer, in words for people: what urllib3 raised, without its classes and objects."""
    found: BaseException = error
    while isinstance(inner := getattr(found, "reason", None), BaseException):
        found = inner
    if isinstance(found, urllib3.exceptions.NameResolutionError):
        return "its host name is not known"
    if isinstance(found, urllib3.exceptions.ConnectTimeoutError):
        why = "it takes no connection in time"
    elif isinstance(found, urllib3.exceptions.TimeoutError):
        why = "it is silent for too long"
    elif isinstance(found, urllib3.exceptions.SSLError):
        why = "it does not speak TLS as it was spoken to"
    elif isinstance(found, urllib3.exceptions.ProtocolError):
        why = "the connection broke"
    else:
        why = "no connection can be made"
    system = _system_error(found)
    if isinstance(system, ConnectionRefusedError):
        return "nobody listens there"
    return f"{why}: {system.strerror}" if system is not None and system.strerror else why


def _system_error(error: BaseException) -> OSError | None:
    """What the operating system said, below whatever it is wrapped in."""
    seen: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        one = waiting.pop(0)
        if not isinstance(one, BaseException) or one in seen:
            continue
        if isinstance(one, OSError) and one.errno is not None:
            return one
        seen.append(one)
        waiting += [*one.args, one.__cause__, one.__context__]
    return None


def unreachable(url: str, error: Exception) -> ClientError:
    """What to tell when a request brought no answer."""
    return ClientError(
        f"no answer from {url}: {reason_of(error)}; is it running? "
        "start it by `siltstone serve`, or name its address by --url"
    )


def raise_refusal(answer: urllib3.BaseHTTPResponse, content: bytes) -> None:
    """Raises ApiError when the status says no."""
    if answer.status >= 400:
        raise ApiError(answer.status, *_refusal(answer.status, content))


def _refusal(status: int, content: bytes) -> tuple[str, Any]:
    """The message for people in an error answer, whichever of Druid's forms it has."""
    try:
        body = json.loads(content)
    except ValueError:
        return (content.decode(errors="replace").strip() or f"HTTP status {status}"), None
    if isinstance(body, dict):
        message = body.get("errorMessage") or body.get("error") or body.get("detail")
        return str(message or f"HTTP status {status}"), body
    return f"HTTP status {status}", body
