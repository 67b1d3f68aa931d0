# SPDX-License-Identifier: Apache-2.0
"""Retry and delay: CONSUMER_SEND_MSG_BACK, delay levels, retry and dead letter topics, to the millisecond of the manual clock."""

from __future__ import annotations

import pytest

from sprocketmq.wire import requests
from sprocketmq.wire.bodies import LockBatchRequestBody, SubscriptionGroupConfig
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageQueue


def only(messages):
    (message,) = messages
    return message


def test_a_delayed_message_comes_at_its_time_and_not_before(cluster, client):
    client.send("flights", b"later", queue_id=3, tags="UA", delay_level=3)
    assert client.messages("flights", 3) == []
    cluster.clock.advance(9_999)
    assert client.messages("flights", 3) == []
    cluster.clock.advance(1)
    message = only(client.messages("flights", 3))
    assert (message.body, message.tags, message.message_id) == (b"later", "UA", "key-later")
    assert message.store_timestamp_ms == cluster.clock.now_ms()
    assert (message.properties[props.REAL_TOPIC], message.properties[props.REAL_QID]) == ("flights", "3")
    assert message.properties[props.DELAY] == "3"


def test_levels_do_not_wait_for_each_other_and_each_keeps_its_order(cluster, client):
    client.send("flights", b"slow", delay_level=4)
    for n in range(100):
        client.send("flights", b"%d" % n, delay_level=1)
    cluster.clock.advance(1_000)
    assert client.bodies() == [b"%d" % n for n in range(100)]
    cluster.clock.advance(29_000)
    assert client.messages("flights")[-1].body == b"slow"


def test_an_idle_broker_has_no_delay_timer(cluster, client):
    client.send("flights", b"x", delay_level=1)
    assert cluster.on_loop(lambda: len(cluster.broker.schedule._timers)) == 1
    cluster.clock.advance(1_000)
    assert cluster.on_loop(lambda: len(cluster.broker.schedule._timers)) == 0
    assert len(client.messages("flights")) == 1


def test_each_retry_waits_for_the_next_level_and_remembers_the_first_message(cluster, client):
    client.send("flights", b"bad")
    message = first = only(client.messages("flights"))
    for times, wait_ms in enumerate((10_000, 30_000, 60_000, 120_000), start=1):
        # The stored message says where it came from; what the request says does not count, as in Java.
        assert client.send_back(message, "delays", origin_topic="weather").code == 0
        cluster.clock.advance(wait_ms - 1)
        assert len(client.messages("%RETRY%delays")) == times - 1
        cluster.clock.advance(1)
        message = client.messages("%RETRY%delays")[-1]
        assert message.reconsume_times == times
        assert message.properties[props.ORIGIN_MESSAGE_ID] == first.offset_message_id
        assert message.properties[props.RETRY_TOPIC] == "flights"
        assert (message.born_timestamp_ms, message.born_host) == (first.born_timestamp_ms, first.born_host)


def test_after_the_last_retry_comes_the_dead_letter_topic(cluster, client):
    client.send("flights", b"bad")
    message = only(client.messages("flights"))
    for _ in range(2):
        client.send_back(message, "delays", delay_level=1, max_reconsume_times=2)
        cluster.clock.advance(1_000)
        message = client.messages("%RETRY%delays")[-1]
    assert message.reconsume_times == 2
    client.send_back(message, "delays", delay_level=1, max_reconsume_times=2)
    dead = only(client.messages("%DLQ%delays"))
    assert (dead.body, dead.message_id, dead.properties[props.RETRY_TOPIC]) == (b"bad", "key-bad", "flights")
    assert dead.properties[props.DELAY] == "0", "not the level of its last retry (AbstractSendMessageProcessor)"
    cluster.clock.advance(7_200_000)
    assert len(client.messages("%RETRY%delays")) == 2


def test_without_a_limit_in_the_request_that_of_the_group_counts(cluster, client):
    group = SubscriptionGroupConfig(group_name="delays", retry_max_times=1)
    assert client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode()).code == 0
    client.send("flights", b"bad")
    client.send_back(only(client.messages("flights")), "delays", delay_level=1)
    cluster.clock.advance(1_000)
    assert client.messages("%DLQ%delays") == []
    client.send_back(only(client.messages("%RETRY%delays")), "delays", delay_level=1)
    assert only(client.messages("%DLQ%delays")).body == b"bad"


def test_an_old_client_cannot_set_the_limit(cluster, client):
    client.send("flights", b"bad")
    header_fields = {"max_reconsume_times": 0}
    message = only(client.messages("flights"))
    from sprocketmq.wire.headers import ConsumerSendMsgBackRequestHeader

    header = ConsumerSendMsgBackRequestHeader(message.commit_log_offset, "delays", 1, **header_fields)
    client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header, version=120)
    cluster.clock.advance(1_000)
    assert len(client.messages("%RETRY%delays")) == 1


def test_a_made_up_commit_log_offset_is_refused(client):
    client.send("flights", b"x")
    message = only(client.messages("flights"))
    for offset in (3, 10_000_000, -5):
        message.commit_log_offset = offset
        answer = client.send_back(message, "delays")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert str(offset) in answer.remark


@pytest.mark.parametrize("cluster", [{"auto_create_subscription_group": False}], indirect=True)
def test_an_unknown_group_cannot_send_back(client):
    client.send("flights", b"x")
    message = client.messages("flights", group="TOOLS_CONSUMER")[0]
    assert client.send_back(message, "delays").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_compressed_body_stays_compressed_on_its_way_back(cluster, client):
    import zlib

    packed = zlib.compress(b"x" * 5000)
    client.do(requests.messages.SEND_MESSAGE_V2, "pg", "flights", "TBW102", 4, 0, 1, 9, 0, body=packed)
    client.send_back(only(client.messages("flights")), "delays", delay_level=1)
    cluster.clock.advance(1_000)
    assert packed in bytes(client.pull("g", "%RETRY%delays").body)
    assert only(client.messages("%RETRY%delays")).body == b"x" * 5000


def test_a_clients_own_send_to_the_retry_topic_is_kept_within_the_limit(cluster, client):
    client.send("%RETRY%delays", b"fallback", reconsume_times=16, delay_level=1)
    cluster.clock.advance(1_000)
    assert only(client.messages("%RETRY%delays")).reconsume_times == 16
    client.send("%RETRY%delays", b"once too often", reconsume_times=17, delay_level=1)
    assert only(client.messages("%DLQ%delays")).body == b"once too often"
    client.send("%RETRY%delays", b"limit of the client", reconsume_times=3, max_reconsume_times=2)
    assert len(client.messages("%DLQ%delays")) == 2


def test_an_orderly_group_dead_letters_what_it_sends_to_its_retry_topic(cluster, client):
    queue = MessageQueue("flights", "broker-a", 0)
    lock = LockBatchRequestBody(consumer_group="delays", client_id="c1", mq_set=[queue])
    client.ask(RequestCode.LOCK_BATCH_MQ, body=lock.encode())
    client.send("%RETRY%delays", b"gave up", reconsume_times=3, delay_level=2)
    assert only(client.messages("%DLQ%delays")).body == b"gave up"
    cluster.clock.advance(60_001)
    client.send("%RETRY%delays", b"locks expired", reconsume_times=3)
    assert only(client.messages("%RETRY%delays")).body == b"locks expired"
