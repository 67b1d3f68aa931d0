# SPDX-License-Identifier: Apache-2.0
"""One queue's index by itself: units in files of five, gaps, a batch that does not fit, and how many queues stay mapped."""

from __future__ import annotations

import errno
import os

import pytest

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store.files.mapped_file import MappedFile
from sprocketmq.store.files.mapped_file_queue import MappedFileQueue
from sprocketmq.store.queue.consume_queue import ConsumeQueue, MappedBudget
from sprocketmq.store.queue.unit import FILLER_SIZE, UNIT, UNIT_SIZE_BYTES

UNITS_A_FILE = 5
RECORD_BYTES = 100


def queue_in(folder, budget=None):
    directory = None if folder is None else str(folder)
    files = MappedFileQueue(directory, UNITS_A_FILE * UNIT_SIZE_BYTES, "mappedFileSizeConsumeQueue")
    return ConsumeQueue("T", 0, files, MappedBudget(64) if budget is None else budget)


def filled(count, folder=None, budget=None):
    queue = queue_in(folder, budget)
    for number in range(count):
        queue.put(number * RECORD_BYTES, RECORD_BYTES, number)
    return queue


def units(queue):
    return [queue.unit(offset) for offset in range(queue.min_offset, queue.max_offset)]


@pytest.mark.parametrize("on_disk", [False, True])
def test_units_are_read_as_they_were_put_across_files(tmp_path, on_disk):
    queue = filled(12, tmp_path / "0" if on_disk else None)
    assert units(queue) == [(number * RECORD_BYTES, RECORD_BYTES, number) for number in range(12)]
    assert len(queue.unit_bytes(3, 100)) == 9 * UNIT_SIZE_BYTES
    assert queue.unit_bytes(12, 1) == b""


def test_a_start_finds_the_end_where_the_zeros_begin(tmp_path):
    filled(12, tmp_path / "0")
    opened = queue_in(tmp_path / "0")
    opened.load()
    assert (opened.min_offset, opened.max_offset) == (0, 12)
    assert len(units(opened)) == 12


@pytest.mark.parametrize("count", [1, 4, 5, 6, 17])
def test_many_units_at_once_are_the_same_as_one_by_one(count):
    queue = filled(3)
    queue.put_all(b"".join(UNIT.pack(number, RECORD_BYTES, 0) for number in range(count)))
    assert units(queue)[3:] == [(number, RECORD_BYTES, 0) for number in range(count)]


def test_many_units_are_put_whole_or_not_at_all(monkeypatch):
    queue = filled(3)
    before = units(queue)

    def refuse(_queue, _position):
        raise StoreNotWritable("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(MappedFileQueue, "create_file", refuse)
        with pytest.raises(StoreNotWritable):
            queue.put_all(UNIT.pack(1, RECORD_BYTES, 0) * 4)
    assert units(queue) == before
    queue.put(300, RECORD_BYTES, 0)
    assert queue.max_offset == 4


def test_files_that_were_made_ahead_for_many_units_go_when_one_gets_no_space(tmp_path, monkeypatch):
    queue = filled(3, tmp_path)
    queue.unmap()
    real = MappedFile.ensure_space

    def full(file, at, end):
        if file.start == 3 * UNITS_A_FILE * UNIT_SIZE_BYTES:
            raise StoreNotWritable("the disk is full")
        real(file, at, end)

    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "ensure_space", full)
        with pytest.raises(StoreNotWritable):
            queue.put_all(UNIT.pack(1, RECORD_BYTES, 0) * 15)
    assert [file.start for file in queue.files.files] == [0]
    assert [path.name for path in tmp_path.iterdir()] == [f"{0:020d}"]
    assert not queue.files.files[0].mapped, "no budget counts it"
    queue.put(300, RECORD_BYTES, 0)
    assert queue.max_offset == 4


def test_the_file_that_a_queue_writes_is_not_unmapped_for_readers_of_others(tmp_path):
    """Also when an empty file stands behind it, as of a full disk whose file could not be deleted."""
    budget = MappedBudget(1)
    queue, other = filled(3, tmp_path / "0", budget), filled(12, tmp_path / "1", budget)
    queue.files.create_file(UNITS_A_FILE * UNIT_SIZE_BYTES)
    queue.units_at(0, 1)
    queue.put(300, RECORD_BYTES, 3)
    other.units_at(0, 1)
    other.units_at(5, 1)
    queue.put(400, RECORD_BYTES, 4)
    assert units(queue) == [(number * RECORD_BYTES, RECORD_BYTES, number) for number in range(5)]


def test_a_queue_that_gets_a_new_file_is_not_the_one_that_is_unmapped_for_it(tmp_path):
    queue = filled(UNITS_A_FILE, tmp_path, MappedBudget(1))
    queue.put(500, RECORD_BYTES, 0)
    assert queue.at <= queue.files.files[-1].room, "the space of the new file was given up, and a full disk is SIGBUS"


def test_a_queue_goes_on_at_its_end_when_a_file_behind_it_could_not_be_deleted(tmp_path, monkeypatch):
    queue = filled(20, tmp_path)

    def fails(path):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fails)
        with pytest.raises(StoreNotWritable):
            queue.truncate_to(1)
    queue.put(1, RECORD_BYTES, 7)
    assert queue.max_offset == 2
    assert queue.unit(1) == (1, RECORD_BYTES, 7)


def test_recovery_refuses_to_leave_a_hole_and_fills_it_when_told():
    queue = filled(2)
    assert not queue.put_at(4, 900, RECORD_BYTES, 7)
    assert queue.max_offset == 2
    queue.fill_gap(4)
    assert queue.put_at(4, 900, RECORD_BYTES, 7)
    assert units(queue)[2:] == [(RECORD_BYTES, FILLER_SIZE, 0)] * 2 + [(900, RECORD_BYTES, 7)]
    assert queue.first_from(150) == 4


def test_a_unit_is_changed_only_when_it_is_wrong():
    queue = filled(8)
    queue.sync()
    assert queue.put_at(6, 600, RECORD_BYTES, 6)
    assert queue.flushed_offset == 8
    assert queue.put_at(6, 600, RECORD_BYTES, 9)
    assert queue.unit(6) == (600, RECORD_BYTES, 9)
    assert queue.flushed_offset == 6


@pytest.mark.parametrize(
    ("first_kept", "first_file"), [(400, 0), (401, 5), (500, 5), (900, 5), (901, 10), (1000, 10), (1101, 10)]
)
def test_retention_keeps_the_file_of_the_first_kept_unit_and_none_before_it(first_kept, first_file):
    queue = filled(12)
    queue.clean(first_kept)
    assert queue.files.start == first_file * UNIT_SIZE_BYTES


def test_queues_without_an_append_since_the_last_look_are_unmapped_first(tmp_path):
    budget = MappedBudget(3)
    oldest, busy, idle = (filled(1, tmp_path / name, budget) for name in ("oldest", "busy", "idle"))
    filled(1, tmp_path / "fourth", budget)
    assert not oldest.view
    busy.put(RECORD_BYTES, RECORD_BYTES, 1)
    filled(1, tmp_path / "fifth", budget)
    assert busy.view
    assert not idle.view
    assert len(budget) == 3
    idle.put(RECORD_BYTES, RECORD_BYTES, 1)
    assert units(idle) == [(0, RECORD_BYTES, 0), (RECORD_BYTES, RECORD_BYTES, 1)]
