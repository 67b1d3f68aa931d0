# SPDX-License-Identifier: Apache-2.0
"""One flipped bit anywhere in what is made from the log: no message is lost, no offset is used twice, and the log says what was mended."""

from __future__ import annotations

import dataclasses
import logging
import os
import random
import shutil

import pytest

from sprocketmq.store import damaged_bodies
from sprocketmq.store.files.checkpoint import Checkpoint, QueueTotals
from sprocketmq.store.files.mapped_progress import MappedProgress
from sprocketmq.wire.records.checksum import crc32

from ..stores import NOW_MS, SMALL, bodies, message, open_disk, records, records_of

NEVER_MS = 1 << 30  # nothing is synced, and no checkpoint written, unless a test asks for it
CONFIG = dataclasses.replace(
    SMALL,
    mapped_file_size_commit_log=16_384,
    mapped_file_size_consume_queue=2_000,
    flush_interval_commit_log_ms=NEVER_MS,
    flush_interval_consume_queue_ms=NEVER_MS,
)
QUEUES = [("T", 0), ("T", 1), ("U", 0)]
COUNT = 110  # of each queue: one full file, and a part of the next
FLIPS = int(os.environ.get("FLIPS", "5"))


def expected(topic, queue_id):
    return [b"%s-%d-%d" % (topic.encode(), queue_id, number) for number in range(COUNT)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A store that was killed, one that was killed right after a sync, and one that was stopped."""
    root = tmp_path_factory.mktemp("sound")
    store = open_disk(root / "stopped", CONFIG)
    for number in range(COUNT):
        for topic, queue_id in QUEUES:
            store.append(message(topic, queue_id, expected(topic, queue_id)[number], tag="A"), NOW_MS + number)
    while store.dispatch(1_000):
        pass
    shutil.copytree(store.path, root / "killed")
    store.flush()
    shutil.copytree(store.path, root / "synced")
    store.close()
    return {name: root / name for name in ("killed", "synced", "stopped")}


def flip(path, at, bit):
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1 << bit
    path.write_bytes(raw)


def read_all(store):
    for topic, queue_id in QUEUES:
        assert bodies(store, topic, queue_id) == expected(topic, queue_id)
        assert [record.queue_offset for record in records(store, topic, queue_id)] == list(range(COUNT))
        assert store.append(message(topic, queue_id, b"new"), NOW_MS + 1_000).queue_offset == COUNT
        assert bodies(store, topic, queue_id) == [*expected(topic, queue_id), b"new"]


FILES = {
    "first queue file": ("consumequeue/T/0/00000000000000000000", 2_000),
    "last queue file": ("consumequeue/T/0/00000000000000002000", 200),
    "behind the last entry": ("consumequeue/U/0/00000000000000002000", 2_000),
    "checkpoint": ("checkpoint", 2_240),
    "index": ("index", 200),
}


@pytest.mark.parametrize("ended", ["killed", "synced", "stopped"])
@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_in_a_derived_file_loses_nothing(sound, tmp_path, name, ended):
    relative, length = FILES[name]
    dice = random.Random(f"{name} {ended}")
    for number in range(FLIPS):
        store_dir = tmp_path / str(number)
        shutil.copytree(sound[ended], store_dir)
        path = store_dir / relative
        if path.is_dir():
            path = sorted(path.iterdir())[0]
        flip(path, dice.randrange(length), dice.randrange(8))
        store = open_disk(store_dir, CONFIG)
        try:
            read_all(store)
        finally:
            store.close()
        shutil.rmtree(store_dir)


@pytest.mark.parametrize("count", [1, 2, 32, 100])
def test_a_pull_hands_out_no_other_record_than_the_one_asked_for(sound, tmp_path, count):
    """An entry that points at another whole record of the same size is not told by the sizes of its neighbours."""
    shutil.copytree(sound["stopped"], tmp_path / "s")
    for damaged, other in ((40, 41), (40, 39), (39 + count, 40 + count), (40 + count // 2, 43)):
        store = open_disk(tmp_path / "s", CONFIG)
        queue = store.consume_queues.queues["T", 0]
        if damaged < COUNT - 1:
            queue.put_at(damaged, *queue.unit(other))
            result = store.read("T", 0, 40, count, 1 << 20)
            assert result.count == min(count, COUNT - 40)
            assert [bytes(record.body) for record in records_of(result.chunks)] == expected("T", 0)[40 : 40 + count]
        store.close()


def test_neighbours_whose_last_entry_points_elsewhere(tmp_path):
    store = open_disk(tmp_path / "s", CONFIG)
    for topic, body in [("T", b"0"), ("T", b"1"), ("U", b"2"), ("T", b"3")]:
        store.append(message(topic, 0, body), NOW_MS)
    store.close()
    store = open_disk(tmp_path / "s", CONFIG)
    queue = store.consume_queues.queues["T", 0]
    queue.put_at(2, *store.consume_queues.queues["U", 0].unit(0))  # as near as a neighbour, but another topic's record
    assert [bytes(record.body) for record in records_of(store.read("T", 0, 0, 3).chunks)] == [b"0", b"1", b"3"]


@pytest.mark.parametrize("number", [0, 30, 150, 328])
def test_a_damaged_body_is_delivered_and_reported(sound, tmp_path, caplog, number):
    """After a kill: what lies behind it in the log was acknowledged too."""
    shutil.copytree(sound["killed"], tmp_path / "s")
    store = open_disk(sound["stopped"], CONFIG)
    topic, queue_id = QUEUES[number % 3]
    place = records(store, topic, queue_id)[number // 3].physical_offset
    store.close()
    file = tmp_path / f"s/commitlog/{place // 16_384 * 16_384:020d}"
    flip(file, place % 16_384 + 89, 2)  # in the body
    again = open_disk(tmp_path / "s", CONFIG)
    for key in QUEUES:
        left = expected(*key)
        if key == (topic, queue_id):
            found = bodies(again, *key)
            assert found.pop(number // 3) != left.pop(number // 3)
            assert found == left
        else:
            assert bodies(again, *key) == left
        assert again.append(message(*key, b"new"), NOW_MS).queue_offset == COUNT
    again.close()
    assert [record.getMessage() for record in caplog.records if str(place) in record.getMessage()]


@pytest.mark.parametrize("reads", ["pull", "filtered", "single", "elsewhere first"])
def test_a_body_that_changed_after_a_clean_stop_is_said_once_whoever_reads_it(sound, tmp_path, caplog, reads):
    shutil.copytree(sound["stopped"], tmp_path / "store")
    store = open_disk(tmp_path / "store", CONFIG)
    place = store.units("T", 0, 40, 1)[0].physical_offset
    store.close()
    flip(tmp_path / "store" / "commitlog" / f"{place - place % 16_384:020d}", place % 16_384 + 89, 2)
    store = open_disk(tmp_path / "store", CONFIG)
    if reads == "elsewhere first":
        store.read("T", 0, 60, 32)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            if reads == "single":
                assert store.record_at(place) is not None
            else:
                match = (lambda code: True) if reads == "filtered" else None
                assert store.read("T", 0, 30, 32, match=match).count == 32
    said = [line for line in caplog.messages if "wrong checksum" in line]
    assert len(said) == 1
    assert all(part in said[0] for part in ("topic T", "queue 0", "offset 40", f"physical offset {place}"))


def test_bodies_are_compared_once_and_those_that_this_process_wrote_never(sound, tmp_path, monkeypatch):
    shutil.copytree(sound["stopped"], tmp_path / "store")
    store = open_disk(tmp_path / "store", CONFIG)
    store.append(message("T", 0, b"new"), NOW_MS)
    compared: list[int] = []
    monkeypatch.setattr(damaged_bodies, "crc32", lambda body: compared.append(len(body)) or crc32(body))
    for offset in (0, 0, 32, 10):
        store.read("T", 0, offset, 32)
    assert len(compared) == 64
    store.read("T", 0, COUNT, 1)
    assert len(compared) == 64


def test_a_search_is_not_misled_by_one_entry(sound, tmp_path):
    shutil.copytree(sound["stopped"], tmp_path / "s")
    store = open_disk(tmp_path / "s", CONFIG)
    queue = store.consume_queues.queues["T", 0]
    target = queue.unit(70)[0]
    for damaged in range(2, 100):
        place, size, tags = queue.unit(damaged)
        if damaged != 70:
            queue.put_at(damaged, place ^ (1 << 40), size, tags)
            assert queue.first_from(target) == 70
            queue.put_at(damaged, place, size, tags)


def test_a_checkpoint_with_a_flipped_bit_is_ignored(tmp_path, caplog):
    path = tmp_path / "checkpoint"
    checkpoint = Checkpoint(str(path))
    checkpoint.durable_offset, checkpoint.queue_totals = 1_000, QueueTotals(1_000, 2, 3)
    checkpoint.save()
    sound = path.read_bytes()
    for at in range(2_048, 2_240, 3):
        path.write_bytes(sound)
        flip(path, at, at % 8)
        again = Checkpoint(str(path))
        again.load()
        assert (again.durable_offset, again.queue_totals, again.is_ours) == (None, None, False)
    assert "is damaged" in caplog.text


def test_live_progress_with_a_flipped_bit_is_never_ahead(tmp_path):
    path = tmp_path / "live"
    live = MappedProgress(str(path))
    live.save([5, 6, 7])
    live.close()
    sound = path.read_bytes()
    for at in range(0, 32 + 8 * 240, 5):
        path.write_bytes(sound)
        flip(path, at, at % 8)
        found = MappedProgress(str(path)).load()
        assert found is None or all(number <= true for number, true in zip(found, (5, 6, 7), strict=False))
