# SPDX-License-Identifier: Apache-2.0
"""The index by key: Apache's bytes, every key found, nothing trusted after a crash that was not sure."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from record_fields import STORED
from sprocketmq.errors import StoreCorrupt, StoreNotWritable
from sprocketmq.store import DiskMessageStore, StoreConfig, StoredMessage
from sprocketmq.store.files.checkpoint import Checkpoint
from sprocketmq.store.index import index_file
from sprocketmq.store.index.index_file import IndexFile
from sprocketmq.store.log.record_batch import read_records
from sprocketmq.store.tools.check_auxiliary_files import _check_chains
from sprocketmq.wire.records.record import encode_record

from ..stores import NOW_MS, SMALL, crash, crashed, open_disk, open_memory, problems
from ..test_apache_store import CONFIG, GOLDEN, assemble

FOREVER = (0, 1 << 62)
INDEXED = SMALL


def keyed(unique="", keys="", topic="T", **fields):
    properties = "".join(f"{name}\x01{value}\x02" for name, value in (("KEYS", keys), ("UNIQ_KEY", unique)) if value)
    return StoredMessage(topic, 0, b"body", properties.encode(), **fields)


def dispatch_all(store, at_once=7):
    while store.dispatch(at_once):
        pass


def find(store, key, topic="T", count=64, begin=0, end=1 << 62):
    return store.find_by_key(topic, key, count, begin, end).physical_offsets


# -- Apache's bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["4.9.7", "5.4.0"])
def test_an_index_built_from_apaches_log_equals_apaches_index_byte_for_byte(version, tmp_path):
    path, golden = assemble(version, tmp_path / "store"), GOLDEN / version
    store = DiskMessageStore(path, CONFIG)
    store.dispatcher.tags = version != "4.9.7"  # which does not index tags
    store.load()
    store.close()
    (name,) = (path / "index").iterdir()
    with name.open("rb") as file:
        header = file.read(40)
        assert header == (golden / "index-header.bin").read_bytes()
        slots = file.read(5_000_000 * 4)
        entries = (golden / "index-entries.bin").read_bytes()
        assert file.read(len(entries)) == entries
    used = {str(slot): number for slot, (number,) in enumerate(struct.iter_unpack(">i", slots)) if number}
    assert used == json.loads((golden / "index-slots.json").read_text())
    assert name.stat().st_size == 420_000_040
    assert name.stat().st_blocks * 512 < 4 << 20, "the file is sparse"


# -- every key, each shape -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["alike", "all different"])
def test_a_record_with_many_keys_counts_as_several(shape):
    """One record may have sixteen thousand: a thousand such would hold the loop for many seconds."""
    config = dataclasses.replace(
        INDEXED, mapped_file_size_commit_log=4 << 20, max_index_num=1 << 20, max_hash_slot_num=4_001
    )
    store = open_memory(config)
    sizes = [2_000] * 40 if shape == "alike" else [2_000 + number for number in range(40)]
    for number, size in enumerate(sizes):
        store.append(keyed(f"U{number:03d}", " ".join(f"{key:05d}" for key in range(size))[: 5 * size]), NOW_MS)
    for number in range(400):
        store.append(keyed(f"plain{number}", "one"), NOW_MS)
    calls, index = 0, store.dispatcher._index
    most = entries = 0
    while store.dispatch(1_000):
        calls += 1
        now = sum(file.header.index_count - 1 for file in index.files)
        most, entries = max(most, now - entries), now
    assert most <= 4 * 1_000 + 3 * 400
    assert calls <= 40
    assert len(find(store, "00001")) == 40
    assert find(store, "plain399")
    assert problems(store) == []


@given(st.binary(max_size=400), st.integers(0, 400))
def test_anything_can_be_read_as_records_and_only_records_come_out(garbage, at):
    record = encode_record(b"T", b"body", b"", **{**STORED, "physical_offset": 0})
    data = record[: at % 95] + garbage
    batch = read_records(memoryview(data), 0, len(data), 0, 10)
    # What follows the body has no checksum: another topic of one letter makes another record.
    assert len(batch) == 0 or data.startswith(record[: -len(b"\1T\0\0")])


def test_every_key_of_every_record_is_found_in_many_small_files(store, tmp_path):
    places: dict[str, list[int]] = {}
    for number in range(60):
        result = store.append(keyed(f"U{number}", f"order-{number % 5}  line-{number} é", tags_code=0), NOW_MS + number)
        for key in (f"U{number}", f"order-{number % 5}", f"line-{number}", "é"):
            places.setdefault(key, []).append(result.physical_offset)
    dispatch_all(store)
    assert store.undispatched_bytes == 0
    for key, offsets in places.items():
        assert find(store, key) == offsets, key
    assert find(store, "order") == []
    assert find(store, "U1", topic="other") == []
    assert find(store, "é", count=3) == places["é"][-3:], "the newest"
    assert find(store, "é", count=0) == []


def test_tags_are_found_by_their_own_type(store):
    first = store.append(StoredMessage("T", 0, b"b", b"TAGS\x01A B\x02UNIQ_KEY\x01U\x02"), NOW_MS).physical_offset
    dispatch_all(store)
    assert store.find_by_key("T", "A B", 9, *FOREVER, index_type="T").physical_offsets == [first]
    assert find(store, "A B") == []


def test_hits_are_limited_to_the_asked_time_to_the_second(store):
    offsets = [store.append(keyed(keys="k"), NOW_MS + second * 1_000).physical_offset for second in range(10)]
    dispatch_all(store)
    assert find(store, "k", begin=NOW_MS + 3_000, end=NOW_MS + 5_500) == offsets[3:6]
    assert find(store, "k", begin=NOW_MS + 60_000) == []
    assert find(store, "k", end=NOW_MS - 1) == []
    hits = store.find_by_key("T", "k", 64, *FOREVER)
    assert (hits.last_update_timestamp, hits.last_update_physical_offset) == (NOW_MS + 9_000, offsets[-1])


def test_half_messages_are_indexed_and_rollbacks_are_not(store):
    offsets = {
        flag: store.append(keyed(keys="k", sys_flag=flag), NOW_MS).physical_offset for flag in (0, 0x4, 0x8, 0xC)
    }
    dispatch_all(store)
    assert find(store, "k") == [offsets[0], offsets[0x4], offsets[0x8]]


def test_a_key_given_twice_finds_its_record_once(store):
    offset = store.append(keyed("k", "k k"), NOW_MS).physical_offset
    dispatch_all(store)
    assert find(store, "k") == [offset]


def test_a_key_with_a_very_long_history_is_found_newest_first(monkeypatch):
    monkeypatch.setattr(index_file, "_LONG_CHAIN", 5)
    monkeypatch.setattr(index_file, "_AT_ONCE", 8)
    store = open_memory(StoreConfig(mapped_file_size_commit_log=1 << 16, max_hash_slot_num=3, max_index_num=500))
    offsets = [
        store.append(keyed(keys=f"k{number % 2}"), NOW_MS + number * 1_000).physical_offset for number in range(100)
    ]
    dispatch_all(store)
    assert find(store, "k1", count=30) == offsets[1::2][-30:]
    assert find(store, "k1", end=NOW_MS + 20_000) == offsets[1:21:2]
    assert find(store, "k0", begin=NOW_MS + 80_000) == offsets[80::2]


def test_dispatch_does_no_more_than_it_is_asked_for(store):
    for number in range(9):
        store.append(keyed(f"U{number}"), NOW_MS)
    assert store.dispatch(4) == 4
    assert find(store, "U3")
    assert not find(store, "U4")
    assert store.undispatched_bytes > 0
    dispatch_all(store, 4)
    assert store.dispatch(4) == 0


def test_without_an_index_nothing_is_written(tmp_path):
    store = open_disk(tmp_path / "s", dataclasses.replace(SMALL, message_index_enable=False))
    store.append(keyed("U"), NOW_MS)
    assert store.dispatch(9) == 0
    store.close()
    assert not (tmp_path / "s/index").exists()


def test_an_idle_store_has_no_index_file_and_the_first_key_makes_a_sparse_one(tmp_path):
    store = open_disk(tmp_path / "s", dataclasses.replace(SMALL, max_hash_slot_num=5_000_000, max_index_num=20_000_000))
    store.append(StoredMessage("T", 0, b"no key"), NOW_MS)
    store.flush()
    assert not (tmp_path / "s/index").exists()
    store.append(keyed("U"), NOW_MS)
    store.flush()
    (file,) = (tmp_path / "s/index").iterdir()
    assert file.stat().st_size == 420_000_040
    assert file.stat().st_blocks * 512 < 1 << 16


# -- restarts ------------------------------------------------------------------------------------------------------------------


def fill(store, begin, end):
    return [store.append(keyed(f"U{number}", "all"), NOW_MS + number).physical_offset for number in range(begin, end)]


def assert_complete(store, offsets):
    dispatch_all(store)
    for number, offset in enumerate(offsets):
        assert find(store, f"U{number}") == [offset], number
    assert find(store, "all") == offsets[-64:]
    assert problems(store) == []


def test_a_clean_stop_completes_the_index_and_the_next_start_reads_nothing_again(tmp_path):
    store = open_disk(tmp_path / "s", INDEXED)
    offsets = fill(store, 0, 30)
    store.close()
    store = open_disk(tmp_path / "s", INDEXED)
    assert store.dispatch(1) == 0
    assert_complete(store, offsets)
    offsets += fill(store, 30, 40)
    assert_complete(store, offsets)


@pytest.mark.parametrize("flushed", [0, 1, 17, 30])
def test_after_a_crash_the_index_is_completed_from_what_the_disk_was_sure_to_have(flushed, tmp_path):
    store = open_disk(tmp_path / "s", INDEXED)
    offsets = fill(store, 0, flushed)
    store.flush()
    offsets += fill(store, flushed, 30)
    dispatch_all(store)
    copy = crashed(store)
    _spoil_unsynced_entries(copy)
    recovered = open_disk(copy, INDEXED)
    assert_complete(recovered, offsets)
    offsets += fill(recovered, 30, 35)
    assert_complete(recovered, offsets)


def _spoil_unsynced_entries(store):
    """What a power cut may leave of pages that were not synced: entries behind what the mark counts, and slots, are anything."""
    checkpoint = Checkpoint(str(store / "checkpoint"))
    checkpoint.load()
    assert checkpoint.is_ours
    assert checkpoint.index_mark
    newest, _, durable_count, _ = checkpoint.index_mark
    for path in store.glob("index/*"):
        if path.name < newest:
            continue
        raw = bytearray(path.read_bytes())
        count = durable_count if path.name == newest else 1
        entries_at = 40 + 4 * INDEXED.max_hash_slot_num
        raw[40:entries_at] = random.Random(1).randbytes(entries_at - 40)
        for at in range(entries_at + 20 * count, len(raw) - 19, 20):  # their offsets look sound
            raw[at : at + 4] = b"\0\0\0\7"
            raw[at + 12 : at + 20] = random.Random(at).randbytes(8)
        path.write_bytes(raw)


@pytest.mark.parametrize(("clean", "first_lost"), [(True, 0), (False, 0), (True, -1)])
def test_a_lost_index_is_noticed_and_built_anew(clean, first_lost, tmp_path):
    store = open_disk(tmp_path / "s", INDEXED)
    offsets = fill(store, 0, 40)
    store.close()
    if not clean:
        (tmp_path / "s/abort").touch()
    files = sorted((tmp_path / "s/index").iterdir())
    assert len(files) > 3
    for file in files[first_lost:]:
        file.unlink()
    store = open_disk(tmp_path / "s", INDEXED)
    assert_complete(store, offsets)


def test_a_file_of_java_that_was_killed_before_its_first_flush_is_replaced(tmp_path):
    store = open_disk(tmp_path / "s", INDEXED)
    offsets = fill(store, 0, 5)
    store.close()
    (file,) = (tmp_path / "s/index").iterdir()
    raw = file.read_bytes()
    file.write_bytes(bytes(40) + raw[40:])
    checkpoint = tmp_path / "s/checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes()[:2048].ljust(4096, b"\0"))
    (tmp_path / "s/abort").touch()
    store = open_disk(tmp_path / "s", INDEXED)
    assert_complete(store, offsets)


def test_entries_of_records_that_a_crash_took_go_with_them(tmp_path):
    store = open_disk(tmp_path / "live", INDEXED)
    offsets = fill(store, 0, 8)
    dispatch_all(store)
    crash(store, tmp_path / "s")
    store.close()
    (tmp_path / "s/abort").write_text("1\nanother start of the machine")
    log = sorted((tmp_path / "s/commitlog").iterdir())[0]
    raw = bytearray(log.read_bytes())
    raw[offsets[7] + 90] ^= 0xFF  # the body's checksum is wrong: the log ends here
    log.write_bytes(raw)
    store = open_disk(tmp_path / "s", INDEXED)
    dispatch_all(store)
    assert find(store, "all") == offsets[:7]
    assert find(store, "U7") == []
    offsets = offsets[:7] + fill(store, 7, 9)
    assert_complete(store, offsets)


def test_an_index_file_of_another_size_is_refused_in_one_sentence(tmp_path):
    store = open_disk(tmp_path / "s", INDEXED)
    fill(store, 0, 3)
    store.close()
    with pytest.raises(StoreCorrupt, match="maxHashSlotNum and maxIndexNum"):
        open_disk(tmp_path / "s", dataclasses.replace(INDEXED, max_index_num=99))


def test_a_full_disk_holds_the_index_back_and_loses_no_key(tmp_path, monkeypatch):
    store = open_disk(tmp_path / "s", INDEXED)
    offsets = fill(store, 0, 3)
    dispatch_all(store)
    offsets += fill(store, 3, 30)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(index_file, "write_zeros", full)
        with pytest.raises(StoreNotWritable, match="the disk is full"):
            dispatch_all(store)
    assert_complete(store, offsets)


def test_a_query_reads_no_file_that_a_repair_has_deleted_before_the_disk_failed(tmp_path, monkeypatch):
    store = open_disk(tmp_path / "s", INDEXED)
    offsets = fill(store, 0, 60)
    dispatch_all(store)
    assert len(store.index.files) > 2
    copy = open_disk(crashed(store), INDEXED)
    unlinked: list[str] = []

    def fails_later(path, unlink=os.unlink):
        if unlinked:
            raise OSError(errno.EIO, "Input/output error")
        unlinked.append(path)
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fails_later)
        with pytest.raises(StoreNotWritable):
            copy.dispatch(1)
    find(copy, "U1")
    assert_complete(copy, offsets)


@pytest.mark.parametrize(("before", "noted"), [(1, True), (3, False), (-1, False)])
def test_a_chain_of_index_entries_with_a_loop_is_a_note_and_one_with_a_foreign_entry_a_problem(before, noted):
    import numpy as np

    file = IndexFile(None, 1, 10)
    file.put(np.array([5, 5]), np.array([100, 200]), np.array([NOW_MS] * 2))
    file.columns()["before"][0] = before
    assert file.find(5, 10, 0, 1 << 62) == [200, 100], "a reader stops there"
    chains = [problem for problem in _check_chains(file, after_crash=False) if "chain" in str(problem)]
    assert [problem.note for problem in chains] == [noted]
