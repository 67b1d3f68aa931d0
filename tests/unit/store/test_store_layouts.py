# SPDX-License-Identifier: Apache-2.0
"""The tables of the store's files against bytes that Java wrote, and against the numbers that Java's sources state."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from golden import VERSIONS, store_file
from sprocketmq.store.files import checkpoint
from sprocketmq.store.index import index_file
from sprocketmq.store.queue import consume_queue_ext
from sprocketmq.store.timer import timer_check, timer_log, timer_wheel
from sprocketmq.wire.records.record import RecordView


def test_the_sizes_are_javas():
    """IndexHeader.INDEX_HEADER_SIZE, IndexFile.hashSlotSize and indexSize, TimerLog.UNIT_SIZE, Slot.SIZE, CqExtUnit.MIN_EXT_UNIT_SIZE."""
    assert (index_file.HEADER_SIZE_BYTES, index_file.SLOT_SIZE_BYTES, index_file.ENTRY_SIZE_BYTES) == (40, 4, 20)
    assert (timer_log.UNIT_BYTES, timer_wheel.WHEEL_BYTES // timer_wheel.WHEEL_SLOTS) == (52, 32)
    assert consume_queue_ext._UNIT.size == 20
    assert len(timer_check.TimerCheck().encode()) == 56
    assert index_file._HEADER_LAYOUT.at["index_count"] == 36
    assert checkpoint._INDEX_TIME_AT == 16


def test_the_fields_of_a_header_have_their_names_in_the_table():
    assert tuple(index_file._HEADER_LAYOUT.types) == index_file.IndexHeader._fields


@pytest.mark.parametrize("version", VERSIONS)
def test_an_index_that_java_wrote_is_what_the_tables_say(version):
    header = index_file.IndexHeader(*index_file._HEADER.unpack(store_file(version, "index-header.bin")))
    entries = np.frombuffer(store_file(version, "index-entries.bin"), index_file._entry_type())
    slots = {int(slot): number for slot, number in json.loads(store_file(version, "index-slots.json")).items()}
    log = store_file(version, "commitlog-head.bin")
    assert (header.index_count, header.used_slot_count) == (len(entries), len(slots))
    for slot, number in slots.items():
        assert int(entries[number]["hash"]) % 5_000_000 == slot
    for number, entry in enumerate(entries.tolist()[1:], 1):
        key_hash, place, seconds, before = entry
        record = RecordView(log, place)
        assert seconds == max(0, record.store_timestamp_ms - header.begin_timestamp) // 1000
        assert before < number
        assert not before or entries[before]["hash"] % 5_000_000 == key_hash % 5_000_000
    first, last = RecordView(log, header.begin_physical_offset), RecordView(log, header.end_physical_offset)
    assert (first.store_timestamp_ms, last.store_timestamp_ms) == (header.begin_timestamp, header.end_timestamp)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_checkpoint_that_java_wrote_is_what_the_table_says(version):
    raw = store_file(version, "checkpoint.bin")
    said = dict(zip(checkpoint._LAYOUT.types, checkpoint._TIMES.unpack_from(raw), strict=True))
    java = struct.unpack_from(">qqq", raw)
    assert java[0] > 1_600_000_000_000
    assert (said["physic_msg_timestamp"], said["logics_msg_timestamp"], said["index_msg_timestamp"]) == java
