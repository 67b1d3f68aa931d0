# SPDX-License-Identifier: Apache-2.0
"""RetryLater and DeadLetter without a broker: what they ask for."""

from __future__ import annotations

import pytest

import sprocketmq as rmq
from sprocketmq.core.retry.retry_schedule import DelayLevels


@pytest.mark.parametrize(
    ("delay_ms", "level"),
    [(1, 1), (1_000, 1), (1_001, 2), (10_000, 3), (11_000, 4), (7_200_000, 18), (30 * 86_400_000, 18)],
)
def test_a_delay_becomes_the_lowest_level_that_waits_as_long(delay_ms, level):
    assert rmq.RetryLater(delay_ms=delay_ms).delay_level == level


def test_levels_that_do_not_rise_are_searched_too():
    levels = DelayLevels.parse("10s 1s 5s")
    assert [levels.level_for(delay_ms) for delay_ms in (0, 1, 10_000, 10_001)] == [0, 1, 1, 1]


def test_without_a_wish_the_schedule_chooses_and_the_orderly_pause_is_the_consumers():
    signal = rmq.RetryLater("tower is busy")
    assert (signal.delay_level, signal.suspend_ms, str(signal)) == (0, -1, "tower is busy")


def test_a_level_means_its_wait_for_an_orderly_queue():
    assert rmq.RetryLater(delay_level=2).suspend_ms == 5_000
    assert rmq.RetryLater(delay_ms=250).suspend_ms == 250


@pytest.mark.parametrize("wrong", [{"delay_level": -1}, {"delay_ms": 0}, {"delay_ms": "10s"}])
def test_a_wrong_delay_is_refused_in_one_sentence(wrong):
    with pytest.raises(rmq.ConfigurationError):
        rmq.RetryLater(**wrong)  # type: ignore[arg-type]


def test_signals_are_taken_over_by_the_context():
    queue = rmq.MessageQueue("flights", "broker-a", 0)
    context = rmq.ConsumeConcurrentlyContext(queue, delay_level_when_next_consume=7)
    context.apply_signal(rmq.RetryLater())
    assert context.delay_level_when_next_consume == 7
    context.apply_signal(rmq.DeadLetter())
    assert context.delay_level_when_next_consume == -1

    orderly = rmq.ConsumeOrderlyContext(queue)
    orderly.apply_signal(rmq.RetryLater(delay_ms=300))
    assert (orderly.dead_letter, orderly.suspend_current_queue_time_ms) == (False, 300)
    orderly.apply_signal(rmq.DeadLetter("no such flight"))
    assert orderly.dead_letter
