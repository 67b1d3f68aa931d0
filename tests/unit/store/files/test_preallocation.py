# SPDX-License-Identifier: Apache-2.0
"""Space for the log that a thread makes before it is needed."""

from __future__ import annotations

import errno
import os
import random
import secrets
import threading
import time
from pathlib import Path

import pytest

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store import StoreConfig
from sprocketmq.store.files import disk_space, mapped_file, preallocation
from sprocketmq.store.files.mapped_file import MappedFile
from sprocketmq.store.files.preallocation import Preallocator

from ..stores import NOW_MS, bodies, message, open_disk, problems

MIB = 1 << 20


@pytest.fixture
def file(tmp_path):
    file = MappedFile(str(tmp_path / "f"), 0, 8 * MIB)
    file.create()
    return file


class Writes:
    """Which thread wrote to which file from where to where, and in pieces of how many bytes the other thread wrote."""

    def __init__(self, monkeypatch):
        self.here: list[tuple[str, int, int]] = []
        self.beside: list[tuple[str, int, int]] = []
        self.pieces: list[int] = []
        self._write = disk_space.write_zeros
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        for module in (mapped_file, preallocation):
            monkeypatch.setattr(module, "write_zeros", self)

    def __call__(self, path, begin, end, piece_bytes):
        if threading.current_thread() is threading.main_thread():
            self.here.append((path, begin, end))
        else:
            self.may_go_on.wait()
            self.beside.append((path, begin, end))
            self.pieces.append(piece_bytes)
        return self._write(path, begin, end, piece_bytes)


def first_hole(path):
    """Where the first place without space on the disk is."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.lseek(fd, 0, os.SEEK_HOLE)
    finally:
        os.close(fd)


def test_a_log_that_grows_finds_its_space_written_by_the_thread(tmp_path, monkeypatch):
    writes = Writes(monkeypatch)
    store = open_disk(tmp_path / "s", StoreConfig(mapped_file_size_commit_log=4 * MIB))
    while len(store.commit_log.files.files) < 2:
        store.append(message(body=b"x" * 10_000), NOW_MS)
    store.close()
    [log, _] = sorted(str(path) for path in (tmp_path / "s" / "commitlog").iterdir())
    here, beside = [[span for path, *span in of if path == log] for of in (writes.here, writes.beside)]
    assert sum(end - begin for begin, end in here) <= 1 << 17
    spans = sorted(here + beside)
    assert [begin for begin, _ in spans[1:]] == [end for _, end in spans[:-1]]  # each byte once, nothing left out
    assert spans[-1][1] == 4 * MIB


@pytest.mark.parametrize(
    ("flushes", "piece_bytes"),
    [
        ([], 1 << 14),
        ([1], 1 << 14),
        ([1 << 14], 1 << 14),
        ([80_000], 1 << 17),
        ([200_000], 1 << 18),
        ([MIB + 1], 1 << 18),
        ([40 * MIB], 1 << 18),
        ([40 * MIB, 1_000], 1 << 18),  # one small flush between large ones
        ([40 * MIB, *[1_000] * 20], 1 << 14),
    ],
)
def test_a_piece_is_as_large_as_what_a_flush_finds(file, monkeypatch, flushes, piece_bytes):
    writes, space = Writes(monkeypatch), Preallocator()
    for size_bytes in flushes:
        space.flushed(size_bytes)
    while file.room < 1 << 17:
        space.ensure(file, file.room, file.room + 1)
    space.close()
    assert set(writes.pieces) == {piece_bytes}


def test_a_piece_is_as_large_as_a_record(file, monkeypatch):
    writes, space = Writes(monkeypatch), Preallocator()
    while file.room < 1 << 19:
        at = file.room - file.room // 2
        space.ensure(file, at, at + 100_000)
    space.close()
    assert set(writes.pieces) == {1 << 17}


def test_large_steps_begin_and_end_at_their_multiples(file, monkeypatch):
    writes, space = Writes(monkeypatch), Preallocator()
    space.flushed(40 * MIB)
    while file.room < file.size_bytes:
        space.ensure(file, file.room, min(file.room + 5_000, file.size_bytes))
    space.close()
    large = [(begin, end) for _, begin, end in writes.beside if end - begin == 2 * MIB]
    assert large == [(2 * MIB, 4 * MIB), (4 * MIB, 6 * MIB), (6 * MIB, 8 * MIB)]


@pytest.mark.parametrize("seed", [*range(8), pytest.param(secrets.randbelow(1 << 30), id="drawn")])
def test_no_zero_is_written_over_what_was_written(tmp_path, monkeypatch, seed):
    """Records of any size, while steps of the thread fail, write only a part, or come late."""
    print("seed", seed)
    draw = random.Random(seed)
    write = disk_space.write_zeros

    def weak(path, begin, end, piece_bytes):
        time.sleep(draw.choice((0, 0, 0.002)))
        kind = draw.random()
        if kind < 0.2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, begin, begin + (end - begin) // 4096 // 2 * 4096 if kind < 0.4 else end, piece_bytes)

    monkeypatch.setattr(preallocation, "write_zeros", weak)
    file, space, at = MappedFile(str(tmp_path / "f"), 0, 24 * MIB), Preallocator(), 0
    file.create()
    space.flushed(draw.choice((0, 100_000, 40 * MIB)))
    sizes = []
    while at < 20 * MIB:
        size = draw.choice((100, 5_000, 70_000, MIB, 3 * MIB))
        if at + size > file.room:
            space.ensure(file, at, at + size)
            assert first_hole(file.path) >= file.room >= at + size
        file.view[at : at + size] = bytes([1 + len(sizes) % 255]) * size
        sizes.append(size)
        at += size
    space.close()
    content, at = Path(file.path).read_bytes(), 0
    for number, size in enumerate(sizes):
        assert content[at : at + size] == bytes([1 + number % 255]) * size
        at += size
    assert not any(content[at:])


def test_the_flush_thread_says_what_a_flush_found(tmp_path):
    store = open_disk(tmp_path / "s", StoreConfig())
    store.append(message(body=b"x" * 50_000), NOW_MS)
    store._flusher.flush()
    assert 50_000 < store.commit_log.preallocator.flush_bytes < 51_000


def test_a_small_store_stays_small(tmp_path):
    store = open_disk(tmp_path / "s", StoreConfig())
    for _ in range(10):
        store.append(message(body=b"x" * 1000), NOW_MS)
    [log] = (tmp_path / "s" / "commitlog").iterdir()
    store.close()
    assert log.stat().st_blocks * 512 < 1 << 16


def test_a_disk_that_is_full_for_the_thread_is_found_full_by_the_writer(tmp_path, monkeypatch):
    store = open_disk(tmp_path / "s", StoreConfig(mapped_file_size_commit_log=2 * MIB))
    sent = 0

    def send_up_to(at):
        nonlocal sent
        while store.commit_log.at < at:
            store.append(message(body=b"x" * 1000), NOW_MS)
            sent += 1

    send_up_to(1 << 17)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StoreNotWritable, match="disk is full"):
            send_up_to(2 * MIB)
    send_up_to(MIB)  # there is room again
    assert len(bodies(store)) == sent
    assert problems(store) == []
