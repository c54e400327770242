"""Fills SQL's ``sys`` schema from the metadata store and from the leading overlord, wherever it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import orjson

import siltstone
from ingest.errors import OverlordUnreachable
from ingest.metadata.records import DesiredState
from ingest.metadata.store import MetadataStore
from ingest.overlord.overlord import Overlord
from ingest.overlord.refusals import UnknownSupervisor
from segments.civil import format_iso_ms
from segments.data_segment import DataSegment
from server.api.coordinator import PAGE, used_segments
from server.api.quarantine import STATES
from server.api.tasks import newest_attempts, task_status
from server.config_secrets import masked
from server.directory import Directory
from server.leader_view import LeaderView
from server.peer_view import READ_S, PeerView, flattened

Row = Mapping[str, object]

DRUID_TYPES = {"overlord": "overlord", "middle-manager": "middle_manager", "query": "broker", "api": "router"}


class StoreSystemTables:
    """``query.sql.metadata.SystemTables``; safe from any thread."""

    def __init__(
        self, store: MetadataStore, overlord: Overlord | None, directory: Directory, leader: LeaderView, peers: PeerView
    ) -> None:
        self._store = store
        self._overlord = overlord
        self._directory = directory
        self._leader = leader
        self._peers = peers

    def rows(self, table: str) -> Iterable[Row]:
        """The rows of one ``sys`` table; none for those that this service has nothing to say about."""
        fill = {
            "segments": self._segments,
            "tasks": self._tasks,
            "supervisors": self._supervisors,
            "servers": self._servers,
            "server_segments": self._server_segments,
            "server_properties": self._server_properties,
            "queries": self._queries,
            "quarantine": self._quarantine,
        }.get(table)
        return () if fill is None else fill()

    def _segments(self) -> Iterator[Row]:
        for datasource in self._store.datasources():
            for row in used_segments(self._store, datasource):
                yield _segment(row.segment)

    def _tasks(self) -> Iterator[Row]:
        for attempt in newest_attempts(self._store):
            told = task_status(attempt)
            place = told["location"]
            yield {
                "task_id": told["id"],
                "group_id": told["groupId"],
                "type": told["type"],
                "datasource": told["dataSource"],
                "created_time": told["createdTime"],
                "queue_insertion_time": told["queueInsertionTime"],
                "status": told["statusCode"],
                "runner_status": told["runnerStatusCode"],
                "duration": told["duration"],
                "location": attempt.address,
                "host": place["host"],
                "plaintext_port": place["port"],
                "tls_port": -1,
                "error_msg": told["errorMsg"],
            }

    def _supervisors(self) -> Iterator[Row]:
        leads = self._overlord is not None and self._overlord.is_leading
        told = {} if leads else self._leader.supervisors()
        for record in self._store.supervisors():
            payload = self._status(record.supervisor) if leads else told.get(record.supervisor, {})
            suspended = record.desired is DesiredState.SUSPENDED
            io = record.spec.get("spec", record.spec).get("ioConfig", {})
            yield {
                "supervisor_id": record.supervisor,
                "datasource": record.datasource,
                "state": payload.get("state"),
                "detailed_state": payload.get("detailedState"),
                "healthy": payload.get("healthy"),
                "type": "kafka",
                "source": io.get("topic") or io.get("topicPattern"),
                "suspended": suspended,
                "spec": orjson.dumps(masked({**record.spec, "suspended": suspended})).decode(),
            }

    def _status(self, supervisor: str) -> Mapping[str, object]:
        """This leader's view; nothing when its time is just over: state is then null, never a guess."""
        assert self._overlord is not None
        try:
            payload: Mapping[str, object] = self._overlord.status(supervisor)["payload"]
        except (OverlordUnreachable, UnknownSupervisor):
            return {}
        return payload

    def _servers(self) -> Iterator[Row]:
        leader = self._store.leadership()
        for node in self._directory.nodes():
            host, _, port = node.address.rpartition(":")
            for role in node.roles:
                yield {
                    "server": node.address,
                    "host": host,
                    "plaintext_port": int(port) if port.isdigit() else -1,
                    "tls_port": -1,
                    "server_type": DRUID_TYPES.get(role, role),
                    "curr_size": node.detail.get("cacheBytes", 0),
                    "max_size": node.detail.get("cacheMaxBytes", 0),
                    "storage_size": node.detail.get("cacheMaxBytes", 0),
                    "is_leader": int(role == "overlord" and leader is not None and leader.node == node.node),
                    "start_time": node.detail.get("started"),
                    "version": node.detail.get("version", siltstone.__version__),
                }

    def _server_segments(self) -> Iterator[Row]:
        """Every query node answers for every segment."""
        nodes = self._directory.query_nodes()
        for datasource in self._store.datasources() if nodes else ():
            for row in used_segments(self._store, datasource):
                for address in nodes:
                    yield {"server": address, "segment_id": str(row.segment.id)}

    def _server_properties(self) -> Iterator[Row]:
        """A row for each setting of each process, by its path in the settings file; of a process that does not answer
        one without a property, so that nobody takes it for absent."""
        for node, properties in self._peers.properties():
            place = {
                "server": node.address,
                "service_name": "siltstone",
                "node_roles": f"[{','.join(DRUID_TYPES.get(role, role) for role in node.roles)}]",
            }
            if properties is None:
                yield place | {"property": None, "value": None}
                continue
            for name, value in flattened(properties):
                yield place | {"property": name, "value": value}

    def _queries(self) -> Iterator[Row]:
        """What runs or waits on every query node; of one that does not answer a row says that this is unknown."""
        for address, found in self._peers.queries():
            if found is None:
                told = {"server": address, "error": f"no answer in {READ_S:g} s"}
                yield {"id": None, "engine": "native", "state": "UNKNOWN", "info": orjson.dumps(told).decode()}
            for query in found or ():
                yield {
                    "id": query.get("sqlQueryId") or query.get("queryId"),
                    "engine": "native",
                    "state": query.get("state"),
                    "info": orjson.dumps({**query, "server": address}).decode(),
                }

    def _quarantine(self) -> Iterator[Row]:
        for datasource in self._store.datasources():
            before: str | None = None
            while page := self._store.quarantine_files(datasource, PAGE, before):
                for file in page:
                    yield {
                        "datasource": datasource,
                        "supervisor_id": file.ref.supervisor,
                        "sequence": file.ref.name,
                        "num_rows": file.rows,
                        "size": file.size_bytes,
                        "created_time": format_iso_ms(file.published_ms),
                        "path": file.path,
                        "state": STATES.get(file.state, file.state),
                        "replayed_by": file.replayed_by,
                    }
                before = page[-1].path


def _segment(segment: DataSegment) -> Row:
    columns = segment.schema.columns
    return {
        "segment_id": str(segment.id),
        "datasource": segment.id.datasource,
        "start": format_iso_ms(segment.interval.start_ms),
        "end": format_iso_ms(segment.interval.end_ms),
        "size": segment.size_bytes,
        "version": segment.id.version,
        "partition_num": segment.id.partition_num,
        "num_replicas": 1,
        "num_rows": segment.rows,
        "is_active": 1,
        "is_published": 1,
        "is_available": 1,
        "is_realtime": 0,
        "is_overshadowed": 0,
        "shard_spec": orjson.dumps(segment.to_druid_json()["shardSpec"]).decode(),
        "dimensions": orjson.dumps([column.name for column in columns if column.kind == "dimension"]).decode(),
        "metrics": orjson.dumps([column.name for column in columns if column.kind == "metric"]).decode(),
        "replication_factor": 1,
    }
