# SPDX-License-Identifier: Apache-2.0
"""Group commit: who waits is answered after the sync that covers him, and many share one."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import sys
import threading
from pathlib import Path

import pytest

from refused_threads import refused_threads
from sprocketmq.errors import StoreNotWritable
from sprocketmq.store import DiskMessageStore, FlushDiskType, StoreConfig
from sprocketmq.store.files import mapped_file

from ..stores import NOW_MS, bodies, message, open_disk, problems

# Intervals so long that only waiters wake the thread.
QUIET = StoreConfig(
    mapped_file_size_commit_log=1 << 16,
    mapped_file_size_consume_queue=2000,
    flush_disk_type=FlushDiskType.SYNC_FLUSH,
    flush_interval_commit_log_ms=3_600_000,
    flush_interval_consume_queue_ms=3_600_000,
)


class Disk:
    """Counts syncs, holds them up, or lets them fail."""

    def __init__(self, monkeypatch):
        self.paths: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.error: BaseException | None = None
        monkeypatch.setattr(mapped_file, "sync_path", self.sync)

    def sync(self, path):
        self.entered.release()
        assert self.gate.wait(20)
        if self.error is not None:
            raise self.error
        self.paths.append(path)

    def hold(self, store):
        """A waiter whose sync has begun, and stays at the gate."""
        self.gate.clear()
        waiter = store.when_durable(end(store))
        assert self.entered.acquire(timeout=20)
        return waiter


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@pytest.fixture
def store(tmp_path, disk):
    store = open_disk(tmp_path / "s", QUIET)
    yield store
    disk.gate.set()
    store.close()


def end(store):
    result = store.append(message(), NOW_MS)
    return result.physical_offset + result.size


def test_many_waiters_share_one_sync(store, disk):
    first = disk.hold(store)
    others = [store.when_durable(end(store)) for _ in range(50)]
    assert not first.done()
    disk.gate.set()
    first.result(20)
    for waiter in others:
        waiter.result(20)
    assert len(disk.paths) == 2


def test_what_was_appended_during_a_sync_is_not_covered_by_it(store, disk):
    first = disk.hold(store)
    disk.entered = threading.Semaphore(0)
    second = store.when_durable(end(store))
    disk.gate.set()
    first.result(20)
    second.result(20)
    assert len(disk.paths) == 2


def test_a_waiter_for_what_is_flushed_already_is_answered_without_a_sync(store, disk):
    at = end(store)
    store.when_durable(at).result(20)
    assert store.when_durable(at).done()
    assert len(disk.paths) == 1


def test_a_failed_sync_fails_its_waiters_and_the_store_takes_nothing_more(store, disk):
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    with pytest.raises(StoreNotWritable, match="commitlog"):
        store.when_durable(end(store)).result(20)
    disk.error = None
    with pytest.raises(StoreNotWritable, match="commitlog"):
        store.append(message(), NOW_MS)
    with pytest.raises(StoreNotWritable):
        store.when_durable(1 << 40).result(20)
    store.close()
    assert os.path.exists(os.path.join(store.path, "abort"))  # the next start must look closely


class Untold(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error", [ValueError("mmap closed"), SystemExit(3), Untold()], ids=lambda error: type(error).__name__
)
def test_an_error_that_is_not_the_disks_ends_the_flush_thread_and_nobody_waits(store, disk, error, caplog):
    first = disk.hold(store)
    waiters = [first, store.when_durable(end(store)), store.when_durable(1 << 40)]
    disk.error = error
    disk.gate.set()
    for waiter in waiters:
        failure = waiter.exception(20)
        assert isinstance(failure, StoreNotWritable)
        assert type(error).__name__ in str(failure)
        assert failure.__cause__ is error
    disk.error = None
    assert store.refusal is not None
    with pytest.raises(StoreNotWritable, match=type(error).__name__):
        store.append(message(), NOW_MS)
    assert store.when_durable(1 << 40).exception(20) is failure
    with pytest.raises(StoreNotWritable, match=type(error).__name__):
        store.flush()
    store.close()
    assert os.path.exists(os.path.join(store.path, "abort"))
    assert [record.levelname for record in caplog.records if record.exc_info and record.exc_info[1] is error] == [
        "ERROR"
    ]


def test_the_thread_ends_when_another_threads_flush_has_failed(tmp_path, disk):
    store = open_disk(tmp_path / "s5", dataclasses.replace(QUIET, flush_interval_commit_log_ms=1))
    disk.error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    thread = store._flusher._thread
    waiter = store.when_durable(end(store))
    with pytest.raises(StoreNotWritable, match="descriptors"):
        store.flush()
    with pytest.raises(StoreNotWritable, match="descriptors"):
        waiter.result(20)
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, os.strerror(errno.EIO)), ValueError("mmap closed")], ids=["disk", "other"]
)
def test_a_sync_that_fails_while_the_store_is_closed_is_no_clean_stop(store, disk, error, monkeypatch):
    thread = store._flusher._thread
    join = thread.join

    def fail_and_join() -> None:  # close() waits for the thread now
        disk.error = error
        disk.gate.set()
        join()
        disk.error = None

    waiter = disk.hold(store)
    monkeypatch.setattr(thread, "join", fail_and_join)
    with pytest.raises(StoreNotWritable) as raised:
        store.close()
    assert waiter.exception(0) is raised.value
    assert os.path.exists(os.path.join(store.path, "abort"))


def test_a_flush_that_fails_while_a_closing_store_completes_its_index_is_no_clean_stop(store, disk, monkeypatch):
    flusher, place = store._flusher, end(store)

    def fail_meanwhile():
        disk.error = OSError(errno.EIO, "Input/output error")
        assert isinstance(flusher.when_durable(place).exception(20), StoreNotWritable)
        disk.error = None

    monkeypatch.setattr(store, "_complete_index", fail_meanwhile)
    store.close()
    assert os.path.exists(os.path.join(store.path, "abort"))


def test_no_sync_follows_one_that_failed_although_another_thread_waits_for_its_turn(store, disk):
    flusher = store._flusher
    begun = []

    class Turns:
        """A lock for syncs that lets another thread in at the moment when a failed sync leaves it."""

        def __enter__(self):
            pass

        def __exit__(self, kind, *_):
            if kind is not None and not begun:
                begun.append(1)
                disk.error = None  # the second fdatasync reports success for pages that are lost
                with pytest.raises(StoreNotWritable):
                    flusher._sync_log()

    place = end(store)
    flusher._syncing = Turns()
    disk.error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(StoreNotWritable):
        store.flush()
    assert begun
    assert flusher.flushed_offset < place


def test_a_store_whose_flush_thread_cannot_be_started_says_so_and_can_be_closed(tmp_path):
    store = DiskMessageStore(str(tmp_path / "other"), QUIET)
    with refused_threads("sprocketmq-flush"), pytest.raises(RuntimeError, match="can't start new thread"):
        store.load()
    store.close()
    store.load()


def test_an_index_that_fails_unexpectedly_leaves_no_thread_behind(store, monkeypatch):
    def broken():
        raise ValueError("index")

    thread = store._flusher._thread
    monkeypatch.setattr(store, "_complete_index", broken)
    with pytest.raises(ValueError, match="index"):
        store.close()
    assert not thread.is_alive()
    assert os.path.exists(os.path.join(store.path, "abort"))


def test_nobody_waits_when_the_last_flush_ends_unexpectedly(store, monkeypatch):
    def broken():
        raise ValueError("mmap closed")

    waiter = store.when_durable(1 << 40)
    monkeypatch.setattr(store._flusher, "flush", broken)
    with pytest.raises(ValueError, match="mmap closed"):
        store.close()
    with pytest.raises(StoreNotWritable, match="closed"):
        waiter.result(0)


@pytest.mark.parametrize("error", [None, OSError(errno.EIO, os.strerror(errno.EIO))], ids=["synced", "failed"])
def test_a_callback_that_raises_keeps_no_answer_from_other_waiters(store, disk, error):
    def leave(_):
        raise SystemExit

    disk.gate.clear()
    at = end(store)
    first = store.when_durable(at)
    first.add_done_callback(leave)
    assert disk.entered.acquire(timeout=20)
    others = [store.when_durable(at) for _ in range(3)]
    disk.error = error
    disk.gate.set()
    for waiter in [first, *others]:
        assert isinstance(waiter.exception(20), StoreNotWritable if error else type(None))
    assert (store.refusal is None) == (error is None)


def resident_kb(path):
    """How much of a file's pages is in this process's mappings."""
    entries = re.findall(rf"{re.escape(path)}\n.*?\nRss: +(\d+) kB", Path("/proc/self/smaps").read_text(), re.DOTALL)
    assert entries, "the file is not mapped"
    return sum(map(int, entries))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_full_pages_leave_the_mapping_before_a_sync_and_their_messages_stay(tmp_path, disk):
    store = open_disk(tmp_path / "s4", dataclasses.replace(QUIET, mapped_file_size_commit_log=1 << 22))
    sent = [number.to_bytes(2, "big") * 5_000 for number in range(150)]
    for body in sent[:100]:
        store.append(message(body=body), NOW_MS)
    [file] = store.commit_log.files.files
    assert resident_kb(file.path) >= 900
    disk.gate.clear()
    waiter = store.when_durable(store.max_physical_offset)
    assert disk.entered.acquire(timeout=20)  # within the sync
    assert resident_kb(file.path) <= 64  # where the log ends, and what was asked for ahead
    for body in sent[100:]:
        store.append(message(body=body), NOW_MS)
    disk.gate.set()
    waiter.result(20)
    assert bodies(store) == sent
    assert not problems(store)


def test_the_background_flush_reaches_the_disk_without_being_asked(tmp_path):
    config = StoreConfig(
        mapped_file_size_commit_log=1 << 16, flush_interval_commit_log_ms=5, flush_interval_consume_queue_ms=10
    )
    store = open_disk(tmp_path / "s3", config)
    at = end(store)
    done = threading.Event()
    for _ in range(4000):
        if store.flushed_offset >= at and store.consume_queues.queues["T", 0].flushed_offset == 1:
            done.set()
            break
        threading.Event().wait(0.005)
    assert done.is_set()
