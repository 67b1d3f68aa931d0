# SPDX-License-Identifier: Apache-2.0
"""A killed store changes hands, and both brokers go on with the index by key: no key is lost on either side."""

from __future__ import annotations

import dataclasses
import random
import struct

import pytest

from sprocketmq.store import StoredMessage
from sprocketmq.store.files import mapped_progress
from sprocketmq.store.index.index_file import IndexFile, IndexHeader
from sprocketmq.store.tools.check import check_directory
from sprocketmq.testing.simulation.power_disk import PowerDisk
from watched_disk import watched

from ..java_index import JavaIndex
from ..stores import NOW_MS, SMALL, crash, crashed, kill, open_disk, problems

CONFIG = dataclasses.replace(SMALL, max_index_num=90, flush_interval_consume_queue_ms=1 << 30)


def fill(store, begin, end):
    """A message each second, with a key of its own and one that all share."""
    return [
        store.append(
            StoredMessage("T", 0, b"body", b"KEYS\x01all\x02UNIQ_KEY\x01U%d\x02" % number), NOW_MS + number * 1_000
        ).physical_offset
        for number in range(begin, end)
    ]


def assert_java_finds(index, offsets):
    assert index.find("T#all") == offsets
    for number, offset in enumerate(offsets):
        assert index.find(f"T#U{number}") == [offset], number


def assert_ours_finds(store, offsets):
    while store.dispatch(7):
        pass
    assert store.find_by_key("T", "all", 64, 0, 1 << 62).physical_offsets == offsets[-64:]
    for number, offset in enumerate(offsets):
        assert store.find_by_key("T", f"U{number}", 64, 0, 1 << 62).physical_offsets == [offset], number
    assert problems(store) == []


@pytest.mark.parametrize("max_index_num", [20, 90, 500])
@pytest.mark.parametrize(("synced", "dispatched"), [(0, 0), (0, 60), (1, 30), (25, 3), (25, 60), (59, 0)])
def test_ours_killed_then_java_killed_then_ours_no_key_is_lost(synced, dispatched, max_index_num, tmp_path):
    config = dataclasses.replace(CONFIG, max_index_num=max_index_num)
    store = open_disk(tmp_path / "s", config)
    offsets = fill(store, 0, synced)
    store.flush()
    offsets += fill(store, synced, 60)
    if dispatched:
        store.dispatch(dispatched)
    store._flusher._sync_queues()  # log and queues are on the disk, and the checkpoint says so; the index comes once a minute
    copy = crashed(store)
    java = JavaIndex(copy, config)
    assert len(list(copy.glob("commitlog/*"))) > 3
    assert_java_finds(java, offsets)
    again = open_disk(copy, config)
    assert_ours_finds(again, offsets)
    offsets += fill(again, 60, 70)
    assert_ours_finds(again, offsets)
    second = crash(again, tmp_path / "second")
    again.close()
    assert_java_finds(JavaIndex(second, config), offsets)


def test_java_begins_where_the_index_of_a_killed_broker_is_sure(tmp_path):
    store = open_disk(tmp_path / "s", CONFIG)
    offsets = fill(store, 0, 30)
    store.flush()
    fill(store, 30, 60)
    store._flusher._sync_queues()
    copy = crashed(store)
    physic, logics, index = struct.unpack_from(">qqq", (copy / "checkpoint").read_bytes())
    assert (physic, logics) == (NOW_MS + 59_000, NOW_MS + 29_000)
    assert index >= NOW_MS + 29_000, "or Java would delete the file"
    assert offsets[10] < JavaIndex(copy, CONFIG).begin <= offsets[29]
    (copy / "abort").unlink()  # as after a clean stop of Java, which keeps the third timestamp
    assert [
        problem for problem in check_directory(copy, CONFIG) if "checkpoint" in problem.where and not problem.note
    ] == []


def test_a_clean_stop_leaves_the_timestamps_that_java_would(tmp_path):
    store = open_disk(tmp_path / "s", CONFIG)
    fill(store, 0, 60)
    store.close()
    times = struct.unpack_from(">qqq", (tmp_path / "s/checkpoint").read_bytes())
    assert times == (NOW_MS + 59_000,) * 3


