"""The single files of a store: mapped files, queues of them, checkpoint, lock, configuration files."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from power_disk import PowerDisk
from sprocketmq.errors import StoreCorrupt, StoreLocked, StoreNotWritable
from sprocketmq.store import DiskMessageStore, StoreConfig, config_files
from sprocketmq.store.config_files import ConfigFile, load_config, save_config
from sprocketmq.store.files import mapped_file
from sprocketmq.store.files.checkpoint import Checkpoint
from sprocketmq.store.files.lock_file import LockFile
from sprocketmq.store.files.mapped_file import MappedFile
from sprocketmq.store.files.mapped_file_queue import MappedFileQueue

from ..stores import NOW_MS, SMALL, bodies, message, open_disk, problems

# -- mapped files ----------------------------------------------------------------------------------------------------------------


def test_a_file_has_its_full_length_but_takes_only_what_was_written(tmp_path: Path) -> None:
    file = MappedFile(str(tmp_path / "f"), 0, 1 << 30)
    file.create()
    file.ensure_space(0, 100)
    file.view[0:5] = b"hello"
    status = (tmp_path / "f").stat()
    assert status.st_size == 1 << 30
    assert status.st_blocks * 512 < 1 << 20
    assert file.read(0, 5) == b"hello"
    file.unmap()
    assert file.read(0, 5) == b"hello"


def test_a_view_outlives_unmapping_and_deleting(tmp_path: Path) -> None:
    file = MappedFile(str(tmp_path / "f"), 0, 4096)
    file.create()
    file.view[0:5] = b"hello"
    view = file.readable[0:5]
    assert file.delete()
    assert bytes(view) == b"hello"
    assert not (tmp_path / "f").exists()


def test_a_full_disk_is_noticed_before_a_byte_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_disk(
        tmp_path / "s", StoreConfig(mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=400)
    )
    store.append(message(), NOW_MS)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    stored = 1
    while store.commit_log.at + 250 < store.commit_log.room:
        store.append(message(queue_id=0, body=b"x" * 100), NOW_MS)
        stored += 1
    with pytest.raises(StoreNotWritable, match="disk is full"):
        store.append(message(body=b"x" * 1000), NOW_MS)
    assert store.max_offset("T", 0) == stored  # the failed one left nothing
    assert problems(store) == []
    monkeypatch.undo()
    assert store.append(message(), NOW_MS).queue_offset == stored
    assert len(bodies(store)) == stored + 1
    store.close()


def test_a_batch_on_a_full_disk_is_stored_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_disk(
        tmp_path / "s", StoreConfig(mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=100)
    )
    store.append(message(), NOW_MS)
    create = MappedFile.create

    def no_more_files(file: MappedFile) -> None:
        raise StoreNotWritable(file.path)

    monkeypatch.setattr(MappedFile, "create", no_more_files)
    with pytest.raises(StoreNotWritable):
        store.append_batch([message(body=b"%d" % index) for index in range(9)], NOW_MS)  # five fit the first queue file
    assert store.max_offset("T", 0) == 1
    monkeypatch.setattr(MappedFile, "create", create)
    assert [r.queue_offset for r in store.append_batch([message()] * 9, NOW_MS)] == list(range(1, 10))
    assert problems(store) == []
    store.close()


@pytest.mark.parametrize("names", [["00000000000000000000", "00000000000000004096"], ["00000000000000000100"]])
def test_files_that_do_not_follow_on_each_other_are_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_bytes(bytes(2048))
    with pytest.raises(StoreCorrupt, match="mappedFileSizeCommitLog"):
        MappedFileQueue(str(tmp_path), 2048, "mappedFileSizeCommitLog").load()


def test_a_store_made_with_other_file_sizes_says_which_key_to_set(tmp_path: Path) -> None:
    store = open_disk(tmp_path / "s")
    for _ in range(40):
        store.append(message(), NOW_MS)
    store.close()
    with pytest.raises(StoreCorrupt, match="mappedFileSizeCommitLog"):
        open_disk(tmp_path / "s", StoreConfig(mapped_file_size_commit_log=1024, mapped_file_size_consume_queue=100))
    again = open_disk(tmp_path / "s")  # and the failed start has let go of the lock
    again.close()


def test_foreign_files_in_the_folders_are_left_alone(tmp_path: Path) -> None:
    store = open_disk(tmp_path / "s")
    store.append(message(), NOW_MS)
    store.close()
    for folder in ("commitlog", "consumequeue", "consumequeue/T", "consumequeue/T/0"):
        (tmp_path / "s" / folder / ".DS_Store").write_text("x")
    again = open_disk(tmp_path / "s")
    assert bodies(again) == [b"hello"]
    again.close()


def test_many_queues_stay_within_the_limit_of_open_files(tmp_path: Path) -> None:
    config = StoreConfig(mapped_file_size_commit_log=1 << 20, max_mapped_queue_files=8)
    store = open_disk(tmp_path / "s", config)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for round_number in range(3):
        for queue_id in range(100):
            store.append(message("T", queue_id, b"%d" % round_number), NOW_MS)
    assert len(store.consume_queues.budget) <= 8
    if before:
        assert len(os.listdir("/proc/self/fd")) - before <= 16  # and what the flush thread has open just now
    assert all(bodies(store, "T", queue_id) == [b"0", b"1", b"2"] for queue_id in range(100))
    assert problems(store) == []
    store.close()


# -- who may use the directory ---------------------------------------------------------------------------------------------------


def test_a_second_broker_in_this_process_is_kept_out(tmp_path: Path) -> None:
    store = open_disk(tmp_path / "s")
    with pytest.raises(StoreLocked, match=r"in use by another broker.*--store"):
        open_disk(tmp_path / "s")
    store.append(message(), NOW_MS)  # and the first one is not disturbed
    store.close()
    open_disk(tmp_path / "s").close()


def test_a_second_broker_in_another_process_is_kept_out(tmp_path: Path) -> None:
    program = (
        "import sys; from sprocketmq.store.files.lock_file import LockFile; "
        "LockFile(sys.argv[1]).acquire(); print('held', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(StoreLocked):
        LockFile(str(tmp_path)).acquire()
    child.communicate()
    lock = LockFile(str(tmp_path))
    lock.acquire()
    lock.release()


def test_a_path_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreNotWritable, match=r"cannot write .*file.*--store"):
        open_disk(tmp_path / "file" / "store")


@pytest.mark.parametrize("refused", ["makedirs", "open"])
def test_a_directory_without_permission_is_named_at_load(
    tmp_path: Path, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(path: str, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, refused, deny)
    with pytest.raises(StoreNotWritable, match=r"cannot write .*s.*may not write there"):
        DiskMessageStore(tmp_path / "s", SMALL).load()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_read_only_directory_is_named_at_load(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o555)
    with pytest.raises(StoreNotWritable, match="may not write there"):
        open_disk(tmp_path / "s")


# -- checkpoint ------------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_keeps_what_a_java_broker_wrote(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    java = b"".join(value.to_bytes(8, "big") for value in (10_000, 9_000, 8_000, 7, 6))
    path.write_bytes(java.ljust(4096, b"\0"))
    checkpoint = Checkpoint(str(path))
    checkpoint.load()
    assert checkpoint.min_timestamp_ms == 6_000
    assert checkpoint.durable_offset is None
    assert not checkpoint.is_ours
    checkpoint.save()
    assert path.read_bytes()[:2048] == java.ljust(2048, b"\0")
    checkpoint.durable_offset = 1234
    checkpoint.save()
    again = Checkpoint(str(path))
    again.load()
    assert again.durable_offset == 1234
    assert path.read_bytes()[:40] == java
    assert path.stat().st_size == 4096


@pytest.mark.parametrize("content", [None, b"", b"\0" * 17])
def test_a_missing_or_short_checkpoint_means_that_nothing_is_known(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "checkpoint"
    if content is not None:
        path.write_bytes(content)
    checkpoint = Checkpoint(str(path))
    checkpoint.load()
    assert (checkpoint.min_timestamp_ms, checkpoint.durable_offset) == (0, None)


# -- configuration files ---------------------------------------------------------------------------------------------------------


def test_a_saved_text_comes_back_and_the_one_before_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "config/topics.json"
    assert load_config(path, bytes) is None
    save_config(path, b"one")
    save_config(path, b"two")
    assert (path.read_bytes(), (tmp_path / "config/topics.json.bak").read_bytes()) == (b"two", b"one")
    assert load_config(path, bytes) == b"two"
    assert sorted(file.name for file in path.parent.iterdir()) == ["topics.json", "topics.json.bak"]


@pytest.mark.parametrize("damage", ["missing", "empty", "unreadable"])
def test_the_spare_copy_serves_when_the_file_is_no_good(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "topics.json"
    save_config(path, b"1")
    save_config(path, b"2")
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"" if damage == "empty" else b"{broken")
    assert load_config(path, int) == 1


def test_two_unreadable_copies_stop_the_start(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_bytes(b"{")
    with pytest.raises(StoreCorrupt, match=r"neither .*topics.json nor its .bak"):
        load_config(path, int)


_STEPS = ("fsync", "unlink", "link", "replace")


def watch_steps(patch: pytest.MonkeyPatch, look: Callable[[], None]) -> None:
    """Call ``look`` before each step of a save, and after it."""

    def watched(step: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: object, **options: object) -> None:
            look()
            step(*arguments, **options)
            look()

        return run

    for name in _STEPS:
        patch.setattr(os, name, watched(getattr(os, name)))


def test_a_copy_made_file_by_file_during_a_save_holds_what_was_saved_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spare copy is read at one moment, the file at a later one: an older text would bring back what was deleted since."""
    path, moments = tmp_path / "topics.json", list[tuple[bytes | None, bytes | None]]()

    def look() -> None:
        moments.append((_text(path), _text(tmp_path / "topics.json.bak")))

    for number in (1, 2):
        save_config(path, b"%d" % number)
    watch_steps(monkeypatch, look)
    save_config(path, b"3")
    monkeypatch.undo()
    copy = tmp_path / "copy"
    copy.mkdir()
    for at, (_, spare) in enumerate(moments):
        for text, _ in moments[at:]:
            for name, content in (("topics.json", text), ("topics.json.bak", spare)):
                (copy / name).unlink(missing_ok=True)
                if content is not None:
                    (copy / name).write_bytes(content)
            assert load_config(copy / "topics.json", int) in (2, 3), f"{text!r} with {spare!r} beside it"


