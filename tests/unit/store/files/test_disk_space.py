# SPDX-License-Identifier: Apache-2.0
"""Space that a disk gives in part or not at all, as the calls report it. `tests/system/broker/test_full_disk.py` has the disks."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import pytest

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store.files import disk_space
from sprocketmq.store.files.checkpoint import Checkpoint
from sprocketmq.store.files.disk_space import PAGE_BYTES, allow_writes, data_ranges, write_all, write_zeros
from sprocketmq.store.files.mapped_file import MappedFile
from sprocketmq.store.files.mapped_progress import MappedProgress
from sprocketmq.store.index.index_file import IndexFile
from sprocketmq.store.timer.timer_check import TimerCheck, load_timer_check, save_timer_check
from sprocketmq.store.timer.timer_wheel import Slot, TimerWheel
from sprocketmq.store.tools.check import check_directory

from ..stores import SMALL, bodies, message, open_disk

NOW_MS = 1_700_000_000_000


class Disk:
    """``os`` on a disk that takes ``at_once`` bytes a call, and ``left`` in all."""

    def __init__(self, at_once, left=1 << 60):
        self.at_once, self.left = at_once, left
        self.sizes: list[int] = []  # of what it was asked to write

    def __getattr__(self, name):
        return getattr(os, name)

    def write(self, fd, data):
        self.sizes.append(len(data))
        if not self.left and len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = os.write(fd, memoryview(data)[: min(self.at_once, self.left)])
        self.left -= taken
        return taken


class NoSpace(mmap.mmap):
    """A mapping whose pages cannot be written from ``limit`` on."""

    limit = 0
    error = errno.EFAULT

    def madvise(self, option, start=0, length=0):
        assert option == 23
        if start + length > self.limit:
            raise OSError(self.error, os.strerror(self.error))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 8 * PAGE_BYTES)
    return str(path)


@pytest.fixture
def disk(monkeypatch):
    def disk(at_once, left=1 << 60):
        disk = Disk(at_once, left)
        monkeypatch.setattr(disk_space, "os", disk)
        return disk

    return disk


def test_zeros_that_the_disk_takes_in_pieces_are_all_written(path, disk):
    disk(1000)
    assert write_zeros(path, 10, 10_000, PAGE_BYTES) == 10_000
    assert Path(path).read_bytes() == b"x" * 10 + bytes(9_990) + b"x" * (8 * PAGE_BYTES - 10_000)


@pytest.mark.parametrize(
    ("begin", "size_bytes", "sizes"),
    [
        (0, 20, [4096]),  # the first step of a queue
        (4096, 20, [4096]),
        (1 << 16, 20, [4096] * 16),  # its usual step: what is needed, and spare pages one by one
        (1 << 16, 5 << 20, [1 << 18] * 20),  # a record that is larger than a step
    ],
)
def test_what_is_needed_is_written_in_large_pieces_and_spare_space_in_pages(tmp_path, disk, begin, size_bytes, sizes):
    file = MappedFile(str(tmp_path / "f"), 0, 8 << 20)
    file.create()
    file.ensure_space(0, begin)
    small = disk(1 << 30)
    file.ensure_space(begin, begin + size_bytes)
    assert small.sizes == sizes


def test_a_disk_with_room_for_a_part_says_how_much(path, disk):
    disk(1000, left=3_500)
    assert write_zeros(path, 0, 10_000, PAGE_BYTES) == 3_500
    with pytest.raises(OSError, match="No space left"):
        write_zeros(path, 3_500, 10_000, PAGE_BYTES)


def test_a_text_is_written_whole_or_an_error_is_raised(path, disk):
    small = disk(3)
    fd = os.open(path, os.O_RDWR)
    try:
        write_all(fd, b"0123456789", 5)
        assert os.pread(fd, 16, 0) == b"xxxxx0123456789x"
        small.left = 4
        with pytest.raises(OSError, match="No space left"):
            write_all(fd, b"abcdefghij", 5)
    finally:
        os.close(fd)


def test_room_ends_where_the_disk_did_and_grows_when_there_is_space(tmp_path, disk):
    file = MappedFile(str(tmp_path / "f"), 0, 1 << 20)
    file.create()
    small = disk(1 << 20, left=6_000)
    with pytest.raises(StoreNotWritable, match="the disk is full"):
        file.ensure_space(0, 10_000)
    assert file.room == 6_000
    file.ensure_space(0, 6_000)
    small.left = 1 << 20
    file.ensure_space(6_000, 10_000)
    assert file.room >= 10_000


def test_pages_that_the_kernel_does_not_let_be_written_are_no_room(tmp_path, monkeypatch):
    file = MappedFile(str(tmp_path / "f"), 0, 1 << 20)
    file.create()
    monkeypatch.setattr(mmap, "mmap", NoSpace)
    with pytest.raises(StoreNotWritable, match="the disk is full"):
        file.ensure_space(0, 10)  # the zeros were written; their folio reaches into a hole
    assert file.room == 0
    with pytest.raises(StoreNotWritable, match="the disk is full"):
        file.overwrite(0, b"value")
    NoSpace.limit = 2 * PAGE_BYTES
    try:
        file.ensure_space(0, 10)
        assert file.room >= 10
        with pytest.raises(StoreNotWritable):  # the last page of what is written is asked for as well
            file.ensure_space(10, 3 * PAGE_BYTES)
    finally:
        NoSpace.limit = 0
        file.unmap()


def test_what_was_sure_of_a_mapping_is_asked_for_again_with_the_next_one(tmp_path):
    file = MappedFile(str(tmp_path / "f"), 0, 1 << 20)
    file.create()
    file.ensure_space(0, 10)
    file.view[:5] = b"value"
    file.unmap()
    assert file.room == 0
    file.ensure_space(5, 10)
    assert bytes(file.view[:6]) == b"value\0"


def test_a_kernel_that_cannot_be_asked_has_the_pages_written_once_more(path, monkeypatch):
    monkeypatch.setattr(NoSpace, "error", errno.EINVAL)
    fd = os.open(path, os.O_RDWR)
    with NoSpace(fd, 0) as mapping:
        os.close(fd)
        allow_writes(mapping, path, 10, PAGE_BYTES + 10)
        assert Path(path).read_bytes() == b"x" * 8 * PAGE_BYTES
        monkeypatch.setattr(disk_space, "os", Disk(100, left=200))
        with pytest.raises(OSError, match="No space left"):
            allow_writes(mapping, path, 10, PAGE_BYTES + 10)
    assert Path(path).read_bytes() == b"x" * 8 * PAGE_BYTES


def test_data_ends_where_only_a_hole_follows(tmp_path):
    file = MappedFile(str(tmp_path / "f"), 0, 1 << 22)
    file.create()
    assert len(file.data) == 0
    file.ensure_space(0, 10)
    assert 10 <= len(file.data) < 1 << 20
    with open(file.path, "r+b") as other:
        other.seek(1 << 21)
        other.write(b"data")
        other.flush()
        file.unmap()
        assert 1 << 21 < len(file.data) < 1 << 22
        assert len(list(data_ranges(other.fileno(), 1 << 22))) == 2


def full_pages(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_every_file_that_is_written_through_a_mapping_asks_for_its_pages(tmp_path, monkeypatch):
    import numpy as np

    from sprocketmq.store.files import mapped_file, mapped_progress
    from sprocketmq.store.index import index_file
    from sprocketmq.store.timer import timer_wheel

    index = IndexFile(str(tmp_path / "20261122000000000"), 1_000, 1_000)
    index.create()
    wheel, progress = TimerWheel(str(tmp_path / "timerwheel"), 1_000), MappedProgress(str(tmp_path / "live"))
    old = MappedFile(str(tmp_path / "f"), 0, 1 << 20)
    old.create()
    with monkeypatch.context() as patch:
        for module in (index_file, mapped_progress, timer_wheel, mapped_file):
            patch.setattr(module, "allow_writes", full_pages)
        for write in (
            lambda: index.put(np.array([1]), np.array([2]), np.array([NOW_MS])),
            lambda: wheel.put(Slot(NOW_MS, 1, 1, 1)),
            lambda: progress.save([1, 2]),
            lambda: old.overwrite(0, b"x"),
        ):
            with pytest.raises(StoreNotWritable, match="the disk is full"):
                write()
        assert wheel.get(NOW_MS) is None
    assert index.put(np.array([1]), np.array([2]), np.array([NOW_MS])) == 1
    wheel.put(Slot(NOW_MS, 1, 1, 1))
    progress.save([1, 2])
    assert progress.load() == (1, 2)
    for file in (wheel, progress):
        file.close()
    for mapped in (index, old):
        mapped.unmap()


def test_small_files_are_written_whole_when_the_disk_takes_them_in_pieces(tmp_path, disk):
    disk(7)
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    checkpoint.physic_msg_timestamp, checkpoint.durable_offset = NOW_MS, 4_711
    checkpoint.save()
    again = Checkpoint(checkpoint.path)
    again.load()
    assert (again.physic_msg_timestamp, again.durable_offset, again.is_ours) == (NOW_MS, 4_711, True)
    save_timer_check(str(tmp_path / "timercheck"), TimerCheck(1, 2, 3, 4, 5, 6, 7))
    assert load_timer_check(str(tmp_path / "timercheck")) == TimerCheck(1, 2, 3, 4, 5, 6, 7)


@pytest.mark.parametrize("entries", [5, 10])
def test_a_queue_whose_next_file_has_no_space_is_read_to_its_end(tmp_path, disk, entries):
    """Its last file is full, and is what readers are given until there is a next one."""
    store = open_disk(tmp_path / "s", SMALL)
    queue = store.consume_queues.open("T", 0)
    sent = [b"%d" % number for number in range(entries)]
    for body in sent:
        store.append(message(body=body), NOW_MS)
    disk(1 << 20, left=0)
    for _ in range(2):
        with pytest.raises(StoreNotWritable, match="the disk is full"):
            store.append(message(), NOW_MS)
        assert bodies(store) == sent
        assert store.read("T", 0, entries - 1).count == 1
        assert [unit.queue_offset for unit in store.units("T", 0, 0, 100)] == list(range(entries))
    disk(1 << 20)
    store.append(message(body=b"after"), NOW_MS)
    assert bodies(store) == [*sent, b"after"]
    assert [file.mapped for file in queue.files.files[-2:]] == [False, True]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_an_empty_log_file_that_a_full_disk_left_behind_the_end_is_no_problem(tmp_path, disk, is_damaged):
    store = open_disk(tmp_path / "s", SMALL)
    store.append(message(body=b"x" * 1_800), NOW_MS)
    disk(1 << 20, left=0)
    with pytest.raises(StoreNotWritable, match="the disk is full"):
        store.append(message(queue_id=0, body=b"y" * 500), NOW_MS)
    disk(1 << 20)
    names = [Path(file.path) for file in store.commit_log.files.files]
    assert len(names) == 2
    store.close()
    if is_damaged:
        names[1].write_bytes(b"z" * 64 + bytes(2_048 - 64))
    found = [str(problem) for problem in check_directory(tmp_path / "s") if not problem.note]
    assert found == (
        [f"commitlog at {store.max_physical_offset}: the log ends here, but bytes that are not zero follow"]
        * is_damaged
    )
