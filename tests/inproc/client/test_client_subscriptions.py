# SPDX-License-Identifier: Apache-2.0
"""What a group wants, said by several members and changed while it runs: nothing that matches is skipped for good."""

from __future__ import annotations

import pytest
from recorder import Recorder

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def _send(producer: rmq.Producer, tag: str, *bodies: str) -> None:
    for body in bodies:
        producer.send(rmq.Message("flights", body.encode(), tags=tag))


def _wanted(rocketmq: EmbeddedRocketMQ) -> str | None:
    """What the broker filters by."""
    group = rocketmq.broker.consumers.get("delays")
    subscription = None if group is None else group.subscriptions.get("flights")
    return None if subscription is None else subscription.sub_string


def _members(rocketmq: EmbeddedRocketMQ) -> int:
    group = rocketmq.broker.consumers.get("delays")
    return 0 if group is None else len(group.members)


@pytest.mark.parametrize("queues", [1, 2], ids=["the share stays", "the share changes"])
def test_the_narrower_filter_of_a_member_that_left_does_not_stay(rocketmq, producer, consumers, queues):
    rocketmq.create_topic("flights", queues=queues)
    recorder = Recorder()
    consumers(recorder, expression="A || B", instance_name="1")
    rocketmq.advance(5_000)
    other = consumers(Recorder(), expression="A", instance_name="2")
    rocketmq.advance_until(lambda: _members(rocketmq) == 2)
    rocketmq.advance(2_000)
    other.shutdown()
    # Before the next periodic heartbeat, 31 s after the start.
    rocketmq.advance_until(
        lambda: _members(rocketmq) == 1 and _wanted(rocketmq) == "A || B", limit_ms=15_000, patience_ms=200
    )
    _send(producer, "B", *(str(n) for n in range(2 * queues)))
    rocketmq.advance_until(lambda: len(recorder) == 2 * queues)


def test_a_batch_wakes_a_pull_that_waits_for_one_of_its_tags(rocketmq, producer, consumers):
    recorder = Recorder()
    consumers(recorder, expression="C")
    for number, tags in enumerate(("AC", "CB", "ACB")):
        rocketmq.wait_until(lambda: rocketmq.broker.parked.waiting("flights", 0))
        producer.send_batch([rmq.Message("flights", f"{number}".encode(), tags=tag) for tag in tags])
        rocketmq.wait_until(
            lambda number=number: len(recorder) == number + 1
        )  # no clock goes on: nothing else ends the pull
    assert recorder.bodies == ["0", "1", "2"]


def test_a_new_filter_holds_at_once_for_what_comes_though_the_clock_stands_still(rocketmq, producer, consumers):
    recorder = Recorder()
    consumer = consumers(recorder, expression="A")
    rocketmq.wait_until(lambda: len(consumer.assigned_queues) == 2 and len(rocketmq.broker.parked) == 2)
    for number, tag in enumerate("BCAB"):
        consumer.subscribe("flights", tag)
        rocketmq.wait_until(lambda tag=tag: _wanted(rocketmq) == tag)
        _send(producer, tag, f"{tag}{number}")
        rocketmq.wait_until(lambda number=number: len(recorder) == number + 1)
    assert recorder.bodies == ["B0", "C1", "A2", "B3"]


def test_a_filter_that_is_changed_under_load_skips_nothing_that_matches_both(rocketmq, producer, consumers):
    rocketmq.create_topic("flights", queues=2)
    recorder = Recorder()
    consumer = consumers(recorder, expression="A")
    for number in range(40):
        _send(producer, "A", f"A{number}")
        _send(producer, "C", f"C{number}")
        consumer.subscribe("flights", "A || B" if number % 2 else "A")
    rocketmq.advance_until(lambda: len(recorder) >= 40)
    assert sorted(recorder.bodies, key=lambda body: int(body[1:])) == [f"A{number}" for number in range(40)]


def test_a_pull_consumer_gets_what_its_new_filter_wants(rocketmq, producer):
    with rocketmq.pull_consumer("delays", consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights", "A")
        rocketmq.wait_until(lambda: len(rocketmq.broker.parked) == 1)
        consumer.subscribe("flights", "B")
        _send(producer, "B", "b")
        assert [message.body for message in consumer.poll(timeout_ms=10_000)] == [b"b"]
