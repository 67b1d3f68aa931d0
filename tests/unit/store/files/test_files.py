# SPDX-License-Identifier: Apache-2.0
"""The single files of a store: mapped files, queues of them, checkpoint, lock."""

from __future__ import annotations

import errno
import os
import sys
import threading

import pytest

from sprocketmq.errors import StoreCorrupt, StoreLocked, StoreNotWritable
from sprocketmq.store import DiskMessageStore, StoreConfig
from sprocketmq.store.files import mapped_file
from sprocketmq.store.files.checkpoint import Checkpoint
from sprocketmq.store.files.mapped_file import MappedFile
from sprocketmq.store.files.mapped_file_queue import MappedFileQueue

from ..stores import NOW_MS, SMALL, batch_of, bodies, message, open_disk, problems

# -- mapped files ----------------------------------------------------------------------------------------------------------------


def test_a_file_has_its_full_length_but_takes_only_what_was_written(tmp_path):
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


def test_pages_that_are_released_while_others_are_written_keep_their_content(tmp_path):
    file = MappedFile(str(tmp_path / "f"), 0, 1 << 22)
    file.create()
    file.ensure_space(0, file.size_bytes)
    ended, ends = threading.Event(), [0]

    def release():
        while not ended.is_set():
            end = ends[0]
            file.release_pages(max(0, end - 100_000), end)

    thread = threading.Thread(target=release)
    thread.start()
    pieces = [number.to_bytes(3, "big") * 333 for number in range(file.size_bytes // 999)]
    try:
        for piece in pieces:
            at = ends[0]
            file.view[at : at + len(piece)] = piece
            ends[0] = at + len(piece)
    finally:
        ended.set()
        thread.join()
    file.release_pages(0, file.size_bytes)
    expected = b"".join(pieces)
    assert bytes(file.view[: len(expected)]) == expected
    file.unmap()
    assert file.read(0, len(expected)) == expected
    file.release_pages(0, file.size_bytes)  # there is no mapping any more


def test_a_batch_on_a_full_disk_is_stored_whole_or_not_at_all(tmp_path, monkeypatch):
    store = open_disk(
        tmp_path / "s", StoreConfig(mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=100)
    )
    store.append(message(), NOW_MS)
    create = MappedFile.create

    def no_more_files(file):
        raise StoreNotWritable(file.path)

    monkeypatch.setattr(MappedFile, "create", no_more_files)
    with pytest.raises(StoreNotWritable):
        store.append_batch(
            batch_of([message(body=b"%d" % index) for index in range(9)]), NOW_MS
        )  # five fit the first file
    assert store.max_offset("T", 0) == 1
    monkeypatch.setattr(MappedFile, "create", create)
    assert store.append_batch(batch_of([message()] * 9), NOW_MS).queue_offset == 1
    assert store.max_offset("T", 0) == 10
    assert problems(store) == []


def test_names_that_do_not_fit_the_length_of_a_file_are_refused(tmp_path):
    (tmp_path / "00000000000000000100").write_bytes(bytes(2048))
    with pytest.raises(StoreCorrupt, match="mappedFileSizeCommitLog"):
        MappedFileQueue(str(tmp_path), 2048, "mappedFileSizeCommitLog").load()


def test_a_file_that_is_missing_between_others_is_named(tmp_path):
    for name in ("00000000000000000000", "00000000000000004096"):
        (tmp_path / name).write_bytes(bytes(2048))
    files = MappedFileQueue(str(tmp_path), 2048, "mappedFileSizeCommitLog")
    files.load()
    assert list(files.faults) == [2048]
    assert [file.start for file in files.files] == [0, 2048, 4096]
    assert not (tmp_path / "00000000000000002048").exists()
    with pytest.raises(StoreCorrupt, match="00000000000000002048 is missing"):
        MappedFileQueue(str(tmp_path), 2048, "mappedFileSizeTimerLog").load_whole()


def test_a_store_made_with_other_file_sizes_says_which_key_to_set(tmp_path):
    store = open_disk(tmp_path / "s")
    for _ in range(40):
        store.append(message(), NOW_MS)
    store.close()
    with pytest.raises(StoreCorrupt, match="mappedFileSizeCommitLog"):
        open_disk(tmp_path / "s", StoreConfig(mapped_file_size_commit_log=1024, mapped_file_size_consume_queue=100))
    open_disk(tmp_path / "s")  # and the failed start has let go of the lock


def test_foreign_files_in_the_folders_are_left_alone(tmp_path):
    store = open_disk(tmp_path / "s")
    store.append(message(), NOW_MS)
    store.close()
    for folder in ("commitlog", "consumequeue", "consumequeue/T", "consumequeue/T/0"):
        (tmp_path / "s" / folder / ".DS_Store").write_text("x")
    again = open_disk(tmp_path / "s")
    assert bodies(again) == [b"hello"]


def test_many_queues_stay_within_the_limit_of_open_files(tmp_path):
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


# -- who may use the directory ---------------------------------------------------------------------------------------------------


def test_a_second_broker_in_this_process_is_kept_out(tmp_path):
    store = open_disk(tmp_path / "s")
    with pytest.raises(StoreLocked, match=r"in use by another broker.*--store"):
        open_disk(tmp_path / "s")
    store.append(message(), NOW_MS)  # and the first one is not disturbed
    store.close()
    open_disk(tmp_path / "s").close()


def test_a_path_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreNotWritable, match=r"cannot write .*file.*--store"):
        open_disk(tmp_path / "file" / "store")


@pytest.mark.parametrize("refused", ["makedirs", "open"])
def test_a_directory_without_permission_is_named_at_load(tmp_path, refused, monkeypatch):
    def deny(path, *_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, refused, deny)
    with pytest.raises(StoreNotWritable, match=r"cannot write .*s.*may not write there"):
        DiskMessageStore(tmp_path / "s", SMALL).load()


# -- checkpoint ------------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_keeps_what_a_java_broker_wrote(tmp_path):
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
def test_a_missing_or_short_checkpoint_means_that_nothing_is_known(tmp_path, content):
    path = tmp_path / "checkpoint"
    if content is not None:
        path.write_bytes(content)
    checkpoint = Checkpoint(str(path))
    checkpoint.load()
    assert (checkpoint.min_timestamp_ms, checkpoint.durable_offset) == (0, None)


# -- syncing ---------------------------------------------------------------------------------------------------------------------


def test_very_many_written_queues_are_flushed_together(tmp_path, monkeypatch):
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
    assert store.consume_queues.dirty() == []
    checkpoint = Checkpoint(os.path.join(store.path, "checkpoint"))
    checkpoint.load()
    assert checkpoint.durable_offset == store.units("T", 299, 0)[0].physical_offset


def test_new_folders_are_synced_by_name_from_the_top(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(mapped_file, "sync_directory", synced.append)
    mapped_file.make_directories(str(tmp_path / "a" / "b"))
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    mapped_file.make_directories(str(tmp_path / "a" / "b"))
    assert len(synced) == 2
