# SPDX-License-Identifier: Apache-2.0
"""What every message store does, on the memory and on the disk version."""

from __future__ import annotations

import traceback

import pytest

from sprocketmq.errors import ConfigurationError, StoreNotWritable
from sprocketmq.store import MessageStore, ReadStatus, StoreConfig, StoredMessage
from sprocketmq.store.files.mapped_file import MappedFile
from sprocketmq.store.queue.unit import FILLER_SIZE
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records.record import RecordView, decode_records

from .stores import NOW_MS, SMALL, batch_of, bodies, message, open_disk, open_memory, records


def test_an_appended_message_is_readable_at_once_with_every_field(store):
    sent = message(
        "T", 3, b"body", "TagA", flag=7, sys_flag=0x1, born_timestamp_ms=NOW_MS - 5, born_host=(bytes(range(16)), 50000),
        store_host=(b"\x0a\x00\x00\x01", 10911), reconsume_times=2, prepared_transaction_offset=99,
    )  # fmt: skip
    result = store.append(sent, NOW_MS)
    assert (result.physical_offset, result.queue_offset, result.store_timestamp) == (0, 0, NOW_MS)
    read = store.read("T", 3, 0)
    assert (read.status, read.next_offset, read.min_offset, read.max_offset, read.count) == (
        ReadStatus.FOUND,
        1,
        0,
        1,
        1,
    )
    assert read.bytes == result.size == len(read.chunks[0])
    record = RecordView(read.chunks[0])
    assert (record.queue_id, record.queue_offset, record.physical_offset, record.flag) == (3, 0, 0, 7)
    assert record.sys_flag == 0x11  # compressed as sent, and the store marks the IPv6 host
    assert record.born_timestamp_ms == NOW_MS - 5
    assert record.born_host == (bytes(range(16)), 50000)
    assert record.store_host == (b"\x0a\x00\x00\x01", 10911)
    assert (record.store_timestamp_ms, record.reconsume_times, record.prepared_transaction_offset) == (NOW_MS, 2, 99)
    assert (record.topic, bytes(record.body), record.raw_properties) == ("T", b"body", sent.properties)


def test_entries_of_lost_messages_are_passed_over_however_many_they_are():
    store = open_memory()
    for _ in range(10):
        store.append(message(), NOW_MS)
    for offset in range(9):
        store.consume_queues.queues["T", 0].put_at(offset, 0, FILLER_SIZE, 0)
    assert [unit.queue_offset for unit in store.units("T", 0, 0, 1)] == [9]
    assert store.units("T", 0, 10, 1) == []


@pytest.mark.parametrize("spare_bytes", range(-1, 12))
def test_a_record_that_nearly_fills_a_file_leaves_room_for_the_filler(spare_bytes):
    store = open_memory()
    first = store.append(message(body=b"x" * 500), NOW_MS)
    fixed = first.size - 500
    second = store.append(message(body=b"y" * (2048 - first.size - fixed - spare_bytes)), NOW_MS)
    rolled = spare_bytes < 8
    assert second.physical_offset == (2048 if rolled else first.size)
    assert len(bodies(store)[0]) == 500
    store.append(message(), NOW_MS)
    assert len(bodies(store)) == 3


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (0, ReadStatus.FOUND, 3),
        (2, ReadStatus.FOUND, 3),
        (3, ReadStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, ReadStatus.OFFSET_OVERFLOW_BADLY, 3),
        (-1, ReadStatus.OFFSET_TOO_SMALL, 0),
    ],
)
def test_a_read_outside_the_queue_returns_the_next_offset(store, offset, status, next_offset):
    for _ in range(3):
        store.append(message(), NOW_MS)
    result = store.read("T", 0, offset)
    assert (result.status, result.next_offset, result.min_offset, result.max_offset) == (status, next_offset, 0, 3)


def test_a_queue_that_was_never_written_has_a_status_of_its_own(store):
    assert store.read("T", 0, 0).status is ReadStatus.NO_MESSAGE_IN_QUEUE
    assert store.min_offset("T", 0) == store.max_offset("T", 0) == store.offset_by_time("T", 0, NOW_MS) == 0
    assert store.earliest_store_time("T", 0) == -1


def test_the_first_message_goes_whatever_its_size_and_the_rest_obey_the_limits(store):
    size = store.append(message(body=b"x" * 300), NOW_MS).size
    for _ in range(9):
        store.append(message(body=b"x" * 300), NOW_MS)
    assert store.read("T", 0, 0, 32, 10).count == 1
    assert store.read("T", 0, 0, 32, 2 * size).count == 2
    assert store.read("T", 0, 0, 32, 3 * size - 1).count == 2
    assert store.read("T", 0, 0, 4, 1 << 20).count == 4
    assert store.read("T", 0, 0, 0, 1 << 20).count == 1
    assert store.read("T", 0, 8, 32, 1 << 20).next_offset == 10


