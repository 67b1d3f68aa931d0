# SPDX-License-Identifier: Apache-2.0
"""Our client against Apache's own servers, both generations: what it sends they store, what they hold it consumes, and refusals show."""

from __future__ import annotations

import time
from typing import Any

import pytest

import sprocketmq as rmq
from interop.peers import ApacheCluster, poll_until

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def _stored(admin: rmq.Admin, topic: str) -> int:
    if topic not in admin.topics():
        return 0
    return sum(offsets.max_offset for offsets in admin.topic_stats(topic).values())


def _consumer(apache: ApacheCluster, group: str, **options: Any) -> rmq.PushConsumer:
    return rmq.PushConsumer(group, namesrv_addr=apache.namesrv_addr, consume_from_where=FIRST, **options)


def test_every_form_of_sending_is_stored_and_consumed_with_retry_and_dead_letter(apache):
    topic, group = f"ours-{time.time_ns()}", f"ours-{time.time_ns()}"
    seen: list[rmq.MessageExt] = []
    consumer = _consumer(apache, group, max_reconsume_times=2)
    consumer.subscribe(topic)

    @consumer.on_message
    def handle(message: rmq.MessageExt) -> None:
        seen.append(message)
        if message.body == b"poison":
            raise ValueError("poison")

    with (
        rmq.Admin(namesrv_addr=apache.namesrv_addr) as admin,
        rmq.Producer("ours", namesrv_addr=apache.namesrv_addr) as producer,
    ):
        admin.create_topic(topic, queues=4)
        poison = producer.send(
            rmq.Message(topic, b"poison", tags="UA", keys="k", properties={"y": "1"}), sharding_key="N1"
        )
        producer.send_batch([rmq.Message(topic, b"%d" % number) for number in range(20)])
        producer.send(rmq.Message(topic, b"z" * 9_000))
        producer.send_oneway(rmq.Message(topic, b"oneway"))
        producer.send(rmq.Message(topic, b"later"), delay_level=1)
        with consumer:
            poll_until(lambda: len(seen) == 26 and _stored(admin, f"%DLQ%{group}") == 1, "all, and the dead letter")
            tries = [message for message in seen if message.body == b"poison"]
            assert [message.reconsume_times for message in tries] == [0, 1, 2]
            assert {message.message_id for message in tries} == {poison.message_id}
            assert {message.topic for message in tries} == {topic}
            assert tries[2].properties["y"] == "1"
            assert b"z" * 9_000 in [message.body for message in seen]
            assert admin.consumer_ids(group) == [consumer.client_id]
        poll_until(lambda: admin.lag(group, topic) == 0, "progress is written")


def test_orderly_consumption_keeps_order_locks_and_dead_letters(apache):
    topic, group = f"ours-{time.time_ns()}", f"ours-{time.time_ns()}"
    seen: list[str] = []
    consumer = _consumer(apache, group, max_reconsume_times=1, suspend_current_queue_time_ms=50)
    consumer.subscribe(topic)

    @consumer.orderly_listener
    def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        seen.append(messages[0].body.decode())
        if messages[0].body == b"A7":
            return rmq.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        return rmq.ConsumeOrderlyStatus.SUCCESS

    with (
        rmq.Admin(namesrv_addr=apache.namesrv_addr) as admin,
        rmq.Producer("ours", namesrv_addr=apache.namesrv_addr) as producer,
    ):
        admin.create_topic(topic, queues=4)
        for number in range(20):
            for key in "AB":
                producer.send(rmq.Message(topic, f"{key}{number}".encode()), sharding_key=key)
        with consumer:
            poll_until(lambda: len(seen) == 41 and _stored(admin, f"%DLQ%{group}") == 1, "all, and the dead letter")
        expected = [f"A{number}" for number in range(20)]
        expected.insert(7, "A7")
        assert [body for body in seen if body.startswith("A")] == expected
        assert [body for body in seen if body.startswith("B")] == [f"B{number}" for number in range(20)]


def test_tags_sql_and_polling_select_what_was_asked_for(apache):
    topic, group = f"ours-{time.time_ns()}", f"ours-{time.time_ns()}"
    seen: list[bytes] = []
    with (
        rmq.Admin(namesrv_addr=apache.namesrv_addr) as admin,
        rmq.Producer("ours", namesrv_addr=apache.namesrv_addr) as producer,
    ):
        admin.create_topic(topic, queues=2)
        for tag, year in (("UA", "2013"), ("DL", "2014"), ("AA", "2013")):
            producer.send(rmq.Message(topic, tag.encode(), tags=tag, properties={"year": year}))
        consumer = _consumer(apache, group)
        consumer.subscribe(topic, rmq.sql92("year = '2013'"))
        consumer.on_message(lambda message: seen.append(message.body))
        with consumer:
            poll_until(lambda: sorted(seen) == [b"AA", b"UA"], "what the condition selects")
        broken = _consumer(apache, f"{group}-broken")
        broken.subscribe(topic, rmq.sql92("year = = 1"))
        broken.on_message(print)
        with pytest.raises(rmq.RemoteError, match="code 23"):
            broken.start()
        with rmq.PullConsumer(f"{group}-poll", namesrv_addr=apache.namesrv_addr, consume_from_where=FIRST) as poller:
            poller.subscribe(topic, "DL")
            polled: list[bytes] = []
            poll_until(
                lambda: polled.extend(message.body for message in poller.poll(timeout_ms=1_000)) or polled == [b"DL"],
                "what the tag selects",
            )
