"""The synchronous client: supervisors, tasks, segments and SQL over HTTP, one method per question.

It speaks Druid's own paths, so it also talks to Druid. Safe from any thread. Times out instead of
waiting for ever; failures are ``ClientError`` (no answer) or ``ApiError`` (an answer that says no).
Answers come as rows, as Arrow, or as a data frame; Arrow is the fast way, and Siltstone's own.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import urllib3

from siltstone.answer import Answer
from siltstone.values import ApiError, ClientError, InvalidAddress, parameters_of, raise_refusal, reason_of, unreachable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DEFAULT_URL", "Answer", "ApiError", "Client", "ClientError", "InvalidAddress"]

DEFAULT_URL = "http://127.0.0.1:8888"
LOOKUPS = "/druid/coordinator/v1/lookups"
SUPERVISORS = "/druid/indexer/v1/supervisor"
INDEXER = "/druid/indexer/v1"


class Client:
    """Asks one service at ``url``, ``http://HOST:PORT``; anything else is an InvalidAddress.

    ``timeout_s`` bounds the silence between two parts of an answer. Its queries are one ``session``: whichever
    query nodes answer them, a later answer shows no less of a table than an earlier one.
    """

    def __init__(self, url: str = DEFAULT_URL, timeout_s: float = 300.0) -> None:
        if not _is_address(url):
            raise InvalidAddress(f"{url!r} is not the address of a service: it must look like {DEFAULT_URL}")
        self.url = url.rstrip("/")
        self.session = secrets.token_urlsafe(12)
        self._http = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=5.0, read=timeout_s), retries=urllib3.Retry(connect=0, read=0, redirect=3)
        )

    # -- supervisors

    def submit(self, spec: Any) -> dict[str, Any]:
        """Creates or changes the supervisor that ``spec`` describes; answers with its id."""
        return self._object("POST", SUPERVISORS, spec)

    def plan(self, spec: Any, records: int = 100) -> dict[str, Any]:
        """What ``submit`` would change, field by field, from which offsets, and what the topic's last ``records`` would
        become; nothing is changed. ``action`` is create, change, none or refused."""
        return self._object("POST", f"/siltstone/v1/plan?records={records}", spec)

    def supervisors(self) -> list[dict[str, Any]]:
        """State and health of each."""
        return self._list("GET", f"{SUPERVISORS}?full")

    def supervisor_status(self, supervisor: str) -> dict[str, Any]:
        return self._object("GET", f"{SUPERVISORS}/{quote(supervisor, safe='')}/status")

    def supervisor_action(self, supervisor: str, action: str) -> dict[str, Any]:
        """``action``: suspend, resume, terminate or reset."""
        return self._object("POST", f"{SUPERVISORS}/{quote(supervisor, safe='')}/{action}", {})

    def reset_supervisor(self, supervisor: str, *, discard: bool = False) -> dict[str, Any]:
        """Reads again from where a new supervisor would start. What was read is published first, for up to a
        minute; ``discard`` gives it up at once."""
        return self.supervisor_action(supervisor, "reset?discard=true" if discard else "reset")

    def reset_offsets(self, supervisor: str, moves: dict[str, int], *, discard: bool = False) -> dict[str, Any]:
        """Reads partitions on from other offsets: by partition number, of a topicPattern by ``topic:partition``."""
        path = f"{self._at(supervisor)}/resetOffsets" + ("?discard=true" if discard else "")
        partitions = {"type": "end", "partitionOffsetMap": moves}
        return self._object("POST", path, {"type": "kafka", "partitions": partitions})

    def backfill_supervisor(self, supervisor: str, tasks: int | None = None) -> dict[str, Any]:
        """Goes on at the latest offsets; ``backfillSupervisorId`` of the answer reads what is skipped, with so many
        ``tasks``."""
        path = f"{self._at(supervisor)}/resetToLatestAndBackfill"
        return self._object("POST", path if tasks is None else f"{path}?backfillTaskCount={tasks}", {})

    def hand_off(self, supervisor: str, groups: list[int]) -> dict[str, Any]:
        """Task groups publish what they read now and read on; ``unknown`` are those that are not among ``groups``."""
        answer = self._json("POST", f"{self._at(supervisor)}/taskGroups/handoff", {"taskGroupIds": groups})
        return answer if isinstance(answer, dict) else {}

    def all_supervisors(self, action: str) -> dict[str, Any]:
        """``action``: suspendAll, resumeAll or terminateAll."""
        return self._object("POST", f"{SUPERVISORS}/{action}", {})

    def supervisor_spec(self, supervisor: str) -> dict[str, Any]:
        """As posted, secrets masked; posted again, masks stand for what is stored."""
        return self._object("GET", self._at(supervisor))

    def supervisor_history(self, supervisor: str) -> list[dict[str, Any]]:
        """Its specs with the times of their posts, newest first."""
        return self._list("GET", f"{self._at(supervisor)}/history")

    def supervisor_audit(self, supervisor: str, limit: int = 100) -> list[dict[str, Any]]:
        """What was done to its course, newest first; partitions of several topics by name."""
        return self._list("GET", f"/siltstone/v1/supervisor/{quote(supervisor, safe='')}/audit?limit={limit}")

    def supervisor_ledger(self, supervisor: str, limit: int = 100, after: int = 0) -> list[dict[str, Any]]:
        """Its published ranges after a table version, oldest first; partitions of several topics by name."""
        path = f"/siltstone/v1/supervisor/{quote(supervisor, safe='')}/ledger?limit={limit}&after={after}"
        return self._list("GET", path)

    def supervisor_stats(self, supervisor: str) -> dict[str, Any]:
        """Row counts by group and task."""
        return self._object("GET", f"{self._at(supervisor)}/stats")

    def supervisor_parse_errors(self, supervisor: str) -> list[dict[str, Any]]:
        """Samples of records that live tasks could not read whole."""
        return self._list("GET", f"{self._at(supervisor)}/parseErrors")

    @staticmethod
    def _at(supervisor: str) -> str:
        return f"{SUPERVISORS}/{quote(supervisor, safe='')}"

    # -- tasks, workers and segments

    def task_status(self, task: str) -> dict[str, Any]:
        """What became of a task, Druid's status object."""
        found: dict[str, Any] = self._object("GET", f"{INDEXER}/task/{quote(task, safe='')}/status")["status"]
        return found

    def shut_down_task(self, task: str) -> dict[str, Any]:
        """Ends its process; its group gets another."""
        return self._object("POST", f"{INDEXER}/task/{quote(task, safe='')}/shutdown", {})

    def workers(self) -> list[dict[str, Any]]:
        """Middle managers as the leader last heard them."""
        return self._list("GET", f"{INDEXER}/workers")

    def mark_segments(
        self, datasource: str, used: bool, segments: list[str] | None = None, interval: str | None = None
    ) -> dict[str, Any]:
        """Shows segments to queries or hides them, by ids or by the interval within which they lie."""
        body = {"interval": interval} if segments is None else {"segmentIds": segments}
        path = f"/druid/coordinator/v1/datasources/{quote(datasource, safe='')}/mark{'Used' if used else 'Unused'}"
        return self._object("POST", path, body)

    # -- lookups

    def lookup_troubles(self, name: str, tier: str = "__default") -> dict[str, Any]:
        """Whether every query node has ``loaded`` it, else ``pendingNodes`` and by node the ``troubles`` it has."""
        return self._object("GET", _lookup_path(name, tier, "status") + "?detailed=true")

    def lookups(self) -> dict[str, dict[str, dict[str, Any]]]:
        """All as posted, secrets masked, by tier and name; empty before the first."""
        return self._tiers("config/all")

    def lookup_status(self) -> dict[str, dict[str, dict[str, Any]]]:
        """By tier and name: whether every query node has ``loaded`` it; empty before the first."""
        return self._tiers("status")

    def _tiers(self, path: str) -> dict[str, dict[str, dict[str, Any]]]:
        try:
            return self._object("GET", f"{LOOKUPS}/{path}")
        except ApiError as error:
            if error.status == 404:
                return {}
            raise

    def lookup(self, name: str, tier: str = "__default") -> dict[str, Any]:
        """One as posted, secrets masked."""
        return self._object("GET", _lookup_path(name, tier))

    def put_lookup(self, name: str, lookup: dict[str, Any], tier: str = "__default") -> dict[str, Any]:
        """Creates or replaces one; other content needs a higher ``version``."""
        self._send("POST", f"{LOOKUPS}/config", {})  # Druid's API takes single ones only after it was begun
        return self._object("POST", _lookup_path(name, tier), lookup)

    def remove_lookup(self, name: str, tier: str = "__default") -> None:
        """Takes one away."""
        self._send("DELETE", _lookup_path(name, tier))

    def tasks(self) -> list[dict[str, Any]]:
        return self._list("GET", f"{INDEXER}/tasks")

    def task_log(self, task: str, offset: int = 0) -> str:
        """The task's log from ``offset`` bytes on; a negative one counts from the end."""
        return self._send("GET", f"{INDEXER}/task/{quote(task, safe='')}/log?offset={offset}").decode(errors="replace")

    def segments(self, datasource: str | None = None) -> list[dict[str, Any]]:
        """Published segments as the coordinator lists them."""
        query = f"?datasources={quote(datasource, safe='')}" if datasource else ""
        return self._list("GET", f"/druid/coordinator/v1/metadata/segments{query}")

    def datasources(self) -> list[str]:
        """Names of tables, also of those without a published segment."""
        return self._list("GET", "/druid/coordinator/v1/metadata/datasources")

    def verify(self, datasource: str) -> dict[str, Any]:
        """Runs the audit of one table on the server; see ``siltstone verify``."""
        return self._object("POST", f"/siltstone/v1/verify/{quote(datasource, safe='')}", {})

    def quarantine(self, datasource: str) -> Iterator[dict[str, Any]]:
        """Files of records that could not be read, newest first, asked for as far as they are taken."""
        path = f"/siltstone/v1/quarantine/{quote(datasource, safe='')}?limit=1000"
        page = self._json("GET", path)
        yield from page["files"]
        while page["next"] is not None:
            page = self._json("GET", f"{path}&before={quote(page['next'], safe='')}")
            yield from page["files"]

    def replay_quarantine(self, datasource: str, file: str) -> dict[str, Any]:
        """Ingests the records of the file with that path by the newest spec, once however often it is asked; those
        that are bad again wait in a new file. Answers what became of them."""
        path = f"/siltstone/v1/quarantine/{quote(datasource, safe='')}/replay?path={quote(file, safe='')}"
        return self._object("POST", path, {})

    def quarantine_records(self, datasource: str, file: str, limit: int) -> list[dict[str, Any]]:
        """The first ``limit`` records of the file with that path; ``valueBase64`` where ``value`` is not text."""
        path = f"/siltstone/v1/quarantine/{quote(datasource, safe='')}/records?path={quote(file, safe='')}"
        found: list[dict[str, Any]] = []
        following: int | None = 0
        while following is not None and len(found) < limit:
            page = self._json("GET", f"{path}&offset={following}&limit={min(limit - len(found), 1_000)}")
            found += page["records"]
            following = page["next"]
        return found

    def quarantine_file(self, datasource: str, file: str, sink: BinaryIO) -> None:
        """Writes the file with that path, Parquet, to ``sink``."""
        path = f"/siltstone/v1/quarantine/{quote(datasource, safe='')}/file?path={quote(file, safe='')}"
        answer = self._open("GET", path, None)
        try:
            for part in answer.stream(2**18):
                sink.write(part)
        except urllib3.exceptions.HTTPError as error:
            raise ClientError(f"{self.url}: the answer broke off: {reason_of(error)}") from error
        finally:
            answer.release_conn()

    def disable_worker(self) -> dict[str, Any]:
        """The middle manager at this URL takes no new tasks; those it has hand off early and end."""
        return self._object("POST", "/druid/worker/v1/disable", {})

    def enable_worker(self) -> dict[str, Any]:
        """The middle manager at this URL takes tasks again."""
        return self._object("POST", "/druid/worker/v1/enable", {})

    def worker_tasks(self) -> list[str]:
        """Ids of the tasks that run on the middle manager at this URL."""
        return self._list("GET", "/druid/worker/v1/tasks")

    # -- queries

    def sql(
        self, query: str, parameters: Iterable[Any] | None = None, context: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Rows of one SELECT, a dictionary each; timestamps as ISO text.

        ``parameters`` stand for the question marks of the statement, in order: values, or ``{"type", "value"}``.
        """
        body = {"query": query, "parameters": parameters_of(parameters), "context": context or {}}
        return self._list("POST", "/druid/v2/sql", body | {"resultFormat": "object"})

    def stream(
        self, query: str, parameters: Iterable[Any] | None = None, context: dict[str, Any] | None = None
    ) -> Answer:
        """One SELECT's answer as it is made: iterate it for Arrow batches, or its ``rows()`` for tuples.

        Use it in a ``with``, so that an answer not read to its end ends its query.
        """
        body = {"query": query, "parameters": parameters_of(parameters), "context": context or {}}
        response = self._open("POST", "/druid/v2/sql", body | {"resultFormat": "arrow"})
        return Answer(self.url, response)

    def arrow(
        self, query: str, parameters: Iterable[Any] | None = None, context: dict[str, Any] | None = None
    ) -> pa.Table:
        """One SELECT's answer as an Arrow table; ``polars.from_arrow`` takes it as it is."""
        with self.stream(query, parameters, context) as answer:
            return answer.table()

    def dataframe(
        self, query: str, parameters: Iterable[Any] | None = None, context: dict[str, Any] | None = None
    ) -> Any:
        """One SELECT's answer as a pandas DataFrame, times as ``datetime64[ms, zone]``, text as pandas keeps text.

        Raises:
            ClientError: pandas is not installed.
        """
        try:
            import pandas  # noqa: F401 (Arrow says less clearly what is missing)
        except ImportError as error:
            raise ClientError("a data frame needs pandas: pip install 'siltstone[pandas]'") from error
        return self.arrow(query, parameters, context).to_pandas()

    def cancel(self, query_id: str) -> bool:
        """Stops the statements of that id; False when none runs."""
        try:
            self._send("DELETE", f"/druid/v2/sql/{quote(query_id, safe='')}")
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def queries(self) -> list[dict[str, Any]]:
        """What runs or waits on the query node at this URL."""
        found: list[dict[str, Any]] = self._object("GET", "/druid/v2/sql/queries")["queries"]
        return found

    def native(self, query: dict[str, Any]) -> Any:
        """The answer to one of Druid's native JSON queries."""
        return self._json("POST", "/druid/v2", query)

    def sql_text(self, query: str, result_format: str, header: bool = True) -> bytes:
        """The answer's bytes in one of Druid's result formats (csv, objectLines, ...)."""
        body = {"query": query, "resultFormat": result_format, "header": header}
        return self._send("POST", "/druid/v2/sql", body)

    def health(self) -> bool:
        """Whether the process answers and calls itself healthy."""
        return self._json("GET", "/status/health") is True

    def faults(self) -> dict[str, str]:
        """What is wrong with the process at this URL, by the name of what it concerns; empty while nothing is."""
        try:
            self._json("GET", "/status/health")
        except ApiError as error:
            told = error.body.get("faults") if isinstance(error.body, dict) else None
            if isinstance(told, dict):
                return told
            raise
        return {}

    def get(self, path: str) -> Any:
        """The JSON answer of any other route."""
        return self._json("GET", path)

    def leads(self) -> bool:
        """Whether some overlord leads, so that supervisors can be changed."""
        try:
            return bool(self._send("GET", f"{INDEXER}/leader"))
        except ApiError as error:
            if error.status in (404, 503):
                return False
            raise

    def _json(self, method: str, path: str, body: Any = None) -> Any:
        content = self._send(method, path, body)
        try:
            return json.loads(content) if content else None
        except ValueError as error:
            raise ClientError(f"{self.url}{path} did not answer with JSON; is this address Siltstone's?") from error

    def _object(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer = self._json(method, path, body)
        if isinstance(answer, dict):
            return answer
        raise ClientError(f"{self.url}{path} did not answer with a JSON object; is this address Siltstone's?")

    def _list(self, method: str, path: str, body: Any = None) -> list[Any]:
        answer = self._json(method, path, body)
        if isinstance(answer, list):
            return answer
        raise ClientError(f"{self.url}{path} did not answer with a JSON array; is this address Siltstone's?")

    def _send(self, method: str, path: str, body: Any = None) -> bytes:
        answer = self._request(method, path, body, whole=True)
        raise_refusal(answer, answer.data)
        return answer.data

    def _open(self, method: str, path: str, body: Any) -> urllib3.BaseHTTPResponse:
        """An answer whose body is still to be read."""
        answer = self._request(method, path, body, whole=False)
        if answer.status >= 400:
            raise_refusal(answer, answer.read())
        return answer

    def _request(self, method: str, path: str, body: Any, whole: bool) -> urllib3.BaseHTTPResponse:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "X-Siltstone-Session": self.session}
        try:
            return self._http.request(method, self.url + path, body=content, headers=headers, preload_content=whole)
        except urllib3.exceptions.HTTPError as error:
            raise unreachable(self.url, error) from error


def _lookup_path(name: str, tier: str, kind: str = "config") -> str:
    return f"{LOOKUPS}/{kind}/{quote(tier, safe='')}/{quote(name, safe='')}"


def _is_address(url: str) -> bool:
    """Whether it names a host that HTTP can be spoken to; a port must be one."""
    try:
        parsed = urllib3.util.parse_url(url)
    except urllib3.exceptions.LocationParseError:
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host) and parsed.port != 0
