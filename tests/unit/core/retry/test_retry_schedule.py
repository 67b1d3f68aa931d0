# SPDX-License-Identifier: Apache-2.0
"""core.retry_schedule: levels, names and the decision between retry and dead letter."""

from __future__ import annotations

import pytest

from sprocketmq.core.retry.retry_schedule import (
    DelayLevels,
    ToDeadLetterQueue,
    ToRetryTopic,
    decide_send_back,
    delay_level_of_queue,
    max_reconsume_times,
    queue_of_delay_level,
)
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.bodies import SubscriptionGroupConfig

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000


def test_the_default_levels_are_javas():
    levels = DelayLevels.parse()
    assert levels.max_level == 18
    expected = [1, 5, 10, 30, *(minutes * 60 for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120))]
    assert [levels.delay_ms(level) for level in range(1, 19)] == [seconds * 1000 for seconds in expected]


def test_sixteen_retries_wait_almost_4_hours_and_46_minutes_in_sum():
    levels, times, waited_ms = DelayLevels.parse(), 0, 0
    limit = max_reconsume_times(-1)
    assert limit == SubscriptionGroupConfig().retry_max_times  # the broker's default, for clients that send no limit
    while isinstance(decision := decide_send_back(times, limit), ToRetryTopic):
        waited_ms += levels.delay_ms(decision.delay_level)
        times = decision.reconsume_times
    assert decision == ToDeadLetterQueue(17)
    assert times == 16
    assert waited_ms == 4 * HOUR + 45 * MINUTE + 40 * SECOND


def test_all_units_are_read():
    assert DelayLevels.parse("2s 3m 4h 5d").delays_ms == (2 * SECOND, 3 * MINUTE, 4 * HOUR, 120 * HOUR)


@pytest.mark.parametrize("text", ["", "  ", "1", "1s x", "1ms", "s", "-1s", "1.5s"])
def test_nonsense_levels_are_refused(text):
    with pytest.raises(ConfigurationError, match="messageDelayLevel"):
        DelayLevels.parse(text)


def test_a_level_too_high_is_the_highest_and_0_is_at_once():
    levels = DelayLevels.parse("1s 2s")
    assert [levels.clamp(level) for level in (-1, 0, 1, 2, 3, 99)] == [0, 0, 1, 2, 2, 2]
    assert [levels.delay_ms(level) for level in (0, 2, 99)] == [0, 2000, 2000]
    assert levels.due_ms(99, 50) == 2050


def test_nothing_is_due_later_than_after_its_level():
    levels = DelayLevels.parse("1s 10s")
    assert levels.latest_due_ms(2, now_ms=5_000) == 15_000
    assert levels.latest_due_ms(99, now_ms=5_000) == 15_000


@pytest.mark.parametrize(
    ("times", "maximum", "asked", "expected"),
    [
        (0, 16, 0, ToRetryTopic(3, 1)),
        (5, 16, 0, ToRetryTopic(8, 6)),
        (0, 16, 1, ToRetryTopic(1, 1)),
        (5, 16, 2, ToRetryTopic(2, 6)),
        (15, 16, 0, ToRetryTopic(18, 16)),
        (16, 16, 0, ToDeadLetterQueue(17)),
        (16, 16, 1, ToDeadLetterQueue(17)),
        (0, 16, -1, ToDeadLetterQueue(1)),
        (0, 0, 0, ToDeadLetterQueue(1)),
    ],
)
def test_send_back_decides(times, maximum, asked, expected):
    assert decide_send_back(times, maximum, asked) == expected


def test_levels_and_queues_of_the_schedule_topic_correspond():
    assert queue_of_delay_level(1) == 0
    assert [delay_level_of_queue(queue_of_delay_level(level)) for level in range(1, 19)] == list(range(1, 19))


def test_the_limit_of_retries_depends_on_the_kind_of_consumption():
    assert max_reconsume_times(-1) == 16
    assert max_reconsume_times(-1, orderly=True) == 2**31 - 1
    assert max_reconsume_times(0) == max_reconsume_times(0, orderly=True) == 0


@pytest.mark.parametrize(
    ("delay_ms", "level"),
    [(-1, 0), (0, 0), (1, 1), (5_000, 1), (5_001, 2), (10_000, 2), (20_000, 3), (20_001, 3), (HOUR, 3)],
)
def test_a_delay_gets_the_first_level_that_is_long_enough_or_the_longest(delay_ms, level):
    levels = DelayLevels.parse("5s 10s 20s 1s")
    assert levels.level_for(delay_ms) == level
