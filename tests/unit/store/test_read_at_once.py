# SPDX-License-Identifier: Apache-2.0
"""Reading judges all entries of a pull together; whatever it finds, it is what reading them one by one finds."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from sprocketmq.store import StoreConfig, message_store
from sprocketmq.store.queue.unit import UNIT

from .stores import NOW_MS, batch_of, bodies, message, open_disk, open_memory, records

LOG_BYTES, QUEUE_BYTES = 4096, 400
CONFIG = StoreConfig(mapped_file_size_commit_log=LOG_BYTES, mapped_file_size_consume_queue=QUEUE_BYTES)


def filled(appends, config=CONFIG):
    """``appends``: queue id, bytes of the body, how many in one batch."""
    store = open_memory(config)
    for queue_id, body_bytes, count in appends:
        batch = [message("T", queue_id, bytes([65 + number]) * body_bytes) for number in range(count)]
        store.append_batch(batch_of(batch), NOW_MS)
    return store


def seen(result):
    return (
        result.status,
        result.next_offset,
        result.min_offset,
        result.max_offset,
        result.bytes,
        result.count,
        b"".join(result.chunks),
    )


APPENDS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from((0, 5, 5, 5, 300)), st.integers(1, 10)), min_size=1, max_size=20
)
READS = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(0, 90), st.sampled_from((-1, 0, 1, 7, 32, 64, 65, 1024)), st.integers(0, 4000)
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=examples(60), deadline=None)
@given(APPENDS, READS)
def test_all_entries_at_once_are_the_entries_one_by_one(appends, reads):
    store = filled(appends)
    for queue_id, offset, max_messages, max_bytes in reads:
        together = store.read("T", queue_id, offset, max_messages, max_bytes)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(message_store, "read_at_once", lambda *_: False)
            assert seen(store.read("T", queue_id, offset, max_messages, max_bytes)) == seen(together)


def test_entries_are_judged_together_where_they_may_be(monkeypatch):
    store = filled([(0, 5, 10), (1, 5, 1), (0, 5, 1), (0, 300, 1)])
    monkeypatch.setattr(message_store, "read_one_by_one", lambda *_: pytest.fail("one by one"))
    assert [len(store.read("T", 0, offset).chunks) for offset in (0, 2, 9)] == [12, 10, 3]
    assert len(store.read("T", 0, 0, 10).chunks) == 1  # neighbours in the log


def test_what_a_large_read_may_not_bring_is_left_for_the_next_one(monkeypatch):
    roomy = StoreConfig(mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000)
    store = filled([(0, 5, 100), (1, 5, 1), (0, 5, 100), (1, 5, 1), *[(0, 5, 1), (1, 5, 1)] * 3], roomy)
    monkeypatch.setattr(message_store, "read_one_by_one", lambda *_: pytest.fail("one by one"))
    whole = store.read("T", 0, 0, 1024, 1 << 20)
    assert (whole.count, len(whole.chunks)) == (203, 5)  # a chunk for each run of neighbours
    size = whole.bytes // whole.count
    for max_bytes in (size, 150 * size, 151 * size - 1, 203 * size - 1):
        part = store.read("T", 0, 0, 1024, max_bytes)
        assert (part.count, part.next_offset, part.bytes) == (max_bytes // size,) * 2 + (max_bytes // size * size,)
        assert b"".join(part.chunks) == b"".join(whole.chunks)[: part.bytes]


@pytest.mark.parametrize("queue_offset", [0, 1, 2])
def test_an_entry_that_points_nowhere_is_made_again_before_it_is_read(queue_offset):
    store = filled([(0, 5, 1), (1, 5, 1), (0, 5, 1), (1, 5, 1), (0, 5, 1)])
    queue = store.consume_queues.queues["T", 0]
    UNIT.pack_into(queue.view, queue_offset * UNIT.size, 3_000, 110, 0)
    expected = [unit for unit in range(3) if unit != queue_offset]
    result = store.read("T", 0, 0)
    assert (result.count, result.next_offset) == (3, 3)
    assert [record.queue_offset for record in records(store)] == [0, 1, 2]
    assert all(queue.unit(unit)[0] < 3_000 for unit in (*expected, queue_offset))


def test_full_files_of_queues_are_mapped_for_readers_within_a_limit(tmp_path):
    config = StoreConfig(
        mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=100, max_mapped_queue_files=32
    )
    store = open_disk(tmp_path / "s", config)
    for number in range(60):
        store.append(message("T", number % 4, b"%d" % number), NOW_MS)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(2):
        for queue_id in range(4):
            assert bodies(store, "T", queue_id) == [b"%d" % number for number in range(queue_id, 60, 4)]
            assert [store.read("T", queue_id, offset, 1).count for offset in range(15)] == [1] * 15
    files = [file for queue in store.consume_queues.queues.values() for file in queue.files.files]
    assert len(files) == 12
    assert sum(file.mapped for file in files) == 4 + 4  # the last of each queue, and an eighth of the limit
    if before:
        assert len(os.listdir("/proc/self/fd")) - before <= 6  # and what the flush thread has open just now
    store.consume_queues.queues["T", 0].put_at(2, 0, 99, 7)  # recovery writes where readers look
    assert store.consume_queues.queues["T", 0].unit(2)[1] == 99
