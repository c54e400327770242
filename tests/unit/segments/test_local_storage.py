"""The folder storage against crashes, full and forbidden disks."""

import errno
import multiprocessing
import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from segments.errors import SegmentNotFound, StorageFull, StorageMisconfigured, StorageUnavailable
from segments.identity import SegmentId
from segments.storage.durable import disk_error
from segments.storage.layout import key_for, quarantine_key_for
from segments.storage.local import LocalDeepStorage


def push_and_die(root: str, source: str, deadly_call: int) -> None:
    """Pushes with the given system call of the push replaced by the process's own death."""
    calls = 0

    def dying(original: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            if calls == deadly_call:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return call

    for name in ("link", "fsync", "open", "mkdir", "unlink", "fchmod", "close"):
        setattr(os, name, dying(getattr(os, name)))
    LocalDeepStorage(Path(root)).push(Path(source), "wiki/a/1.parquet")


def test_a_push_killed_at_any_step_leaves_the_whole_file_or_none(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3_000_000))
    context = multiprocessing.get_context("fork")
    seen = set()
    for deadly_call in range(1, 60):
        root = tmp_path / "deep"
        root.mkdir()
        process = context.Process(target=push_and_die, args=(str(root), str(source), deadly_call))
        process.start()
        process.join()
        storage = LocalDeepStorage(root)
        stored = list(storage.list())
        for found in stored:
            storage.pull(found.load_spec, tmp_path / "copy")
            assert (tmp_path / "copy").read_bytes() == source.read_bytes()
        seen.add(len(stored))
        # The next attempt is not hindered by what the dead one left.
        storage.push(source, "wiki/a/1.parquet")
        shutil.rmtree(root)
        if process.exitcode == 0:
            break
    assert process.exitcode == 0, "more system calls than tried"
    assert seen == {0, 1}


def test_what_a_killed_push_left_half_written_goes_with_the_deletion_of_its_key(tmp_path: Path) -> None:
    root = tmp_path / "deep"
    folder = root / "wiki" / "a"
    folder.mkdir(parents=True)
    left = {".tmp-1.parquet-abcdefgh", ".tmp-1.parquet-x-abcdefgh", ".tmp-2.parquet-abcdefgh"}
    for name in left:
        (folder / name).write_bytes(b"half")
    storage = LocalDeepStorage(root)
    storage.delete(storage.load_spec("wiki/a/1.parquet"))
    assert {path.name for path in folder.iterdir()} == left - {".tmp-1.parquet-abcdefgh"}
    storage.delete(storage.load_spec("wiki/b/1.parquet"))  # where there is not even a folder


def test_a_push_names_its_unfinished_file_so_that_the_deletion_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, seen = tmp_path / "source", list[str]()
    source.write_bytes(b"whole")
    storage = LocalDeepStorage(tmp_path / "deep")
    key = "wiki/a/" + "t" * 64 + ".parquet"

    def die_half_written(*_: object) -> None:
        seen.extend(os.listdir(tmp_path / "deep" / "wiki" / "a"))
        monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
        raise OSError(errno.EIO, "the machine dies here")

    with monkeypatch.context() as dying:
        dying.setattr(shutil, "copyfileobj", die_half_written)
        with pytest.raises(StorageUnavailable):
            storage.push(source, key)
    monkeypatch.undo()
    assert len(seen) == 1 and os.listdir(tmp_path / "deep" / "wiki" / "a") == seen
    storage.delete(storage.load_spec(key))
    assert not (tmp_path / "deep" / "wiki").exists()


def test_a_missing_root_is_not_an_empty_one(tmp_path: Path) -> None:
    storage = LocalDeepStorage(tmp_path / "unmounted")
    with pytest.raises(StorageMisconfigured, match="not there"):
        storage.pull(storage.load_spec("wiki/a"), tmp_path / "copy")
    with pytest.raises(StorageMisconfigured, match="not there"):
        list(storage.list())
    (tmp_path / "unmounted").mkdir()
    with pytest.raises(SegmentNotFound):
        storage.pull(storage.load_spec("wiki/a"), tmp_path / "copy")


def test_the_check_names_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageMisconfigured, match="deep_storage.path"):
        LocalDeepStorage(tmp_path / "file").check()
    LocalDeepStorage(tmp_path / "new" / "root").check()
    assert (tmp_path / "new" / "root").is_dir()


@pytest.mark.parametrize(
    ("number", "kind", "cure"),
    [
        (errno.ENOSPC, StorageFull, "free some space"),
        (errno.EACCES, StorageMisconfigured, "right"),
        (errno.EROFS, StorageMisconfigured, "another path"),
        (errno.EIO, StorageUnavailable, "I/O"),
    ],
)
def test_disk_errors_say_what_to_do(number: int, kind: type[Exception], cure: str) -> None:
    error = disk_error(OSError(number, os.strerror(number).replace("Input/output", "I/O")), Path("/x"), "writing")
    assert isinstance(error, kind) and cure in str(error)


def test_moved_roots_keep_their_load_specs(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"rows")
    load_spec = LocalDeepStorage(tmp_path / "one").push(tmp_path / "source", "wiki/a")
    (tmp_path / "one").rename(tmp_path / "two")
    assert LocalDeepStorage(tmp_path / "two").exists(load_spec)


def test_deleting_tidies_empty_folders_but_not_the_root(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"rows")
    storage = LocalDeepStorage(tmp_path / "deep")
    kept = storage.push(tmp_path / "source", "wiki/a/1")
    storage.delete(storage.push(tmp_path / "source", "wiki/b/1"))
    assert sorted(path.name for path in (tmp_path / "deep" / "wiki").iterdir()) == ["a"]
    storage.delete(kept)
    assert list((tmp_path / "deep").iterdir()) == []


def test_attempts_of_one_segment_have_different_safe_keys() -> None:
    segment_id = SegmentId.parse("wi ki*_2026-01-01T00:00:00.000Z_2026-01-01T01:00:00.000Z_v1_3")
    key = key_for(segment_id, "t0k3n")
    assert key == "wi%20ki%2A/2026-01-01T00:00:00.000Z_2026-01-01T01:00:00.000Z/v1/3/t0k3n.parquet"
    assert key != key_for(segment_id, "t0k4n")
    assert quarantine_key_for("wiki", "wiki_1_2", "t") == "_quarantine/wiki/wiki_1_2/t.parquet"


def push_with_little_space(root: str, source: str) -> None:
    """Ends with 0 if the push failed as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    try:
        LocalDeepStorage(Path(root)).push(Path(source), "wiki/a/1.parquet")
    except StorageFull:
        os._exit(0)
    os._exit(1)


def test_a_full_disk_says_so_and_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(bytes(3_000_000))
    root = tmp_path / "deep"
    process = multiprocessing.get_context("fork").Process(
        target=push_with_little_space, args=(str(root), str(tmp_path / "source"))
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    assert [path for path in root.rglob("*") if path.is_file()] == []
