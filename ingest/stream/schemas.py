"""The port of a schema registry: a schema for each id that messages begin with, or a reason to wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ingest.errors import StreamError
from ingest.spec.formats import Registry


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A registered schema. ``kind`` is AVRO, PROTOBUF or JSON.

    ``texts`` are the schemas it refers to, each before those that need it, and last its own; of Protobuf
    they are descriptors in base64, each with the name by which the others import it.
    """

    kind: str
    texts: tuple[tuple[str, str], ...]


class WriterSchemas(Protocol):
    """One registry. For one thread."""

    def find(self, schema_id: int) -> WriterSchema | None:
        """The schema; None when the registry answers that it has none of this id. Does not wait long.

        Raises:
            SchemaRegistryUnreachable: it is not known yet; to be asked again.
        """
        ...


class SchemaRegistryUnreachable(StreamError):
    """The registry did not answer, or refuses: messages wait where they are, none is lost or judged."""

    retryable = True

    def __init__(self, urls: tuple[str, ...], detail: str) -> None:
        super().__init__(
            f"no answer from the schema registry at {', '.join(urls)} ({detail}); reading waits. Start it, or correct "
            "the url, config or headers of its decoder in spec.ioConfig.inputFormat"
        )


SchemaSources = Callable[[Registry], WriterSchemas]
"""Opens a registry; connects on first use. Raises SpecError where its settings cannot be used."""


class MemorySchemas:
    """`WriterSchemas` in memory; while ``trouble`` is set every call raises it."""

    def __init__(self, schemas: Mapping[int, WriterSchema]) -> None:
        self.schemas = dict(schemas)
        self.trouble: StreamError | None = None

    def find(self, schema_id: int) -> WriterSchema | None:
        if self.trouble is not None:
            raise self.trouble
        return self.schemas.get(schema_id)
