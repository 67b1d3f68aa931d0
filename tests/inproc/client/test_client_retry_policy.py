# SPDX-License-Identifier: Apache-2.0
"""Retry delays by the group's policy on the broker: followed, asked for once, and never in the way of a send-back."""

from __future__ import annotations

from typing import Any

import pytest
from recorder import Recorder, send_all, waits_ms

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode

EVERY_MINUTE = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 60_000, "max": 120_000, "multiplier": 2}}


def _fail(message: rmq.MessageExt) -> None:
    raise ValueError("no")


def _set_policy(rocketmq: EmbeddedRocketMQ, policy: dict[str, Any]) -> None:
    with rocketmq.admin() as admin:
        admin.create_group("delays", group_retry_policy=policy)


def _levels(rocketmq: EmbeddedRocketMQ) -> list[int]:
    return [message.delay_level for message in rocketmq.messages("SCHEDULE_TOPIC_XXXX")]


def test_the_policy_of_the_group_chooses_the_waits(rocketmq, producer, consumers):
    _set_policy(rocketmq, EVERY_MINUTE)
    recorder = Recorder(_fail)
    consumers(recorder)
    send_all(producer, ["x"])
    rocketmq.wait_until(lambda: _levels(rocketmq) == [5])
    rocketmq.advance_until(lambda: len(recorder) == 3)
    assert sorted(_levels(rocketmq))[:2] == [5, 6]
    assert waits_ms(rocketmq) == [60_000, 120_000]


def test_a_listeners_own_choice_wins_and_the_option_switches_it_off(rocketmq, producer, consumers):
    _set_policy(rocketmq, EVERY_MINUTE)

    def chooses(message: rmq.MessageExt) -> None:
        raise rmq.RetryLater(delay_level=2)

    consumer = consumers(chooses)
    send_all(producer, ["x"])
    rocketmq.wait_until(lambda: _levels(rocketmq) == [2])
    consumer.shutdown()
    consumers(Recorder(_fail), follow_group_retry_policy=False)
    send_all(producer, ["y"])
    rocketmq.wait_until(lambda: sorted(_levels(rocketmq)) == [2, 3])


def test_many_failures_ask_once_a_minute_and_a_changed_policy_is_seen_then(rocketmq, producer, consumers):
    asked = rocketmq.faults.delay(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, 0, times=None)
    consumers(Recorder(lambda message: None if message.reconsume_times else _fail(message)))
    send_all(producer, [str(n) for n in range(20)])
    rocketmq.advance_until(lambda: len(_levels(rocketmq)) == 20, step_ms=1)
    assert (_levels(rocketmq), asked.hits) == ([3] * 20, 1)
    _set_policy(rocketmq, EVERY_MINUTE)
    rocketmq.advance(60_000)
    send_all(producer, ["x"])
    rocketmq.advance_until(lambda: len(_levels(rocketmq)) == 21, step_ms=1)
    assert (_levels(rocketmq).count(5), asked.hits) == (1, 2)


@pytest.mark.parametrize("code", [ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.NO_PERMISSION])
def test_without_a_policy_from_the_broker_the_schedule_chooses_the_waits(rocketmq, producer, consumers, code):
    rocketmq.faults.fail(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, code, times=None)
    consumers(Recorder(_fail))
    send_all(producer, ["x"])
    rocketmq.wait_until(lambda: _levels(rocketmq) == [3])
