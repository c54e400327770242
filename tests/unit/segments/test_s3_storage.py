"""The S3 storage against a server that answers as scripted: retries, deadlines, collisions, refusals."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from segments.errors import KeyTaken, StorageMisconfigured, StorageUnavailable, UploadUncertain
from segments.storage.s3 import S3DeepStorage, S3Settings

Answer = tuple[int, str, dict[str, str]]
OK: Answer = (200, "", {})
TAKEN: Answer = (412, "PreconditionFailed", {})
BUSY: Answer = (503, "SlowDown", {})
HANG: Answer = (0, "", {})


class ScriptedServer(ThreadingHTTPServer):
    """Answers with the next line of its script, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[Answer] = []
        self.asked: list[str] = []
        self.released = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        return

    def answer(self) -> None:
        server = self.server
        assert isinstance(server, ScriptedServer)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server.asked.append(f"{self.command} {self.headers.get('If-None-Match', '')}".strip())
        status, code, headers = server.script.pop(0)
        if not status:
            server.released.wait(10)
            self.close_connection = True
            return
        body = f"<Error><Code>{code}</Code></Error>".encode() if code and self.command != "HEAD" else b""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_HEAD = do_GET = do_DELETE = answer


class Clock:
    """Time that moves only by waiting."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.waits: list[int] = []

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wait_ms(self, ms: int) -> None:
        self.waits.append(ms)
        self.now_ms += ms


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").write_bytes(b"rows")
    return tmp_path / "source"


def storage_at(server: ScriptedServer, clock: Clock) -> S3DeepStorage:
    settings = S3Settings(
        bucket="segments",
        prefix="deep",
        endpoint_url=f"http://127.0.0.1:{server.server_port}",
        access_key="key",
        secret_key="secret",
        call_deadline_ms=5_000,
        connect_timeout_ms=200,
        read_timeout_ms=200,
    )
    return S3DeepStorage(settings, clock.monotonic_ms, clock.wait_ms)


def test_a_busy_server_is_asked_again_with_growing_waits(server: ScriptedServer, source: Path) -> None:
    clock, server.script = Clock(), [BUSY, BUSY, (500, "InternalError", {}), OK]
    assert storage_at(server, clock).push(source, "t/1") == {"type": "s3", "bucket": "segments", "key": "deep/t/1"}
    assert server.asked == ["PUT *"] * 4
    assert clock.waits == [200, 400, 800]


def test_a_server_that_stays_busy_ends_as_uncertain_by_the_deadline(server: ScriptedServer, source: Path) -> None:
    clock, server.script = Clock(), [BUSY] * 50
    with pytest.raises(UploadUncertain, match="SlowDown"):
        storage_at(server, clock).push(source, "t/1")
    assert clock.now_ms < 5_000


def test_a_push_whose_answer_was_lost_finds_its_own_file(server: ScriptedServer, source: Path) -> None:
    same = {"x-amz-meta-sha256": hashlib.sha256(b"rows").hexdigest()}
    server.script = [HANG, TAKEN, (200, "", same)]
    storage_at(server, Clock()).push(source, "t/1")
    assert server.asked == ["PUT *", "PUT *", "HEAD"]


def test_another_file_under_the_key_is_a_collision(server: ScriptedServer, source: Path) -> None:
    server.script = [TAKEN, (200, "", {"x-amz-meta-sha256": "00"})]
    with pytest.raises(KeyTaken, match="deep/t/1"):
        storage_at(server, Clock()).push(source, "t/1")


def test_a_refusal_is_not_repeated(server: ScriptedServer, source: Path) -> None:
    server.script = [(403, "InvalidAccessKeyId", {}), (404, "NoSuchBucket", {})]
    storage = storage_at(server, Clock())
    with pytest.raises(StorageMisconfigured, match="InvalidAccessKeyId.*check the credentials"):
        storage.push(source, "t/1")
    with pytest.raises(StorageMisconfigured, match="create the bucket 'segments'"):
        storage.push(source, "t/1")
    assert len(server.asked) == 2


def test_a_server_that_ignores_conditions_fails_the_check(server: ScriptedServer) -> None:
    server.script = [OK, OK, OK, (204, "", {})]
    with pytest.raises(StorageMisconfigured, match="conditional writes"):
        storage_at(server, Clock()).check()
    assert server.asked == ["HEAD", "PUT *", "PUT *", "DELETE"]


def test_a_cut_download_is_repeated_and_an_unreachable_server_named(server: ScriptedServer, tmp_path: Path) -> None:
    server.script = [HANG, OK]
    storage = storage_at(server, Clock())
    storage.pull(storage.load_spec("t/1"), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"" and server.asked == ["GET", "GET"]
    silent = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    port = silent.server_port
    silent.server_close()
    settings = S3Settings("segments", endpoint_url=f"http://127.0.0.1:{port}", access_key="k", secret_key="s")
    clock = Clock()
    with pytest.raises(StorageUnavailable, match=str(port)):
        S3DeepStorage(settings, clock.monotonic_ms, clock.wait_ms).check()
