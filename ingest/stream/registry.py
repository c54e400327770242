"""The port of schemas over Confluent's registry protocol; the only importer of its client.

Each question is asked in a thread of its own, so that a registry that does not answer never holds up the
thread that reads, which has commands to obey.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final

from ingest.clock import Clock
from ingest.stream.registry_settings import RegistrySettings
from ingest.stream.schemas import SchemaRegistryUnreachable, WriterSchema

WAIT_S: Final = 0.25
"""How long the reading thread waits for an answer; a registry nearby needs some milliseconds."""
ABSENT_MS: Final = 30_000
"""How long "there is no such schema" is believed: ids grow, so that an id may come to be."""
_ABSENT_MAX: Final = 10_000
_REFERENCES_MAX: Final = 1_000
# The registry's own codes for: no such subject, version, schema. Any other 404 is not a registry's.
_NOT_FOUND: Final = frozenset({40401, 40402, 40403})


class RegistrySchemas:
    """`WriterSchemas` of one registry; what it answered is kept as long as this lives. For one thread."""

    def __init__(self, urls: tuple[str, ...], settings: RegistrySettings, clock: Clock) -> None:
        self._urls = urls
        self._settings = settings
        self._clock = clock
        self._found: dict[int, WriterSchema] = {}
        self._absent: dict[int, int] = {}  # id -> when it was last said not to be there
        self._asking: dict[int, _Question] = {}

    def find(self, schema_id: int) -> WriterSchema | None:
        known = self._found.get(schema_id)
        if known is not None:
            return known
        absent_ms = self._absent.get(schema_id)
        if absent_ms is not None and self._clock.monotonic_ms() - absent_ms < ABSENT_MS:
            return None
        question = self._asking.get(schema_id)
        if question is None:
            question = self._asking[schema_id] = _Question(self._settings, schema_id)
        if not question.done.wait(WAIT_S):
            raise SchemaRegistryUnreachable(self._urls, f"schema {schema_id} was asked for and not answered yet")
        del self._asking[schema_id]
        if question.trouble is not None:
            raise SchemaRegistryUnreachable(self._urls, question.trouble)
        if question.schema is None:
            if len(self._absent) >= _ABSENT_MAX:
                self._absent.clear()
            self._absent[schema_id] = self._clock.monotonic_ms()
            return None
        self._found[schema_id] = question.schema
        return question.schema


def _in_words(error: Exception) -> str:
    """Whatever the HTTP client raised, without the names of its classes: what the system said of the connection."""
    below: BaseException | None = error
    while below is not None and not (isinstance(below, OSError) and below.strerror):
        below = below.__cause__ or below.__context__
    if isinstance(below, ConnectionRefusedError):
        return "nobody listens there"
    return str(below.strerror if isinstance(below, OSError) else error) or "no answer"


class _Question:
    """One schema asked for in a thread of its own. ``done`` is set when the rest is settled."""

    def __init__(self, settings: RegistrySettings, schema_id: int) -> None:
        self.done = threading.Event()
        self.schema: WriterSchema | None = None
        self.trouble: str | None = None
        self._settings = settings
        self._id = schema_id
        threading.Thread(target=self._ask, name=f"schema-{schema_id}", daemon=True).start()

    def _ask(self) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            self.schema = self._fetch()
        except SchemaRegistryError as error:
            if error.error_code not in _NOT_FOUND:
                self.trouble = f"it answers {error.http_status_code}: {error.error_message}"
        except Exception as error:  # the top of a thread; whatever the HTTP client raises, its answer is not there
            self.trouble = _in_words(error)
        finally:
            self.done.set()

    def _fetch(self) -> WriterSchema:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        client: Any = SchemaRegistryClient(dict(self._settings.config))
        session = client._rest_client.session  # the client has no setting for headers
        try:
            session.headers.update(self._settings.headers)
            # Of Protobuf the compiled form is wanted; for other kinds the registry knows no such form.
            schema = client.get_schema(self._id)
            form = "serialized" if schema.schema_type == "PROTOBUF" else None
            if form is not None:
                client.clear_caches()
                schema = client.get_schema(self._id, fmt=form)
            texts = [*_referred(client, schema, form, {}), (f"schema-{self._id}.proto", schema.schema_str)]
            return WriterSchema(schema.schema_type, tuple(texts))
        finally:
            session.close()


def _referred(client: Any, schema: Any, form: str | None, seen: dict[str, bool]) -> Iterator[tuple[str, str]]:
    """The schemas that one refers to, each once and after those that it needs itself."""
    for reference in schema.references or ():
        if reference.name in seen:
            continue
        if len(seen) >= _REFERENCES_MAX:
            raise ValueError(f"more than {_REFERENCES_MAX} references")
        seen[reference.name] = True
        found = client.get_version(reference.subject, reference.version, fmt=form).schema
        yield from _referred(client, found, form, seen)
        yield reference.name, found.schema_str