def test_neighbours_in_the_log_leave_as_one_chunk(store):
    for queue_id in (0, 0, 0, 1, 0):
        store.append(message("T", queue_id), NOW_MS)
    result = store.read("T", 0, 0, 3)
    assert [len(decode_records(chunk)) for chunk in result.chunks] == [3]
    result = store.read("T", 0, 0)
    assert [sum(len(decode_records(chunk)) for chunk in result.chunks), result.count] == [4, 4]
    assert all(chunk.readonly for chunk in result.chunks)


def test_a_filter_by_tags_code_skips_and_moves_on(store):
    for index in range(10):
        store.append(message(tag="A" if index % 3 == 0 else "B"), NOW_MS)
    wanted = tags_code("A")
    result = store.read("T", 0, 1, match=lambda code: code == wanted)
    assert (result.status, result.count, result.next_offset) == (ReadStatus.FOUND, 3, 10)
    result = store.read("T", 0, 0, max_messages=2, match=lambda code: code == wanted)
    assert (result.count, result.next_offset) == (2, 6)  # stops before the third match
    nothing = store.read("T", 0, 0, match=lambda code: False)
    assert (nothing.status, nothing.next_offset, nothing.chunks) == (ReadStatus.NO_MATCHED_MESSAGE, 10, [])
    by_record = store.read("T", 0, 0, match_record=lambda record: RecordView(record).queue_offset == 7)
    assert [RecordView(chunk).queue_offset for chunk in by_record.chunks] == [7]


def test_a_filtered_read_looks_at_a_bounded_number_of_entries():
    store = open_memory(StoreConfig(mapped_file_size_commit_log=1 << 20, max_filter_units=800))
    for _ in range(1000):
        store.append(message(), NOW_MS)
    result = store.read("T", 0, 10, match=lambda code: False)
    assert (result.status, result.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 810)


def test_a_batch_gets_consecutive_offsets_and_one_piece_of_the_log(store):
    store.append(message(body=b"x" * 1500), NOW_MS)
    result = store.append_batch(batch_of([message(body=b"%d" % index) for index in range(5)]), NOW_MS)
    assert result.queue_offset == 1
    assert result.physical_offset == 2048  # did not fit the rest of the first file: all of it went to the next
    size = result.size // 5
    assert result.physical_offsets.tolist() == [2048 + number * size for number in range(5)]
    assert store.max_physical_offset == 2048 + result.size
    assert bodies(store)[1:] == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("sys_flag", [0x4, 0x8, 0xC])
def test_a_batch_that_is_part_of_a_transaction_is_refused_whole(store, sys_flag):
    with pytest.raises(ConfigurationError, match="or a transaction"):
        store.append_batch(batch_of([message(sys_flag=sys_flag)] * 2), NOW_MS)
    assert store.max_physical_offset == 0
    assert store.queues() == []


@pytest.mark.parametrize(
    "bad",
    [
        message(body=b"x" * (4 << 20) + b"x"),
        message(body=b"x" * 2048),
        StoredMessage("T", 0, b"body", b"x" * 32768),
        message("../T"),
        message("a/b"),
        message(".."),
        message(""),
        message("T\0"),
        message(queue_id=-1),
    ],
)
def test_a_message_that_cannot_be_stored_changes_nothing(store, bad):
    with pytest.raises(ConfigurationError):
        store.append(bad, NOW_MS)
    assert store.max_physical_offset == 0
    assert store.append(message(), NOW_MS).queue_offset == 0


def test_a_topic_of_more_than_127_bytes_makes_a_second_version_record(store):
    topic = "t" * 128
    store.append(message(topic), NOW_MS)
    (record,) = records(store, topic)
    assert (record.magic, record.topic) == (0xDAA320AB, topic)


@pytest.mark.parametrize("sys_flag", [0x4, 0xC])
def test_prepared_and_rolled_back_records_have_no_entry(store, sys_flag):
    store.append(message(), NOW_MS)
    result = store.append(message(sys_flag=sys_flag), NOW_MS)
    assert result.queue_offset == 0
    assert store.max_offset("T", 0) == 1
    assert store.append(message(sys_flag=0x8), NOW_MS).queue_offset == 1
    view = store.record_at(result.physical_offset)
    assert RecordView(view).sys_flag == sys_flag


def test_a_record_is_found_by_its_physical_offset_and_by_no_other(store):
    sizes = [store.append(message(body=b"%d" % index), NOW_MS).size for index in range(3)]
    ends = {sum(sizes[:index]) for index in range(3)}
    for offset in range(-5, sum(sizes) + 5):
        view = store.record_at(offset)
        assert (view is not None) == (offset in ends)
        if view is not None:
            assert RecordView(view).physical_offset == offset


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_record_inside_a_body_is_no_record(store, cut):
    inner = open_memory()
    inner.append(message(body=b"forged" + b"." * cut), NOW_MS)
    forged = bytes(inner.read("T", 0, 0).chunks[0])
    store.append(message(body=b"." * cut + forged), NOW_MS)
    assert store.record_at(88 + cut) is None  # what lies there says that it lies elsewhere


