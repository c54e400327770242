"""What every deep storage promises: create once, whole or not at all, listed, deleted, checked."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from segments.errors import InvalidName, KeyTaken, SegmentNotFound, StorageMisconfigured
from segments.storage.base import DeepStorage
from segments.storage.local import LocalDeepStorage
from segments.storage.memory import MemoryDeepStorage
from segments.storage.s3 import MULTIPART_BYTES, S3DeepStorage, S3Settings
from tests.servers.fixtures import S3Place

FileMaker = Callable[[bytes], Path]
BAD_KEYS = ["", "/etc/passwd", "../up", "a//b", "a/../b", "a/", "a*b", "a b", "k=v", "a\x00", "a\\b"]


@pytest.fixture(params=["memory", "local", pytest.param("s3", marks=pytest.mark.integration)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> DeepStorage:
    if request.param == "memory":
        return MemoryDeepStorage()
    if request.param == "local":
        root = tmp_path / "deep"
        root.mkdir()
        return LocalDeepStorage(root)
    return s3_storage(request.getfixturevalue("s3_place"))


def s3_storage(place: S3Place) -> S3DeepStorage:
    settings = S3Settings(
        bucket=place.bucket,
        prefix=place.prefix,
        endpoint_url=place.endpoint_url,
        access_key=place.access_key,
        secret_key=place.secret_key,
        call_deadline_ms=20_000,
    )
    return S3DeepStorage(settings, lambda: time.monotonic_ns() // 1_000_000, lambda ms: time.sleep(ms / 1000))


@pytest.fixture
def file(tmp_path: Path) -> FileMaker:
    numbers = iter(range(10_000))

    def write(content: bytes) -> Path:
        path = tmp_path / f"source-{next(numbers)}"
        path.write_bytes(content)
        return path

    return write


def test_what_is_pushed_is_pulled_and_deleted(storage: DeepStorage, file: FileMaker, tmp_path: Path) -> None:
    load_spec = storage.push(file(b"rows"), "wiki/a/1.parquet")
    assert load_spec == storage.load_spec("wiki/a/1.parquet")
    assert storage.exists(load_spec)
    dest = tmp_path / "new" / "folder" / "copy"
    storage.pull(load_spec, dest)
    assert dest.read_bytes() == b"rows"
    assert [path.name for path in dest.parent.iterdir()] == ["copy"]
    storage.delete(load_spec)
    assert not storage.exists(load_spec)
    storage.delete(load_spec)


def test_an_empty_file_is_a_file(storage: DeepStorage, file: FileMaker, tmp_path: Path) -> None:
    storage.pull(storage.push(file(b""), "wiki/empty"), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b""


def test_a_push_can_be_repeated_but_never_overwrites(storage: DeepStorage, file: FileMaker, tmp_path: Path) -> None:
    first = storage.push(file(b"rows"), "wiki/a/1.parquet")
    assert storage.push(file(b"rows"), "wiki/a/1.parquet") == first
    for other in (b"other", b"rowx", b"", b"rows and more"):
        with pytest.raises(KeyTaken):
            storage.push(file(other), "wiki/a/1.parquet")
    storage.pull(first, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"rows"


def test_of_two_pushes_at_once_one_wins(storage: DeepStorage, file: FileMaker, tmp_path: Path) -> None:
    outcomes: list[str] = []
    contents = [bytes([65 + number]) * 1000 for number in range(8)]

    def push(source: Path, content: bytes) -> None:
        try:
            storage.push(source, "wiki/raced")
            outcomes.append(content.decode()[0])
        except KeyTaken:
            outcomes.append("taken")

    threads = [threading.Thread(target=push, args=(file(content), content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("taken") == len(contents) - 1
    storage.pull(storage.load_spec("wiki/raced"), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes()[:1].decode() in outcomes


def test_a_missing_file_is_said_to_be_missing(storage: DeepStorage, tmp_path: Path) -> None:
    load_spec = storage.load_spec("wiki/nothing")
    assert not storage.exists(load_spec)
    with pytest.raises(SegmentNotFound, match="wiki/nothing"):
        storage.pull(load_spec, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_file_is_no_folder(storage: DeepStorage, file: FileMaker, tmp_path: Path) -> None:
    storage.push(file(b"rows"), "wiki/a")
    below = storage.load_spec("wiki/a/b")
    assert not storage.exists(below)
    storage.delete(below)
    with pytest.raises(SegmentNotFound):
        storage.pull(below, tmp_path / "copy")


def test_files_are_listed_by_prefix(storage: DeepStorage, file: FileMaker) -> None:
    keys = ["wiki/b", "wiki/a/2", "wiki/a/1", "wiki/a.x", "wikipedia/1", "other"]
    for key in keys:
        storage.push(file(key.encode()), key)
    found = sorted(storage.list("wiki"), key=lambda stored: stored.key)
    assert [stored.key for stored in found] == ["wiki/a.x", "wiki/a/1", "wiki/a/2", "wiki/b", "wikipedia/1"]
    assert [stored.size_bytes for stored in found] == [len(stored.key) for stored in found]
    assert [stored.load_spec for stored in found] == [storage.load_spec(stored.key) for stored in found]
    assert sorted(stored.key for stored in storage.list("wiki/a/")) == ["wiki/a/1", "wiki/a/2"]
    assert [stored.key for stored in storage.list("wiki/a/2")] == ["wiki/a/2"]
    assert [stored.key for stored in storage.list("nothing/here")] == []
    assert sorted(stored.key for stored in storage.list()) == sorted(keys)


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "../up", "a//b", "a/../b", "a/", "a*b", "a b", "k=v", "a\x00", "a\\b"]
)
def test_keys_that_leave_their_root_are_refused(storage: DeepStorage, file: FileMaker, key: str) -> None:
    with pytest.raises(InvalidName):
        storage.push(file(b"rows"), key)


def test_a_load_spec_of_another_storage_is_refused(storage: DeepStorage, tmp_path: Path) -> None:
    with pytest.raises(StorageMisconfigured, match="hdfs"):
        storage.pull({"type": "hdfs", "path": "x"}, tmp_path / "copy")


def test_a_failed_pull_leaves_the_old_copy(storage: DeepStorage, tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(b"old")
    with pytest.raises(SegmentNotFound):
        storage.pull(storage.load_spec("wiki/nothing"), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"old"


def test_the_check_passes_and_leaves_nothing(storage: DeepStorage) -> None:
    storage.check()
    storage.check()
    assert list(storage.list()) == []


@pytest.mark.integration
def test_large_files_go_up_in_parts_and_never_overwrite(s3_place: S3Place, file: FileMaker, tmp_path: Path) -> None:
    storage = s3_storage(s3_place)
    content = os.urandom(2 * MULTIPART_BYTES + 12_345)
    source = file(content)
    load_spec = storage.push(source, "wiki/large")
    assert storage.push(source, "wiki/large") == load_spec
    with pytest.raises(KeyTaken):
        storage.push(file(content[:-1] + b"\0"), "wiki/large")
    storage.pull(load_spec, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content
    assert [stored.size_bytes for stored in storage.list("wiki/")] == [len(content)]


@pytest.mark.integration
def test_long_listings_are_read_page_by_page(s3_place: S3Place, file: FileMaker) -> None:
    storage, source = s3_storage(s3_place), file(b"x")
    threads = [
        threading.Thread(target=lambda start=start: [storage.push(source, f"t/{n:05d}") for n in range(start, 1100, 8)])
        for start in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(stored.key for stored in storage.list("t/")) == [f"t/{number:05d}" for number in range(1100)]


@pytest.mark.integration
def test_a_missing_bucket_and_wrong_credentials_are_named(s3_place: S3Place) -> None:
    with pytest.raises(StorageMisconfigured, match="create the bucket 'nowhere'"):
        s3_storage(replace(s3_place, bucket="nowhere")).check()
    with pytest.raises(StorageMisconfigured, match="check the credentials"):
        s3_storage(replace(s3_place, secret_key="wrong")).check()
