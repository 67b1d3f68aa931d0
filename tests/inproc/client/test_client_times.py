# SPDX-License-Identifier: Apache-2.0
"""Times that users give: milliseconds or datetimes; seconds, which would be 1970, and times of no zone are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

import pytest

import sprocketmq as rmq

QUEUE: Final = rmq.MessageQueue("flights", "broker-a", 0)


@pytest.mark.parametrize("how", ["send", "send_oneway", "send_async"])
def test_a_time_of_delivery_may_be_a_datetime_with_a_zone(rocketmq, producer, how):
    at = datetime.fromtimestamp(rocketmq.clock.now_ms() / 1000, UTC) + timedelta(seconds=9)
    elsewhere = at.astimezone(timezone(timedelta(hours=-8)))
    for when in (at, elsewhere):
        answer = getattr(producer, how)(rmq.Message("flights", b"x"), deliver_time_ms=when)
        if how == "send_async":
            answer.result(20)
    rocketmq.advance(8_000)
    assert rocketmq.messages("flights") == []
    rocketmq.advance_until(lambda: len(rocketmq.messages("flights")) == 2, step_ms=500, limit_ms=2_500)
    with pytest.raises(rmq.ConfigurationError, match=r"deliver_time_ms is datetime.* without a time zone"):
        producer.send(rmq.Message("flights", b"x"), deliver_time_ms=at.replace(tzinfo=None))


@pytest.mark.parametrize("how", ["send", "send_oneway", "send_async"])
def test_a_time_of_delivery_in_seconds_is_refused(rocketmq, how):
    sentence = (
        "^deliver_time_ms is 1700000000, which is 1970-01-20 in milliseconds since 1970; a time from 2001 on is allowed"
    )

    def send(producer: rmq.Producer) -> None:
        answer = getattr(producer, how)(rmq.Message("flights", b"x"), deliver_time_ms=1_700_000_000)
        answer.result(20)

    with rocketmq.producer("ops") as producer, pytest.raises(rmq.ConfigurationError, match=sentence):
        send(producer)
    assert rocketmq.messages("flights") == []


SECONDS: Final = 1_700_000_000
READS: dict[str, Callable[[rmq.Admin, rmq.PullConsumer, rmq.DeadLetters], object]] = {
    "timestamp_ms of offset_by_time": lambda admin, pull, letters: admin.offset_by_time(QUEUE, SECONDS),
    "timestamp_ms of a reset": lambda admin, pull, letters: admin.reset_offset_by_time("pull", "flights", SECONDS),
    "timestamp_ms of a pull consumer": lambda admin, pull, letters: pull.offset_for_timestamp(QUEUE, SECONDS),
    "begin_ms": lambda admin, pull, letters: admin.messages_by_key("flights", "k", begin_ms=SECONDS),
    "end_ms": lambda admin, pull, letters: admin.messages_by_key("flights", "k", end_ms=SECONDS),
    "end_ms of a trace": lambda admin, pull, letters: admin.message_trace("AB", trace_topic="flights", end_ms=SECONDS),
    "since_ms": lambda admin, pull, letters: list(letters.read(since_ms=SECONDS)),
    "until_ms": lambda admin, pull, letters: letters.replay_all(until_ms=SECONDS),
}


@pytest.mark.parametrize("what", READS)
def test_a_time_to_read_from_in_seconds_is_refused(rocketmq, what):
    """It would be January 1970: everything, or nothing."""
    with (
        rocketmq.admin() as admin,
        rocketmq.pull_consumer("pull") as pull,
        rmq.DeadLetters("pull", namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock) as letters,
    ):
        pull.subscribe("flights")
        with pytest.raises(rmq.ConfigurationError, match=rf"^{what.split()[0]} is {SECONDS}, which is 1970-01-20"):
            READS[what](admin, pull, letters)


def test_0_is_the_beginning_and_datetimes_are_taken_where_times_are_asked_for(rocketmq, producer):
    producer.send(rmq.Message("flights", b"x", keys="k"))
    later = datetime.now(UTC) + timedelta(days=1)
    with rocketmq.admin() as admin, rocketmq.pull_consumer("pull") as pull:
        pull.subscribe("flights")
        assert (admin.offset_by_time(QUEUE, 0), pull.offset_for_timestamp(QUEUE, 0)) == (0, 0)
        assert (admin.offset_by_time(QUEUE, later), pull.offset_for_timestamp(QUEUE, later)) == (1, 1)
        assert admin.offset_by_time(QUEUE, later.replace(tzinfo=None)) == 1, "local time, as Admin says"
        assert len(admin.messages_by_key("flights", "k", begin_ms=0)) == 1