def test_search_by_time_finds_the_first_at_or_after_and_the_last_at_or_before(store):
    for stored_ms in (10, 10, 20, 20, 20, 40):
        store.append(message(), stored_ms)
    assert [store.offset_by_time("T", 0, at) for at in (0, 10, 11, 20, 30, 40, 41)] == [0, 0, 2, 2, 5, 5, 6]
    assert [store.offset_by_time("T", 0, at, upper=True) for at in (0, 10, 15, 20, 30, 40, 99)] == [0, 1, 1, 4, 4, 5, 5]
    assert store.store_time("T", 0, 2) == 20
    assert store.store_time("T", 0, 6) == -1
    assert store.earliest_store_time("T", 0) == 10


def test_store_time_is_right_behind_an_ipv6_host(store):
    store.append(message(born_host=(b"\1" * 16, 1)), NOW_MS)
    assert store.store_time("T", 0, 0) == NOW_MS


def test_views_stay_readable_after_the_store_is_closed(store):
    store.append(message(body=b"still here"), NOW_MS)
    chunk = store.read("T", 0, 0).chunks[0]
    store.close()
    assert bytes(RecordView(chunk).body) == b"still here"
    with pytest.raises(StoreNotWritable, match="closed"):
        store.append(message(), NOW_MS)
    store.load()


def test_a_deleted_topic_is_gone_and_can_be_made_anew(store):
    store.append(message("T", 0), NOW_MS)
    store.append(message("T", 1), NOW_MS)
    kept = store.append(message("U"), NOW_MS)
    assert store.delete_topic("T") == 2
    assert store.queues() == [("U", 0)]
    assert store.record_at(kept.physical_offset) is not None
    store.delete_topic("U")
    assert store.append(message("T", 0, b"second life"), NOW_MS).queue_offset == 0
    assert bodies(store) == [b"second life"]
    store.delete_topic("T")


def _refuse(file: MappedFile) -> bool:
    raise StoreNotWritable(f"{file.path} cannot be deleted")


@pytest.mark.parametrize("queues", [1, 3])
def test_a_deletion_that_the_disk_refuses_can_be_tried_again(tmp_path, monkeypatch, queues):
    store = open_disk(tmp_path / "s")
    for number in range(queues):
        store.append(message("T", number), NOW_MS)
    with monkeypatch.context() as broken:
        broken.setattr(MappedFile, "delete", _refuse)
        with pytest.raises(StoreNotWritable):
            store.delete_topic("T")
    assert store.delete_topic("T") == queues
    assert store.queues() == []
    assert not (tmp_path / "s/consumequeue/T").exists()
    assert store.append(message("T", 1, b"second life"), NOW_MS).queue_offset == 0


def test_an_entry_whose_record_is_gone_is_skipped_and_logged(caplog):
    store = open_memory()
    places = [
        store.append(message("T", number % 2, b"%d" % (number // 2)), NOW_MS).physical_offset for number in range(6)
    ]
    store.commit_log.view[places[2] + 27] ^= 64  # the queue offset in the record
    store.consume_queues.queues["T", 0].written_from = 3  # as after a start: what a process wrote itself it believes
    assert bodies(store) == [b"0", b"2"]
    assert bodies(store) == [b"0", b"2"]
    assert caplog.text.count("the entry of topic T, queue 0, offset 1 is damaged and its record is not in the log") == 1
    assert store.append(message(), NOW_MS).queue_offset == 3


def test_a_store_refuses_appends_before_load():
    with pytest.raises(StoreNotWritable, match="load"):
        MessageStore(SMALL).append(message(), NOW_MS)


def test_a_store_that_refuses_keeps_nothing_of_what_it_refused(store):
    refusal = StoreNotWritable("the disk is full")
    store.refuse_appends(refusal)
    lengths = set()
    for _ in range(3):
        for append, what in (
            (store.append, message()),
            (store.append_again, message()),
            (store.append_batch, batch_of([message()])),
        ):
            with pytest.raises(StoreNotWritable, match="full"):
                append(what, NOW_MS)
            lengths.add(len(traceback.extract_tb(refusal.__traceback__)))
    assert max(lengths) <= 3  # this function and the store's


@pytest.mark.parametrize("bad", [{"mapped_file_size_consume_queue": 30}, {"mapped_file_size_commit_log": 10}])
def test_impossible_file_sizes_are_refused_by_apaches_name(bad):
    with pytest.raises(ConfigurationError, match="mappedFileSize"):
        StoreConfig(**bad)


def test_everything_appended_becomes_durable(store):
    result = store.append(message(), NOW_MS)
    store.when_durable(result.physical_offset + result.size).result(10)
    assert store.flushed_offset >= result.physical_offset + result.size
