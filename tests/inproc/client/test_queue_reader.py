# SPDX-License-Identifier: Apache-2.0
"""The bulk reader against a real broker: everything once and in order, whatever pulls bring, fail or lose."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sprocketmq.client.consume import queue_reader
from sprocketmq.client.consume.queue_reader import QueueReader
from sprocketmq.client.results import PullResult
from sprocketmq.core.consume.pull_cursor import PullStatus
from sprocketmq.errors import ClosedError, RemoteError, RequestTimeout, TopicNotExist
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.records.message import Message, MessageQueue
from sprocketmq.wire.records.record import decode_records


@pytest.fixture
def mq() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system") as embedded:
        embedded.create_topic("flights", queues=3)
        yield embedded


def fill(mq: EmbeddedRocketMQ, count: int, body_bytes: int = 10) -> dict[MessageQueue, int]:
    """``count`` messages in each of the three queues; every tenth has tag B."""
    queues = [MessageQueue("flights", "broker-a", at) for at in range(3)]
    with mq.producer() as producer:
        for queue in queues:
            for start in range(0, count, 200):
                part = range(start, min(count, start + 200))
                messages = [Message("flights", b"%0*d" % (body_bytes, at), tags="A" if at % 10 else "B") for at in part]
                producer.send_batch(messages, queue=queue)
    return dict.fromkeys(queues, count)


def read(reader: QueueReader) -> dict[MessageQueue, list[int]]:
    """Offsets by queue, in the order in which they came."""
    found: dict[MessageQueue, list[int]] = {}
    with reader:
        for chunk in reader:
            offsets = [message.queue_offset for message in decode_records(chunk.body)]
            found.setdefault(chunk.queue, []).extend(at for at in offsets if chunk.start <= at < chunk.end)
    return found


@pytest.mark.parametrize("pulls_in_flight", [1, 3, 16])
@pytest.mark.parametrize("max_messages", [1, 7, 1024])
def test_each_message_of_the_ranges_comes_once_and_in_order(mq, pulls_in_flight, max_messages):
    queues = fill(mq, 150)
    ranges = [(queue, 5 * at, count - 3 * at) for at, (queue, count) in enumerate(queues.items())]
    reader = QueueReader(mq.namesrv_addr, ranges=ranges, pulls_in_flight=pulls_in_flight, max_messages=max_messages)
    assert read(reader) == {queue: list(range(start, end)) for queue, start, end in ranges}


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_read_that_is_repeated_gives_the_same_order_whichever_queue_answers_late(mq, late):
    queues = fill(mq, 90)
    mq.faults.delay(
        RequestCode.PULL_MESSAGE, 100, times=3, when=lambda command: command.ext_fields["queueId"] == str(late)
    )
    ranges = [(queue, 0, count) for queue, count in queues.items()]
    found: list[tuple[int, int]] = []
    with QueueReader(mq.namesrv_addr, ranges=ranges, pulls_in_flight=4, max_messages=10) as reader:
        for chunk in reader:
            found += [(chunk.queue.queue_id, message.queue_offset) for message in decode_records(chunk.body)]
    assert found == [(queue.queue_id, at) for queue, start, end in ranges for at in range(start, end)]


def test_answers_that_stop_short_leave_no_gap(mq):
    queues = fill(mq, 60, body_bytes=40_000)  # 256 KiB hold six of them
    found = read(QueueReader(mq.namesrv_addr, ranges=[(queue, 0, count) for queue, count in queues.items()]))
    assert found == {queue: list(range(60)) for queue in queues}


def test_after_short_answers_the_reader_requests_what_one_answer_holds(mq):
    queue, count = next(iter(fill(mq, 600, body_bytes=20_000).items()))  # 256 KiB hold twelve of them
    with QueueReader(mq.namesrv_addr, ranges=[(queue, 0, count)], pulls_in_flight=1, max_messages=20) as reader:
        lengths = [chunk.end - chunk.start for chunk in reader]
    assert sum(lengths) == count
    # Of the first segment all that it takes; then now and then the rest of one that tried to be longer.
    assert len([length for length in lengths[-40:] if length < max(lengths)]) <= 4, lengths


def test_a_filter_leaves_the_others_out_and_ends(mq):
    queues = fill(mq, 1000)
    ranges = [(queue, 0, count) for queue, count in queues.items()]
    assert read(QueueReader(mq.namesrv_addr, ranges=ranges, expression="B")) == {
        queue: list(range(0, 1000, 10)) for queue in queues
    }
    assert read(QueueReader(mq.namesrv_addr, ranges=ranges, expression="none")) == {}


@pytest.mark.parametrize("pulls_in_flight", [1, 4])
def test_a_filtered_answer_that_covers_more_than_its_part_gives_nothing_twice(mq, pulls_in_flight):
    queues = fill(mq, 400)
    # Seven messages with tag B are seventy offsets: ten times what was asked for.
    reader = QueueReader(
        mq.namesrv_addr,
        ranges=[(queue, 0, count) for queue, count in queues.items()],
        expression="B",
        max_messages=7,
        pulls_in_flight=pulls_in_flight,
    )
    assert read(reader) == {queue: list(range(0, 400, 10)) for queue in queues}


def test_a_lost_answer_is_asked_for_again(mq):
    queues = fill(mq, 100)
    mq.faults.drop(RequestCode.PULL_MESSAGE, times=3)
    ranges = [(queue, 0, count) for queue, count in queues.items()]
    found = read(QueueReader(mq.namesrv_addr, ranges=ranges, timeout_ms=300))
    assert found == {queue: list(range(100)) for queue in queues}


def test_a_broken_connection_is_made_anew(mq):
    queues = fill(mq, 100)
    mq.faults.close_connection(RequestCode.PULL_MESSAGE)
    ranges = [(queue, 0, count) for queue, count in queues.items()]
    assert read(QueueReader(mq.namesrv_addr, ranges=ranges)) == {queue: list(range(100)) for queue in queues}


def test_a_broker_that_never_answers_ends_the_read_with_an_error(mq):
    queues = fill(mq, 10)
    mq.faults.drop(RequestCode.PULL_MESSAGE, times=1000)
    ranges = [(queue, 0, count) for queue, count in queues.items()]
    with pytest.raises(RequestTimeout):
        read(QueueReader(mq.namesrv_addr, ranges=ranges, timeout_ms=50, retry_timeout_ms=200))


def test_a_range_beyond_the_end_is_reported_with_what_the_broker_holds(mq):
    (queue, count), *_ = fill(mq, 10).items()
    moved: list[tuple[MessageQueue, int, int, int]] = []
    reader = QueueReader(
        mq.namesrv_addr,
        ranges=[(queue, 0, 15)],
        retry_timeout_ms=100,
        on_offset_moved=lambda *what: moved.append(what),
    )
    assert read(reader) == {queue: list(range(count))}
    assert moved == [(queue, 10, 0, 10)]
    with pytest.raises(RemoteError, match="offset 10 of flights/broker-a/0 is not there, the broker holds 0 to 10"):
        read(QueueReader(mq.namesrv_addr, ranges=[(queue, 0, 15)], retry_timeout_ms=100))


def test_an_unknown_topic_is_named(mq):
    with pytest.raises(TopicNotExist):
        read(QueueReader(mq.namesrv_addr, ranges=[(MessageQueue("nowhere", "broker-a", 0), 0, 5)]))


def test_an_early_exit_stops_pulling_and_a_reader_is_read_once(mq):
    queues = fill(mq, 1000)
    before = threading.active_count()
    with QueueReader(mq.namesrv_addr, ranges=[(queue, 0, count) for queue, count in queues.items()]) as reader:
        next(iter(reader))
    assert threading.active_count() <= before + 1  # the engine that all blocking clients share
    with pytest.raises(ClosedError):
        next(iter(reader))


def test_without_ranges_nothing_is_read(mq):
    queue = MessageQueue("flights", "broker-a", 0)
    assert (
        read(QueueReader(mq.namesrv_addr, ranges=[]))
        == read(QueueReader(mq.namesrv_addr, ranges=[(queue, 5, 5)]))
        == {}
    )


# -- messages that are gone before the queue's beginning is moved (law 5) --------------------------------------------------------


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> dict[MessageQueue, int]:
    """Queue -> below which offset its messages are gone though the queue still begins at 0: as Apache's brokers answer then."""
    gone: dict[MessageQueue, int] = {}
    real = queue_reader.read_queue

    async def read_queue(
        cluster: Any, address: str, group: str, queue: MessageQueue, offset: int, count: int, **how: Any
    ) -> PullResult:
        upto = gone.get(queue, 0)
        if offset >= upto:
            return await real(cluster, address, group, queue, offset, count, **how)
        if offset + count <= upto:
            return PullResult(PullStatus.NO_MATCHED_MSG, offset + count, 0, 60, 0, b"")
        return await real(cluster, address, group, queue, upto, offset + count - upto, **how)

    monkeypatch.setattr(queue_reader, "read_queue", read_queue)
    return gone


