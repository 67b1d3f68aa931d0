# SPDX-License-Identifier: Apache-2.0
"""What administrators and tools ask."""

from __future__ import annotations

import pytest

from sprocketmq.wire import requests
from sprocketmq.wire.bodies import ConsumeStats
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue


def create(client, topic: str, read: int = 3, write: int = 2, perm: int = 6):
    return client.create_topic(topic, read, write_queue_nums=write, perm=perm)


@pytest.mark.parametrize(
    ("topic", "read", "perm"), [("bad topic", 1, 6), ("TBW102", 1, 6), ("flights", -1, 6), ("flights", 1, 99)]
)
def test_invalid_topics_are_refused(client, topic, read, perm):
    answer = create(client, topic, read, 1, perm)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark


def test_system_topics_are_not_deleted(client):
    assert client.delete_topic("SCHEDULE_TOPIC_XXXX").code == ResponseCode.INVALID_PARAMETER


def test_topic_stats_give_the_range_of_each_queue(cluster, client):
    create(client, "flights")
    client.send("flights", queue_id=1)
    stored_at = cluster.clock.now_ms()
    table = client.get(requests.topics.GET_TOPIC_STATS_INFO, "flights").offset_table
    assert len(table) == 3
    first, second = (table[MessageQueue("flights", "broker-a", number)] for number in (0, 1))
    assert (first.min_offset, first.max_offset, first.last_update_timestamp) == (0, 0, 0)
    assert (second.min_offset, second.max_offset, second.last_update_timestamp) == (0, 1, stored_at)
    missing = client.do(requests.topics.GET_TOPIC_STATS_INFO, "nowhere")
    assert missing.code == ResponseCode.TOPIC_NOT_EXIST


def test_consume_stats_have_the_offsets_from_which_lag_is_computed(client):
    create(client, "flights")
    for _ in range(5):
        client.send("flights")
    client.pull("g", "flights", 0, 0, max_messages=4)
    client.commit("g", "flights", 0, 3)
    table = client.get(requests.offsets.GET_CONSUME_STATS, "g").offset_table
    assert set(table) == {MessageQueue("flights", "broker-a", number) for number in range(3)}
    first = table[MessageQueue("flights", "broker-a", 0)]
    assert (first.broker_offset, first.consumer_offset, first.pull_offset) == (5, 3, 4)
    assert first.last_timestamp > 0
    nobody = client.do(requests.offsets.GET_CONSUME_STATS, "nobody")
    assert (nobody.code, ConsumeStats.decode(nobody.body).offset_table) == (0, {})


def test_consume_stats_leave_out_what_an_online_group_no_longer_subscribes_to(client):
    for topic in ("flights", "delays"):
        create(client, topic)
        client.send(topic)
        client.pull("g", topic, 0, 0, commit_offset=1)
    client.heartbeat("c1", group="g", topics={"delays": "*"})

    def topics(**named: str) -> set[str]:
        return {queue.topic for queue in client.get(requests.offsets.GET_CONSUME_STATS, "g", **named).offset_table}

    assert topics() == {"delays"}
    assert topics(topic="flights") == set()
    assert topics(topic_list="flights;nowhere;") == {"flights"}


def test_runtime_info_has_the_keys_that_mqadmin_takes_for_granted(cluster, client):
    client.send("flights", delay_level=2)
    client.send("flights")
    cluster.clock.advance(1_000)
    table = client.get(requests.brokers.GET_BROKER_RUNTIME_INFO).table
    assert table["msgPutTotalTodayNow"] == "1"
    assert table["scheduleMessageOffset_2"] == "0,1"
    assert len(table["putTps"].split(" ")) == 3
    for key in ("brokerVersionDesc", "getTransferedTps", "sendThreadPoolQueueSize", "earliestMessageTimeStamp"):
        assert table[key]


def test_the_put_rate_is_that_of_the_last_seconds(cluster, client):
    cluster.clock.advance(10_000)
    for _ in range(50):
        client.send("flights")
    cluster.clock.advance(10_000)
    table = client.get(requests.brokers.GET_BROKER_RUNTIME_INFO).table
    assert table["putTps"].split(" ")[0] == "5.00"
