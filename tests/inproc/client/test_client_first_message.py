# SPDX-License-Identifier: Apache-2.0
"""A group that has not finished its first message has no progress at any broker. Its lag is what its members hold, not 0."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from recorder import HELD_S, QUEUE, send_all

import sprocketmq as rmq
from cli_run import CommandLine
from sprocketmq.client.consume.rebalancer import Rebalancer
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
NEWEST = rmq.ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_the_list_of_groups_has_those_without_a_retry_topic(rocketmq, admin, producer):
    send_all(producer, ["0", "1", "2"])
    with rmq.PullConsumer("delays", namesrv_addr=rocketmq.namesrv_addr) as consumer:
        consumer.assign([QUEUE])
        consumer.seek(QUEUE, 1)
        consumer.commit()
    admin.create_group("new")
    admin.delete_topic("%RETRY%delays")
    assert {one.group: one.lag for one in admin.group_summaries()} == {"delays": 2, "new": None}


def test_a_group_that_began_at_the_end_owes_nothing_of_what_was_there_before(
    rocketmq, admin, producer, consumers, release
):
    send_all(producer, ["old"] * 5)
    # A broker says 0 while the oldest message of the queue is in memory (ConsumerManageProcessor.queryConsumerOffset).
    rocketmq.faults.fail(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.QUERY_NOT_FOUND, times=None)
    consumer = consumers(lambda message: release.wait(HELD_S) and None, consume_from_where=NEWEST)
    rocketmq.wait_until(lambda: consumer.assigned_queues)
    assert admin.lag("delays") == 0
    send_all(producer, ["new"] * 2)
    rocketmq.advance_until(lambda: admin.lag("delays") == 2)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_where_members_of_java_began_is_asked_of_them_when_the_broker_has_not_seen_it(
    tmp_path, monkeypatch, release, is_restarted
):
    """They tell the broker where they began only when their first message is done; ours do with their first pull."""
    start_offset = Rebalancer.start_offset

    async def as_in_java(self: Rebalancer, queue: rmq.MessageQueue) -> int | None:
        found = await start_offset(self, queue)
        self._consumer.offset_store.progress.remove(queue)
        return found

    monkeypatch.setattr(Rebalancer, "start_offset", as_in_java)
    with EmbeddedRocketMQ(store_dir=tmp_path) as mq, mq.producer("ops") as producer, mq.admin() as admin:
        mq.create_topic("flights", queues=1)
        send_all(producer, ["old"] * 5)
        mq.broker.memory_span_bytes = -1  # else a broker says 0 to a new group
        consumer = mq.push_consumer("delays", consume_from_where=NEWEST)
        consumer.subscribe("flights")
        consumer.on_message(lambda message: release.wait(HELD_S) and None)
        with consumer:
            mq.wait_until(lambda: consumer.assigned_queues)
            send_all(producer, ["new"] * 3)
            mq.advance_until(lambda: len(mq.broker.parked) == 2)  # the messages are at the member, the next pull waits
            if is_restarted:
                mq.restart_broker()
                mq.broker.memory_span_bytes = -1
                mq.advance_until(lambda: len(mq.broker.parked) == 2)
            assert mq.consumer_offset("delays", "flights") == {}
            assert admin.lag("delays") == 3
            assert [one.lag for one in admin.group_summaries()] == [3]
            mq.faults.fail(RequestCode.GET_CONSUMER_RUNNING_INFO, ResponseCode.SYSTEM_ERROR, times=None)
            if is_restarted:  # nobody knows
                with pytest.raises(rmq.RemoteError):
                    admin.lag("delays")
                assert [one.lag for one in admin.group_summaries()] == [None]
                line = CommandLine(mq.namesrv_addr)
                assert line.run("lag delays --fail-over 9").code == 1
                assert {row["group"]: row["lag"] for row in line.ok("lag --all --json").json} == {"delays": None}
                assert line.run("lag --all --fail-over 9").code == 1
                diagnosis = admin.diagnose_group("delays", watch_ms=0)
                assert not diagnosis.verdict.is_well
                assert any("how far the group is" in sentence for sentence in diagnosis.not_learned)
                assert [row["group"] for row in line.run("doctor --all --watch-for 0ms --json").json] == ["delays"]
            else:
                assert admin.lag("delays") == 3
            release.set()


@pytest.mark.parametrize("is_assigned", [True, False])
def test_what_a_pull_consumer_has_not_committed_waits(rocketmq, producer, is_assigned):
    rocketmq.broker.memory_span_bytes = -1  # the broker has no offset for it
    send_all(producer, ["0", "1", "2"])
    consumer = rocketmq.pull_consumer("delays", auto_commit=False, poll_timeout_ms=0, consume_from_where=FIRST)
    polled: list[rmq.MessageExt] = []
    with consumer, rocketmq.admin() as admin:
        if is_assigned:  # announces no topic
            consumer.assign([rmq.MessageQueue("flights", "broker-a", 0)])
        else:
            consumer.subscribe("flights")
        rocketmq.advance_until(lambda: polled.extend(consumer.poll()) or len(polled) == 3)
        assert admin.lag("delays") == admin.lag("delays", "flights") == 3
        assert [one.lag for one in admin.group_summaries()] == [3]
        consumer.commit()
        assert admin.lag("delays") == 0


def test_who_broadcasts_owes_nothing_to_brokers(rocketmq, admin, producer, consumers, release, tmp_path):
    send_all(producer, ["0"])
    begun = threading.Event()
    consumers(
        lambda message: begun.set() or (release.wait(HELD_S) and None),
        message_model=rmq.MessageModel.BROADCASTING,
        local_offset_store_dir=str(tmp_path),
    )
    rocketmq.advance_until(begun.is_set)
    assert admin.lag("delays") == 0
