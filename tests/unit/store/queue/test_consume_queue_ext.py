# SPDX-License-Identifier: Apache-2.0
"""The extension of consume queues: Apache's bytes, read right with and without its files, gone with its queue."""

from __future__ import annotations

import dataclasses
import shutil
import struct

import pytest

from sprocketmq.errors import StoreCorrupt
from sprocketmq.store import StoredMessage
from sprocketmq.store.queue.consume_queue_ext import is_extension_address
from sprocketmq.store.queue.unit import UNIT
from sprocketmq.store.services.retention import Retention
from sprocketmq.wire.hashing import tags_code

from ..stores import (
    NOW_MS,
    SMALL,
    crashed,
    message,
    open_disk,
    open_memory,
    problems,
    records,
    records_of,
)

EXTENDED = dataclasses.replace(SMALL, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=70)
UNIT_OF_JAVA = struct.Struct(">hqqh")


def fill(store, count=12):
    for number in range(count):
        store.append(message(tag="AB"[number % 2], body=b"%d" % number), NOW_MS + number)


def offsets_with(store, tag):
    """By a filtered read, as a pull with a tag does it."""
    result = store.read("T", 0, 0, 100, 1 << 20, match=lambda code: code == tags_code(tag))
    return [record.queue_offset for record in records_of(result.chunks)]


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_units_have_addresses_and_tags_are_read_through_them(kind, tmp_path):
    store = open_memory(EXTENDED) if kind == "memory" else open_disk(tmp_path / "s", EXTENDED)
    fill(store)
    raw = store.consume_queues.queues["T", 0].unit_bytes(0, 12)
    assert all(is_extension_address(code) for _, _, code in UNIT.iter_unpack(raw))
    assert offsets_with(store, "A") == [0, 2, 4, 6, 8, 10]
    assert [unit.tags_code for unit in store.units("T", 0, 0)] == [tags_code("A"), tags_code("B")] * 6
    assert problems(store) == []


def test_a_message_whose_extension_is_damaged_is_refused_without_a_trace(tmp_path):
    store = open_disk(tmp_path / "s", EXTENDED)
    fill(store)
    store.close()
    sorted((tmp_path / "s/consumequeue_ext/T/0").iterdir())[1].unlink()
    store = open_disk(tmp_path / "s", EXTENDED)
    end = store.max_physical_offset
    with pytest.raises(StoreCorrupt):
        store.append(message(), NOW_MS)
    assert store.max_physical_offset == end, "a record without an entry"
    store.close()


def test_the_files_are_those_of_java(tmp_path):
    store = open_disk(tmp_path / "s", EXTENDED)
    fill(store, 4)
    raw = store.consume_queues.queues["T", 0].unit_bytes(0, 4)
    # 70 bytes hold three units of 20 and the end mark of 4; the fourth opens the next file.
    assert [code + (1 << 63) for _, _, code in UNIT.iter_unpack(raw)] == [0, 20, 40, 70]
    store.close()
    first, second = sorted((tmp_path / "s/consumequeue_ext/T/0").iterdir())
    assert (first.name, second.name) == (f"{0:020d}", f"{70:020d}")
    content = first.read_bytes()
    assert len(content) == 70
    assert UNIT_OF_JAVA.unpack_from(content, 20) == (20, tags_code("B"), NOW_MS + 1, 0)
    assert struct.unpack_from(">h", content, 60) == (-1,)
    assert UNIT_OF_JAVA.unpack_from(second.read_bytes()) == (20, tags_code("B"), NOW_MS + 3, 0)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("killed", [False, True])
def test_a_restart_reads_and_writes_on(killed, lost, tmp_path):
    store = open_disk(tmp_path / "s", EXTENDED)
    fill(store)
    path = tmp_path / "s"
    if killed:
        path = crashed(store)
    store.close()
    if lost:
        shutil.rmtree(path / "consumequeue_ext")
    store = open_disk(path, EXTENDED)
    assert offsets_with(store, "B") == [1, 3, 5, 7, 9, 11]
    fill(store, 2)
    assert offsets_with(store, "B") == [1, 3, 5, 7, 9, 11, 13]
    raw = store.consume_queues.queues["T", 0].unit_bytes(0, 14)
    addresses = [code for _, _, code in UNIT.iter_unpack(raw) if is_extension_address(code)]
    if not lost:
        assert addresses == sorted(set(addresses)), "no address is given twice"
        assert len(addresses) == 14
    assert len(records(store)) == 14
    assert problems(store) == []
    store.close()
    plain = open_disk(path, dataclasses.replace(EXTENDED, enable_consume_queue_ext=False))
    assert offsets_with(plain, "A") == [0, 2, 4, 6, 8, 10, 12]


def test_a_delivery_time_is_read_through_its_address(tmp_path):
    store = open_disk(tmp_path / "s", EXTENDED)
    delayed = StoredMessage("SCHEDULE_TOPIC_XXXX", 2, b"b", b"DELAY\x013\x02", tags_code=NOW_MS + 10_000)
    store.append(delayed, NOW_MS)
    assert [unit.tags_code for unit in store.units("SCHEDULE_TOPIC_XXXX", 2, 0)] == [NOW_MS + 10_000]


def test_the_extension_is_deleted_with_its_topic_and_by_retention(tmp_path, monkeypatch):
    monkeypatch.setattr(Retention, "disk_used_percent", lambda self: 10.0)
    hours = ";".join(str(hour) for hour in range(24))
    store = open_disk(tmp_path / "s", dataclasses.replace(EXTENDED, file_reserved_time=1, delete_when=hours))
    fill(store, 60)
    store.append(message("other"), NOW_MS)
    folder = tmp_path / "s/consumequeue_ext"
    before = len(list((folder / "T/0").iterdir()))
    assert store.clean(NOW_MS + 1000 * 3_600_000) > 0
    assert 0 < len(list((folder / "T/0").iterdir())) < before
    low = store.min_offset("T", 0)
    assert [unit.tags_code for unit in store.units("T", 0, low, 1)] == [tags_code("AB"[low % 2])]
    # The file of the first kept unit is the first one that stays.
    kept = store.consume_queues.queues["T", 0].unit_bytes(low, 1)
    first, second, *_ = sorted(int(path.name) for path in (folder / "T/0").iterdir())
    assert first <= UNIT.unpack(kept)[2] + (1 << 63) < second
    store.delete_topic("T")
    assert [path.name for path in folder.iterdir()] == ["other"]
