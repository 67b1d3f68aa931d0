# SPDX-License-Identifier: Apache-2.0
"""What a group wants, said by several members and changed while it runs: nothing that matches is skipped for good."""

from __future__ import annotations

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
