# SPDX-License-Identifier: Apache-2.0
"""core.flow_control: each limit at its edge."""

from __future__ import annotations

import pytest

from sprocketmq.core.consume.flow_control import (
    MIB,
    FlowControlCause,
    FlowLimits,
    check,
    per_queue_limits,
    resume_count,
)
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.errors import ConfigurationError

from ..messages import QUEUE, message, messages


def test_the_defaults_are_javas():
    assert FlowLimits() == FlowLimits(1000, 100 * MIB, 2000, -1, -1)


def test_more_than_the_count_pauses_for_50_ms_and_says_why():
    queue = ProcessQueue(QUEUE)
    queue.put(messages(*range(1000)))
    assert check(queue, FlowLimits()) is None
    queue.put(messages(1000))
    paused = check(queue, FlowLimits())
    assert paused is not None
    assert (paused.cause, paused.delay_ms) == (FlowControlCause.COUNT, 50)
    assert paused.reason == "flights/broker-a/0 has 1001 messages cached, more than 1000"


def test_more_than_the_size_pauses():
    queue, limits = ProcessQueue(QUEUE), FlowLimits(max_size_bytes=100)
    queue.put([message(0, b"x" * 100)])
    assert check(queue, limits) is None
    queue.put([message(1, b"x")])
    assert (paused := check(queue, limits)) is not None
    assert (paused.cause, paused.delay_ms) == (FlowControlCause.SIZE, 50)


def test_a_stuck_head_pauses_by_span_and_not_in_orderly_consumption():
    queue = ProcessQueue(QUEUE)
    queue.put(messages(0, 2000))
    assert check(queue, FlowLimits()) is None
    queue.put(messages(2001))
    assert (paused := check(queue, FlowLimits())) is not None
    assert (paused.cause, paused.delay_ms) == (FlowControlCause.SPAN, 50)
    assert "oldest unfinished message 0" in paused.reason
    assert check(queue, FlowLimits(), orderly=True) is None


def test_messages_being_consumed_count_and_finished_ones_do_not():
    queue, limits = ProcessQueue(QUEUE), FlowLimits(max_count=2)
    queue.put(messages(0, 1, 2))
    taken = queue.take(3, 0)
    assert check(queue, limits) is not None
    queue.done(taken[:1])
    assert check(queue, limits) is None


def test_a_topic_limit_is_shared_over_all_queues():
    limits = FlowLimits(topic_max_count=100, topic_max_size_bytes=7)
    shared = per_queue_limits(limits, 3)
    assert (shared.max_count, shared.max_size_bytes) == (33, 2)
    assert per_queue_limits(limits, 1000).max_count == 1
    assert per_queue_limits(limits, 0) == limits
    assert per_queue_limits(FlowLimits(), 8) == FlowLimits()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_count", 0),
        ("max_count", 65_536),
        ("max_size_bytes", 0),
        ("max_size_bytes", 1024 * MIB + 1),
        ("max_span", 0),
        ("topic_max_count", 0),
        ("topic_max_size_bytes", -2),
    ],
)
def test_limits_out_of_range_are_refused(name, value):
    with pytest.raises(ConfigurationError, match=f"is {value}, 1 to"):
        FlowLimits(**{name: value})


def test_of_many_messages_a_quarter_goes_before_the_next_look_and_of_few_one():
    assert [resume_count(FlowLimits(max_count=most)) for most in (1, 10, 255, 256, 1000)] == [1, 10, 255, 192, 750]
