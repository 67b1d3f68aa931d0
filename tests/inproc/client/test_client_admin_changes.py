# SPDX-License-Identifier: Apache-2.0
"""What Admin changes in part, sees at a glance, and reads on: alter_topic, alter_group, topic_summaries, read_onward, purge."""

from __future__ import annotations

import pytest

import sprocketmq as rmq


def test_a_topic_is_altered_in_what_is_named(admin):
    admin.create_topic("flights", queues=4, order=True, attributes={"+message.type": "FIFO"})
    (changed,) = admin.alter_topic("flights", write_queues=2).values()
    assert (changed.read_queue_nums, changed.write_queue_nums, changed.perm, changed.order) == (4, 2, 6, True)
    admin.alter_topic("flights", perm=4, broker="broker-a")
    now = admin.topic_config("flights")["broker-a"]
    assert (now.read_queue_nums, now.write_queue_nums, now.perm, now.order) == (4, 2, 4, True)
    assert now.attributes == {"message.type": "FIFO"}
    for wrong in ({"write_queues": 0}, {"perm": 8}, {"read_queues": 70_000}):
        with pytest.raises(rmq.ConfigurationError):
            admin.alter_topic("flights", **wrong)
    with pytest.raises(rmq.TopicNotExist):
        admin.alter_topic("nowhere", perm=6)


def test_a_group_is_altered_in_what_is_named(admin):
    admin.create_group("delays", retry_max_times=3, consume_broadcast_enable=False)
    (changed,) = admin.alter_group("delays", consume_enable=False).values()
    assert (changed.consume_enable, changed.retry_max_times, changed.consume_broadcast_enable) == (False, 3, False)
    assert admin.group_config("delays")["broker-a"] == changed
    with pytest.raises(rmq.ConfigurationError, match="no such setting"):
        admin.alter_group("delays", retries=3)  # type: ignore[call-arg]
    with pytest.raises(rmq.RemoteError, match="no broker knows the consumer group 'nobody'"):
        admin.alter_group("nobody", consume_enable=False)


def test_topics_at_a_glance_without_those_of_brokers_and_groups(rocketmq, producer, admin):
    admin.create_topic("flights", queues=2)
    admin.create_topic("empty", queues=1, perm=4)
    admin.create_topic("%RETRY%delays", queues=1)
    for number in range(3):
        producer.send(rmq.Message("flights", b"%d" % number))
    empty, flights = admin.topic_summaries()
    assert (flights.topic, flights.brokers, flights.read_queues, flights.messages) == ("flights", ("broker-a",), 2, 3)
    assert flights.last_message_ms == max(one.store_timestamp_ms for one in rocketmq.messages("flights"))
    assert (empty.topic, empty.perm, empty.messages, empty.last_message_ms) == ("empty", 4, 0, None)
    every = {one.topic for one in admin.topic_summaries(with_system_topics=True, cluster="DefaultCluster")}
    assert {"flights", "%RETRY%delays", "TBW102", "SCHEDULE_TOPIC_XXXX"} <= every


def test_reading_on_gives_each_message_once_and_moves_past_what_a_filter_leaves_out(rocketmq, producer, admin):
    admin.create_topic("flights", queues=2)
    positions = dict.fromkeys(admin.queues("flights"), 0)
    found, positions = admin.read_onward(positions)
    assert found == []
    for number in range(40):
        producer.send(rmq.Message("flights", b"%d" % number, tags="UA" if number % 4 else "DL"))
        rocketmq.advance(1)
    seen: list[int] = []
    for _ in range(5):
        found, positions = admin.read_onward(positions, max_messages=8, expression="DL")
        seen += [int(one.body) for one in found]
    assert seen == list(range(0, 40, 4))
    assert sorted(positions.values()) == [20, 20]


def test_dead_letters_are_forgotten_together(rocketmq, admin):
    with rmq.DeadLetters("delays", namesrv_addr=rocketmq.namesrv_addr) as letters:
        with pytest.raises(rmq.GroupNotExist):
            letters.purge()
        admin.create_group("delays")
        assert letters.purge() == 0
        admin.create_topic("%DLQ%delays", queues=1)
        with rocketmq.producer() as producer:
            for number in range(3):
                producer.send(rmq.Message("%DLQ%delays", b"%d" % number))
        assert letters.purge() == 3
        assert "%DLQ%delays" not in admin.topics()
        assert letters.count() == 0
        assert list(letters.read()) == []


def test_a_broker_says_whether_it_speaks_5x(rocketmq, admin):
    assert admin.speaks_5x("broker-a")
    assert admin.speaks_5x(rocketmq.broker_addr)
    with pytest.raises(rmq.ConfigurationError, match="broker 'broker-z' is unknown"):
        admin.speaks_5x("broker-z")