def test_a_power_cut_at_any_step_of_a_save_takes_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No order of names is assumed: any of those that changed may be on the disk, and any may be not."""
    root, images = tmp_path / "config", list[Path]()
    root.mkdir()
    path = root / "topics.json"
    for number in (1, 2):
        save_config(path, b"%d" % number)
    disk = PowerDisk(root, monkeypatch)

    def look() -> None:
        for _ in range(20):
            images.append(tmp_path / f"cut{len(images)}")
            disk.cut(images[-1], random.Random(len(images)))

    watch_steps(monkeypatch, look)
    save_config(path, b"3")
    disk.close()
    assert {load_config(image / "topics.json", int) for image in images} == {2, 3}


def _text(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("unreadable", [False, True])
def test_a_save_that_is_killed_at_any_step_leaves_a_complete_text(
    tmp_path: Path, unreadable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file had been damaged, and the spare copy had to serve. What the killed save left hinders no later one."""
    step = 0
    while True:
        path = tmp_path / str(step) / "topics.json"
        for number in (1, 2):
            save_config(path, b"%d" % number)
        if unreadable:
            path.write_bytes(b"{broken")
        left = step

        def die() -> None:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1

        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            watch_steps(patch, die)
            save_config(path, b"3")
        assert load_config(path, int) in (1 if unreadable else 2, 3)
        for number in (4, 5):
            save_config(path, b"%d" % number)
        assert (path.read_bytes(), path.with_name("topics.json.bak").read_bytes()) == (b"5", b"4")
        if left:
            break
        step += 1
    assert step > 6


