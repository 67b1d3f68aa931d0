"""Consuming by poll: shared and assigned queues, commit and auto commit, seek."""

from __future__ import annotations

import pytest
from recorder import send_all

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
QUEUE = rmq.MessageQueue("flights", "broker-a", 0)


def _poll_all(consumer: rmq.PullConsumer, count: int) -> list[str]:
    bodies: list[str] = []
    while len(bodies) < count:
        messages = consumer.poll(timeout_ms=5_000)
        assert messages, f"only {len(bodies)} of {count} messages came"
        bodies += [message.body.decode() for message in messages]
    return bodies


def test_poll_gives_every_message_once_and_the_next_poll_commits(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer
) -> None:
    rocketmq.create_topic("flights", queues=2)
    send_all(producer, [str(n) for n in range(50)])
    with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights")
        assert sorted(_poll_all(consumer, 50), key=int) == [str(n) for n in range(50)]
        assert consumer.poll(timeout_ms=10) == []
    assert rocketmq.consumer_offset("backfill", "flights") == {0: 25, 1: 25}


def test_without_auto_commit_nothing_is_done_until_commit(rocketmq: EmbeddedRocketMQ, producer: rmq.Producer) -> None:
    rocketmq.create_topic("flights", queues=1)
    send_all(producer, ["0", "1", "2"])
    with rocketmq.pull_consumer("backfill", auto_commit=False, consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights")
        assert _poll_all(consumer, 3) == ["0", "1", "2"]
    with rocketmq.pull_consumer("backfill", auto_commit=False, consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights")
        assert _poll_all(consumer, 3) == ["0", "1", "2"]
        consumer.commit()
        assert consumer.committed(QUEUE) == 3


def test_assigned_queues_are_read_whatever_the_group_does(rocketmq: EmbeddedRocketMQ, producer: rmq.Producer) -> None:
    rocketmq.create_topic("flights", queues=2)
    for n in range(6):
        producer.send(rmq.Message("flights", str(n).encode()), queue=rmq.MessageQueue("flights", "broker-a", n % 2))
    with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as consumer:
        consumer.assign([QUEUE])
        assert consumer.assigned_queues == [QUEUE]
        assert _poll_all(consumer, 3) == ["0", "2", "4"]
        with pytest.raises(rmq.ConfigurationError, match="either subscribes or is assigned"):
            consumer.subscribe("flights")


def test_seek_goes_on_elsewhere(rocketmq: EmbeddedRocketMQ, producer: rmq.Producer) -> None:
    rocketmq.create_topic("flights", queues=1)
    send_all(producer, ["0", "1", "2", "3"])
    with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as consumer:
        consumer.assign([QUEUE])
        assert _poll_all(consumer, 4) == ["0", "1", "2", "3"]
        consumer.seek(QUEUE, 2)
        assert _poll_all(consumer, 2) == ["2", "3"]
        consumer.seek_to_begin(QUEUE)
        assert _poll_all(consumer, 4) == ["0", "1", "2", "3"]
        consumer.seek_to_end(QUEUE)
        send_all(producer, ["4"])
        assert _poll_all(consumer, 1) == ["4"]
        with pytest.raises(rmq.ConfigurationError, match="is not read by this consumer"):
            consumer.seek(rmq.MessageQueue("flights", "broker-a", 7), 0)


def test_poll_filters_by_tag(rocketmq: EmbeddedRocketMQ, producer: rmq.Producer) -> None:
    rocketmq.create_topic("flights", queues=1)
    for tag in ("UA", "DL", "AA", "UA"):
        producer.send(rmq.Message("flights", tag.encode(), tags=tag))
    with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights", "UA || AA")
        assert _poll_all(consumer, 3) == ["UA", "AA", "UA"]
