"""A registry over HTTP: schemas are found once, what it has not is told, and while it is away nothing is decided."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from ingest.clock import SystemClock
from ingest.spec.formats import Registry
from ingest.stream.registry import ABSENT_MS, RegistrySchemas
from ingest.stream.registry_settings import registry_settings
from ingest.stream.schemas import SchemaRegistryUnreachable, WriterSchema

ABSENT = (404, {"error_code": 40403, "message": "Schema not found"})
Answers = dict[str, tuple[int, Any]]


@contextmanager
def registry(answers: Answers, port: int = 0) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A registry's HTTP with these answers by path and query; yields its address and each request's headers."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
            status, body = answers.get(self.path) or answers.get(urlsplit(self.path).path) or ABSENT
            sent = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Hands(SystemClock):
    """A clock whose monotonic time is moved by hand."""

    at_ms = 0

    def monotonic_ms(self) -> int:
        return self.at_ms


def schemas_at(
    *urls: str, config: dict[str, Any] | None = None, headers: dict[str, Any] | None = None, clock: Any = None
) -> RegistrySchemas:
    settings = registry_settings(Registry(urls, config or {}, headers or {}), {"SECRET": "ann:pw", "TOKEN": "t0k"})
    assert not settings.problems
    return RegistrySchemas(urls, settings, clock or SystemClock())


def found(schemas: RegistrySchemas, schema_id: int) -> WriterSchema | None:
    """Asks until there is an answer, as a task does; bounded."""
    return until(lambda: schemas.find(schema_id))


def until(ask: Callable[[], WriterSchema | None]) -> WriterSchema | None:
    end = time.monotonic() + 20
    while True:
        try:
            return ask()
        except SchemaRegistryUnreachable as error:
            if "not answered yet" not in str(error) or time.monotonic() > end:
                raise


def test_a_schema_is_asked_for_once() -> None:
    with registry({"/schemas/ids/7": (200, {"schema": '"string"'})}) as (url, seen):
        schemas = schemas_at(url)
        assert found(schemas, 7) == found(schemas, 7) == WriterSchema("AVRO", (("schema-7.proto", '"string"'),))
        assert len(seen) == 1


def test_secrets_come_from_the_environment_and_headers_are_sent() -> None:
    config = {
        "basic.auth.credentials.source": "USER_INFO",
        "druid.dynamic.config.provider": {"type": "environment", "variables": {"basic.auth.user.info": "SECRET"}},
    }
    headers = {"X-Team": "a", "X-Token": {"type": "environment", "variable": "TOKEN"}}
    with registry({"/schemas/ids/1": (200, {"schema": "{}"})}) as (url, seen):
        found(schemas_at(url, config=config, headers=headers), 1)
    assert seen[0]["authorization"] == "Basic YW5uOnB3"
    assert (seen[0]["x-team"], seen[0]["x-token"]) == ("a", "t0k")


def test_what_the_registry_has_not_is_believed_for_a_while_only() -> None:
    clock = Hands()
    answers: Answers = {}
    with registry(answers) as (url, seen):
        schemas = schemas_at(url, clock=clock)
        assert found(schemas, 3) is None and found(schemas, 3) is None
        assert len(seen) == 1
        answers["/schemas/ids/3"] = (200, {"schema": "{}"})
        clock.at_ms += ABSENT_MS
        assert found(schemas, 3) is not None


@pytest.mark.parametrize(
    "answer", [(500, {"error_code": 50001, "message": "storage"}), (404, {"error": "no such page"})]
)
def test_a_refusing_registry_is_one_to_wait_for(answer: tuple[int, Any]) -> None:
    answers: Answers = {"/schemas/ids/1": answer}
    with registry(answers) as (url, _):
        schemas = schemas_at(url)
        with pytest.raises(SchemaRegistryUnreachable, match=f"{url}.*{answer[0]}.*reading waits"):
            found(schemas, 1)
        answers["/schemas/ids/1"] = (200, {"schema": "{}"})
        assert found(schemas, 1) is not None


def test_wrong_credentials_are_told() -> None:
    with (
        registry({"/schemas/ids/1": (401, {"error_code": 401, "message": "Unauthorized"})}) as (url, _),
        pytest.raises(SchemaRegistryUnreachable, match="401: Unauthorized"),
    ):
        found(schemas_at(url), 1)


def test_another_address_is_tried_where_one_is_dead() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(SchemaRegistryUnreachable, match="nobody listens there"):
            found(schemas_at(dead), 1)
        with registry({"/schemas/ids/1": (200, {"schema": "{}"})}) as (url, _):
            assert found(schemas_at(dead, url), 1) is not None


def test_a_registry_that_says_nothing_does_not_hold_up_the_reader() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        schemas = schemas_at(f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        with pytest.raises(SchemaRegistryUnreachable, match="not answered yet"):
            schemas.find(1)
        assert time.monotonic() - began < 2


def test_compiled_descriptors_come_with_those_they_import_each_once_and_first() -> None:
    reference = {"name": "base.proto", "subject": "base", "version": 2}
    own = {"schemaType": "PROTOBUF", "references": [reference, reference]}
    with registry(
        {
            "/schemas/ids/5": (200, {**own, "schema": "syntax"}),
            "/schemas/ids/5?format=serialized": (200, {**own, "schema": "b3du"}),
            "/subjects/base/versions/2": (
                200,
                {"subject": "base", "version": 2, "id": 4, "schemaType": "PROTOBUF", "schema": "YmFzZQ=="},
            ),
        }
    ) as (url, _):
        schema = found(schemas_at(url), 5)
    assert schema == WriterSchema("PROTOBUF", (("base.proto", "YmFzZQ=="), ("schema-5.proto", "b3du")))


def test_settings_of_the_java_client_are_mapped_or_refused_with_a_cure() -> None:
    config = {
        "schema.registry.basic.auth.user.info": "hush",
        "schema.registry.ssl.truststore.location": "/ca.jks",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/me.pem",
        "ssl.protocol": "TLSv1.3",
        "basic.auth.credentials.source": "SASL_INHERIT",
        "basic.auth.user.inf": "hush",
    }
    found = registry_settings(Registry(("https://a",), config, {"X": 5}), None, "$.p")
    assert (found.config["ssl.certificate.location"], found.config["ssl.key.location"]) == ("/me.pem", "/me.pem")
    assert {problem.path.split("'")[1] for problem in found.problems} == {
        "basic.auth.user.info",
        "ssl.truststore.location",
        "basic.auth.credentials.source",
        "basic.auth.user.inf",
        "X",
    }
    assert "hush" not in str(found.problems) and len(found.warnings) == 1
    assert registry_settings(Registry(("https://a",), {"ssl.ca.location": {"type": "x"}}, {}), None).problems