@pytest.mark.parametrize(
    "number", [errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EMLINK, errno.EXDEV]
)
def test_where_files_have_one_name_only_the_file_is_replaced_and_the_spare_copy_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """EINVAL is what Windows' "incorrect function" becomes, on exFAT and some network shares."""
    refused = OSError(number, os.strerror(number))

    def no_links(*_: object) -> None:
        raise refused

    path = tmp_path / "topics.json"
    for text in (b"1", b"2"):
        save_config(path, text)
    monkeypatch.setattr(os, "link", no_links)
    save_config(path, b"3")
    assert (load_config(path, int), path.with_name("topics.json.bak").read_bytes()) == (3, b"1")


def test_a_text_whose_successor_failed_on_the_way_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed one may have got as far as the name: deleted, not acknowledged, made again, and gone after a restart."""
    file = ConfigFile(tmp_path / "x.json")
    file.save(b"1")

    def broken(_: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(config_files, "sync_directory", broken)
        with pytest.raises(StoreNotWritable):
            file.save(b"2")
    assert file.save(b"1")
    assert file.load(int) == 1


def test_an_unchanged_text_is_not_written_again(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path / "x.json")
    assert file.save(b"1")
    assert not file.save(b"1")
    assert file.save(b"2")
    assert file.load(int) == 2
    nowhere = ConfigFile(None)
    assert not nowhere.save(b"1")
    assert nowhere.load(int) is None


def test_very_many_written_queues_are_flushed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = StoreConfig(
        mapped_file_size_commit_log=1 << 20,
        flush_interval_commit_log_ms=3_600_000,
        flush_interval_consume_queue_ms=3_600_000,
    )
    store = open_disk(tmp_path / "s", config)
    for queue_id in range(300):
        store.append(message("T", queue_id), NOW_MS)
    synced: list[str] = []
    monkeypatch.setattr(mapped_file, "sync_path", synced.append)
    store.flush()
    if sys.platform == "linux":
        assert len(synced) == 1  # the log; one syncfs did the rest
    assert store.consume_queues.dirty_count() == 0
    checkpoint = Checkpoint(os.path.join(store.path, "checkpoint"))
    checkpoint.load()
    assert checkpoint.durable_offset == store.units("T", 299, 0)[0].physical_offset
    store.close()


def test_new_folders_are_synced_by_name_from_the_top(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(mapped_file, "sync_directory", synced.append)
    mapped_file.make_directories(str(tmp_path / "a" / "b"))
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    mapped_file.make_directories(str(tmp_path / "a" / "b"))
    assert len(synced) == 2