@pytest.mark.parametrize("max_messages", [1, 8, 1024])
def test_messages_that_a_broker_passes_over_are_reported_each_once(mq, gone, max_messages):
    queues = list(fill(mq, 60))
    gone.update({queues[0]: 25, queues[1]: 60})
    moved: list[tuple[MessageQueue, int, int]] = []
    reader = QueueReader(
        mq.namesrv_addr,
        ranges=[(queue, 5, 60) for queue in queues],
        max_messages=max_messages,
        on_offset_moved=lambda queue, wanted, low, high: moved.append((queue, wanted, low)),
    )
    assert read(reader) == {queues[0]: list(range(25, 60)), queues[2]: list(range(5, 60))}
    for queue, upto in gone.items():
        missing = [at for name, first, end in moved if name == queue for at in range(first, end)]
        assert sorted(missing) == list(range(5, upto))
    with pytest.raises(RemoteError, match="offset 5 of flights/broker-a/0 is not there"):
        read(QueueReader(mq.namesrv_addr, ranges=[(queues[0], 5, 60)]))


def test_offsets_that_a_compacted_topic_lacks_are_not_reported(mq, gone):
    with mq.admin() as admin:
        admin.delete_topic("flights")
        admin.create_topic("flights", queues=3, attributes={"+cleanup.policy": "COMPACTION"})
    (queue, *_) = fill(mq, 60)
    gone[queue] = 25
    assert read(QueueReader(mq.namesrv_addr, ranges=[(queue, 0, 60)])) == {queue: list(range(25, 60))}
