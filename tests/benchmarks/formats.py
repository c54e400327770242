"""Measures every input format beside JSON in the same run: events a CPU second, decoding alone and to merged segments.

Run by ``make bench``, or alone: ``python -m tests.benchmarks.formats --events 100000``. The same ad events in
every format, from memory; formats take turns, so that a busy machine slows all of them.
"""

from __future__ import annotations

import argparse
import base64
import gc
import json
import tempfile
import time
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any, Final

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ingest.appenderator.decoding import RowDecoder
from ingest.spec import SupervisorSpec, parse_supervisor_spec
from ingest.stream.schemas import MemorySchemas, WriterSchema
from ingest.stream.supplier import Poll
from tests.benchmarks.events import AD_DIMENSIONS, START_MS, ad_events, data_schema
from tests.benchmarks.rowpath import BATCH, Source, whole

FIELDS: Final = (*AD_DIMENSIONS, "event_time")
AVRO: Final = {"type": "record", "name": "Ad", "fields": [{"name": name, "type": "string"} for name in FIELDS]}
REGISTRY: Final = {"type": "schema_registry", "url": "http://registry:8081"}
SCHEMAS: Final = MemorySchemas({1: WriterSchema("AVRO", (("own", json.dumps(AVRO)),))})


def descriptor() -> descriptor_pb2.FileDescriptorProto:
    """A message Ad with a text for each field."""
    file = descriptor_pb2.FileDescriptorProto(name="ad.proto", syntax="proto3")
    kind = file.message_type.add(name="Ad")
    for number, name in enumerate(FIELDS, 1):
        field = kind.field.add(name=name, number=number, json_name=name)
        field.type, field.label = field.TYPE_STRING, field.LABEL_OPTIONAL
    return file


def messages(events: list[dict[str, str]]) -> dict[str, tuple[dict[str, Any], list[bytes]]]:
    """The inputFormat and the messages of each format."""
    rows = [[event[name] for name in FIELDS] for event in events]
    parsed = fastavro.parse_schema(dict(AVRO))
    avro: list[bytes] = []
    for event in events:
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, event)
        avro.append(out.getvalue())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor())
    ad = message_factory.GetMessageClass(pool.FindMessageTypeByName("Ad"))
    packed = descriptor_pb2.FileDescriptorSet(file=[descriptor()]).SerializeToString()
    inline = {"type": "inline", "descriptorString": base64.b64encode(packed).decode()}
    text = [json.dumps(event).encode() for event in events]
    columns = list(FIELDS)
    pattern = ";".join(["([^;]*)"] * len(FIELDS))
    return {
        "json": ({"type": "json"}, text),
        "csv": ({"type": "csv", "columns": columns}, [",".join(row).encode() for row in rows]),
        "csv, quoted": (
            {"type": "csv", "columns": columns},
            [",".join(f'"{field}"' for field in row).encode() for row in rows],
        ),
        "tsv": ({"type": "tsv", "columns": columns}, ["\t".join(row).encode() for row in rows]),
        "regex": (
            {"type": "regex", "pattern": pattern, "columns": columns},
            [";".join(row).encode() for row in rows],
        ),
        "avro": ({"type": "avro_stream", "avroBytesDecoder": {"type": "schema_inline", "schema": AVRO}}, avro),
        "avro by registry": (
            {"type": "avro_stream", "avroBytesDecoder": REGISTRY},
            [b"\x00\x00\x00\x00\x01" + body for body in avro],
        ),
        "protobuf": (
            {"type": "protobuf", "protoBytesDecoder": inline},
            [ad(**event).SerializeToString() for event in events],
        ),
        "kafka with key and header": (
            {
                "type": "kafka",
                "valueFormat": {"type": "json"},
                "keyFormat": {"type": "lines"},
                "headerFormat": {"type": "string"},
            },
            text,
        ),
    }


def spec_of(form: dict[str, Any]) -> SupervisorSpec:
    io = {"topic": "t", "inputFormat": form, "consumerProperties": {"bootstrap.servers": "none:1"}}
    posted = {"type": "kafka", "spec": {"dataSchema": data_schema("ad", False), "ioConfig": io}}
    return parse_supervisor_spec(posted)[0]


def source_of(values: list[bytes], records: bool) -> Source:
    """The messages as one partition, a batch at a time; with keys and headers where a format reads them."""

    def polls() -> Any:
        for at in range(0, len(values), BATCH):
            part: list[bytes | None] = list(values[at : at + BATCH])
            poll = Poll(0, at, at + len(part), range(at, at + len(part)), part, [START_MS] * len(part))
            if records:
                poll = replace(poll, keys=[b"a key"] * len(part), headers=[[("env", b"prod")]] * len(part))
            yield [poll]

    return polls


def decoding(spec: SupervisorSpec, source: Source) -> float:
    """CPU seconds of decoding alone."""
    decoder = RowDecoder(spec.data_schema, schemas=lambda registry: SCHEMAS)
    began = time.process_time()
    for polls in source():
        batch = decoder.decode(polls, START_MS)
        assert batch.rows.num_rows == batch.messages
    return time.process_time() - began


def measure(events: int, rounds: int) -> dict[str, dict[str, float]]:
    """By format: events a CPU second decoded and to merged segments, and both costs in JSON's."""
    made = messages([json.loads(event) for event in ad_events(events)])
    decoded: dict[str, list[float]] = {name: [] for name in made}
    merged: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds):
        for name, (form, values) in made.items():
            gc.collect()
            gc.freeze()  # the messages of all formats are no part of what one costs
            spec, source = spec_of(form), source_of(values, form["type"] == "kafka")
            decoded[name].append(decoding(spec, source))
            if form.get("avroBytesDecoder") == REGISTRY:
                continue  # the whole path of a task opens registries; only reading differs
            with tempfile.TemporaryDirectory() as folder:
                merged[name].append(whole(spec, source, Path(folder), events)[0])
    found: dict[str, dict[str, float]] = {}
    for name in made:
        found[name] = {
            "decoded_per_cpu_second": round(events / median(decoded[name])),
            "decoding_of_json": round(median(a / b for a, b in zip(decoded[name], decoded["json"], strict=True)), 2),
        }
        if merged[name]:
            found[name]["merged_per_cpu_second"] = round(events / median(merged[name]))
            ratio = median(a / b for a, b in zip(merged[name], merged["json"], strict=True))
            found[name]["whole_of_json"] = round(ratio, 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for name, figures in measure(args.events, args.rounds).items():
        print(f"{name:26} {figures}")


if __name__ == "__main__":
    main()
