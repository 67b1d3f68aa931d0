# SPDX-License-Identifier: Apache-2.0
"""What is stored of a batch is, byte for byte, what is stored of its messages one by one: records, queue entries, their extension."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batches import sound_batches
from sprocketmq.errors import ConfigurationError
from sprocketmq.store import StoreConfig, StoredMessage
from sprocketmq.store.files.mapped_file import MappedFile
from sprocketmq.store.log.commit_log import CommitLog
from sprocketmq.store.queue.unit import UNIT
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records.properties import TAGS, get_property

from .stores import NOW_MS, batch_of, bodies, crash, message, open_disk, open_memory, problems

# A batch stays together, so a file of the log that ends in the middle of one would be filled otherwise.
ROOMY = StoreConfig(
    mapped_file_size_commit_log=8 << 20,
    mapped_file_size_consume_queue=200,
    max_hash_slot_num=31,
    max_index_num=1_000,
)
EXTENDED = dataclasses.replace(ROOMY, enable_consume_queue_ext=True)
V4, V6 = (b"\x7f\0\0\x01", 50_000), (bytes(range(16)), 10_911)


def messages_of(batch, topic, hosts, **fields):
    return [
        StoredMessage(
            topic,
            1,
            body,
            raw,
            flag,
            born_timestamp_ms=NOW_MS - 5,
            born_host=hosts[0],
            store_host=hosts[1],
            tags_code=tags_code(get_property(raw, TAGS)),
            **fields,
        )
        for flag, body, raw in batch
    ]


def held(store):
    """All bytes of a store."""
    log = store.commit_log
    [file] = log.files.files
    queues = {
        key: b"".join([bytes(part.view) for part in queue.files.files])
        for key, queue in store.consume_queues.queues.items()
    }
    extension = {
        key: [bytes(part.view[: one.end - part.start]) for part in one.files.files]
        for key, one in store.extension._extensions.items()
    }
    return bytes(file.view[: log.at + 8]), log.indexed_offset, log.last_store_timestamp_ms, queues, extension


def assert_batches_are_as_one_by_one(batches, config):
    together, apart = open_memory(config), open_memory(config)
    for store in (together, apart):
        store.append(message("T", 1), NOW_MS)
    for batch in batches:
        result = together.append_batch(batch_of(batch), NOW_MS)
        each = [apart.append(one, NOW_MS) for one in batch]
        assert result.physical_offsets.tolist() == [one.physical_offset for one in each]
        assert (result.physical_offset, result.queue_offset) == (each[0].physical_offset, each[0].queue_offset)
        assert result.physical_offset + result.size == each[-1].physical_offset + each[-1].size
        assert result.store_timestamp == each[0].store_timestamp
    assert held(together) == held(apart)
    if not any(one.properties.endswith(b"\0") for batch in batches for one in batch):  # the broker refuses such
        assert problems(together) == []


@given(
    st.lists(sound_batches(), min_size=1, max_size=3),
    st.sampled_from(("T", "t" * 127, "t" * 128, "Ü" * 60)),
    st.tuples(*[st.sampled_from((V4, V6))] * 2),
    st.sampled_from((0, 0x1, 0x30)),
    st.sampled_from((ROOMY, EXTENDED)),
)
def test_any_batch_is_stored_as_its_messages_one_by_one(batches, topic, hosts, sys_flag, config):
    made = [messages_of(batch, topic, hosts, sys_flag=sys_flag, reconsume_times=len(batch)) for batch in batches]
    assert_batches_are_as_one_by_one(made, config)


def test_a_kill_leaves_the_whole_batch_or_nothing_and_no_entry_without_its_record(tmp_path, monkeypatch):
    """Apache's broker cuts entries behind the end of the log, and then counts a zero of an empty last file as an entry."""
    store = open_disk(tmp_path / "store", ROOMY)
    for _ in range(3):
        store.append(message("T", 1, b"before"), NOW_MS)
    left = []

    def then_killed(owner, name):
        real = getattr(owner, name)

        def call(self, *arguments):
            real(self, *arguments)
            left.append(crash(store, tmp_path / f"killed-{len(left)}"))

        monkeypatch.setattr(owner, name, call)

    then_killed(MappedFile, "create")
    then_killed(MappedFile, "take_room")
    then_killed(CommitLog, "write")
    store.append_batch(batch_of([message("T", 1, b"batch")] * 25), NOW_MS)
    monkeypatch.undo()
    store.close()
    assert len(left) == 5, "two files of the queue are made and get space, then the records are written"
    for folder in left:
        raw = b"".join(path.read_bytes() for path in sorted((folder / "consumequeue" / "T" / "1").iterdir()))
        killed = open_disk(folder, ROOMY)
        ends = [at + size for at, size, _ in UNIT.iter_unpack(raw)]
        assert max(ends) <= killed.max_physical_offset, folder
        assert bodies(killed, "T", 1) in ([b"before"] * 3, [b"before"] * 3 + [b"batch"] * 25)
        assert problems(killed) == []
        killed.close()


@pytest.mark.parametrize(
    "bad",
    [message(body=b"x" * 101), StoredMessage("T", 0, b"x", b"x" * 32_768), message("../T"), message(queue_id=-1)],
    ids=["body", "properties", "topic", "queue"],
)
def test_a_batch_with_a_message_that_cannot_be_stored_changes_nothing(bad):
    store = open_memory(dataclasses.replace(ROOMY, max_message_size=100))
    batch = [message(bad.topic, bad.queue_id), bad, message(bad.topic, bad.queue_id)]
    with pytest.raises(ConfigurationError):
        store.append_batch(batch_of(batch), NOW_MS)
    assert store.max_physical_offset == 0
    assert store.queues() == []