@pytest.mark.parametrize("config", [CONFIG, dataclasses.replace(CONFIG, message_index_enable=False)])
def test_only_an_index_holds_the_timestamp_of_the_queues_back(config, tmp_path):
    store = open_disk(tmp_path / "s", config)
    fill(store, 0, 9)
    store._flusher._sync_queues()
    physic, logics = struct.unpack_from(">qq", (tmp_path / "s/checkpoint").read_bytes())
    assert (physic, logics) == (NOW_MS + 8_000, 0 if config.message_index_enable else NOW_MS + 8_000)
    store.dispatch(9)
    (indexed,) = struct.unpack_from(">q", (tmp_path / "s/checkpoint").read_bytes(), 16)
    assert (indexed > NOW_MS) is config.message_index_enable, "before its entries are there"


def test_what_java_has_indexed_since_is_kept_after_its_kill(tmp_path):
    """Its checkpoint differs from ours as soon as it has written one: then its headers count, not our mark."""
    store = open_disk(tmp_path / "s", CONFIG)
    fill(store, 0, 10)
    store.close()
    checkpoint = tmp_path / "s/checkpoint"
    raw = bytearray(checkpoint.read_bytes())  # with a mark that is older than what comes now
    store = open_disk(tmp_path / "s", CONFIG)
    fill(store, 10, 20)
    store.close()
    (tmp_path / "s/abort").touch()
    struct.pack_into(">qq", raw, 0, NOW_MS + 19_500, NOW_MS + 19_500)
    checkpoint.write_bytes(raw)
    (path,) = (tmp_path / "s/index").iterdir()
    file = IndexFile(str(path), CONFIG.max_hash_slot_num, CONFIG.max_index_num)
    file.load()
    header: IndexHeader = file.header
    assert header.index_count == 41
    store = open_disk(tmp_path / "s", CONFIG)
    store.dispatch(1)
    assert store.index.files[-1].header.index_count == 41


def test_a_checkpoint_that_a_power_cut_tore_is_not_taken_for_javas(tmp_path, monkeypatch):
    """Its timestamps are of one save, its marks of another; the index is believed as far as the mark says, and not as far as its header."""
    config = dataclasses.replace(CONFIG, max_index_num=500)
    store = open_disk(tmp_path / "s", config)
    offsets = fill(store, 0, 30)
    store.flush()
    marks = (tmp_path / "s/checkpoint").read_bytes()[2048:2560]
    offsets += fill(store, 30, 60)
    store.dispatch(60)
    store._flusher._sync_queues()
    image = crashed(store)
    checkpoint = bytearray((image / "checkpoint").read_bytes())
    checkpoint[2048:2560] = marks
    (image / "checkpoint").write_bytes(checkpoint)
    (path,) = (image / "index").iterdir()
    raw = bytearray(path.read_bytes())
    raw[1536:2048] = bytes(512)  # of entry 68 hash and offset are there, its link to the entries before is not
    path.write_bytes(raw)
    monkeypatch.setattr(mapped_progress, "boot_mark", lambda: b"another boot....")
    again = open_disk(image, config)
    assert_ours_finds(again, offsets)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_killed_java_broker_indexed_is_on_the_disk_before_our_mark_counts_it(seed, tmp_path, monkeypatch):
    config = dataclasses.replace(CONFIG, max_hash_slot_num=301, max_index_num=500)
    store = open_disk(tmp_path / "s", dataclasses.replace(config, message_index_enable=False))
    offsets = fill(store, 0, 60)
    store.flush()
    kill(store)
    disk = watched(PowerDisk(tmp_path / "s", rows_in_order=True), monkeypatch)
    (tmp_path / "s/abort").write_bytes(b"1234")
    checkpoint = bytearray((tmp_path / "s/checkpoint").read_bytes())
    struct.pack_into(">qq", checkpoint, 0, NOW_MS, NOW_MS)
    (tmp_path / "s/checkpoint").write_bytes(checkpoint)
    assert_java_finds(JavaIndex(tmp_path / "s", config), offsets)
    store = open_disk(tmp_path / "s", config)
    disk.cut(tmp_path / "image", random.Random(seed))
    kill(store)
    disk.close()
    monkeypatch.setattr(mapped_progress, "boot_mark", lambda: b"another boot....")
    again = open_disk(tmp_path / "image", config)
    assert_ours_finds(again, offsets)
