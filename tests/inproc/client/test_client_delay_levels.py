# SPDX-License-Identifier: Apache-2.0
"""Delay levels that no broker has: it would take its highest one and say nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from recorder import Recorder, send_all

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

SENDS: dict[str, Callable[[Any, int], Any]] = {
    "an argument": lambda producer, level: producer.send(rmq.Message("flights", b"x"), delay_level=level),
    "the message": lambda producer, level: producer.send(rmq.Message("flights", b"x", delay_level=level)),
    "oneway": lambda producer, level: producer.send_oneway(rmq.Message("flights", b"x"), delay_level=level),
    "a future": lambda producer, level: producer.send_async(rmq.Message("flights", b"x"), delay_level=level).result(20),
}


def _levels(rocketmq: EmbeddedRocketMQ) -> list[int]:
    return [message.delay_level for message in rocketmq.messages("SCHEDULE_TOPIC_XXXX")]


@pytest.mark.parametrize("how", SENDS)
def test_a_level_that_brokers_do_not_have_is_refused(rocketmq, producer, how):
    for level in (19, 99):
        with pytest.raises(
            rmq.ConfigurationError,
            match=rf"^delay_level is {level}, a whole number from 0 to 18 is allowed; .*\(messageDelayLevel\), give max_delay_level$",
        ):
            SENDS[how](producer, level)
    SENDS[how](producer, 18)
    rocketmq.wait_until(lambda: _levels(rocketmq) == [18])
    assert rocketmq.messages("flights") == []


def test_a_message_is_delayed_in_one_way(producer):
    delayed = rmq.Message("flights", b"x", delay_level=3)
    for how in ({"delay_ms": 1_000}, {"deliver_time_ms": 1_900_000_000_000}):
        with pytest.raises(rmq.ConfigurationError, match="^more than one of delay_level, delay_ms and deliver_time_ms"):
            producer.send(delayed, **how)  # type: ignore[arg-type]


@pytest.mark.rocketmq(messageDelayLevel="1s 2s 3s " * 7)
def test_brokers_may_have_more_levels(rocketmq):
    with rocketmq.producer("ops", max_delay_level=21) as producer:
        producer.send(rmq.Message("flights", b"x"), delay_level=21)
        with pytest.raises(rmq.ConfigurationError, match="^delay_level is 22, a whole number from 0 to 21 is"):
            producer.send(rmq.Message("flights", b"x"), delay_level=22)
    assert _levels(rocketmq) == [21]


def test_a_too_high_level_that_a_listener_asks_for_is_logged_once(rocketmq, producer, consumers, caplog):

    def fail(message: rmq.MessageExt) -> None:
        raise rmq.RetryLater(delay_level=99 if message.body.startswith(b"late") else 18)

    with caplog.at_level(logging.ERROR):
        consumers(Recorder(fail))
        send_all(producer, ["good"])
        rocketmq.wait_until(lambda: _levels(rocketmq) == [18])
        assert not caplog.records
        send_all(producer, ["late 1", "late 2"])
        rocketmq.wait_until(lambda: _levels(rocketmq) == [18, 18, 18])
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith(
        "group delays: the listener asked for delay level 99, 1 to 18 is allowed, so the broker takes"
    )
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        consumers(Recorder(fail), group="more", max_delay_level=100)
        rocketmq.wait_until(lambda: len(_levels(rocketmq)) == 6)
    assert not caplog.records
