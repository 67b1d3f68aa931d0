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


@pytest.mark.parametrize(
    ("limits", "allowed", "more", "cause", "reason"),
    [
        (FlowLimits(), messages(*range(1000)), messages(1000), FlowControlCause.COUNT, "1001 messages cached, more than 1000"),
        (FlowLimits(max_size_bytes=100), [message(0, b"x" * 100)], messages(1), FlowControlCause.SIZE, "flights/broker-a/0"),
        (FlowLimits(), messages(0, 2000), messages(2001), FlowControlCause.SPAN, "oldest unfinished message 0"),
    ],
    ids=["count", "size", "span"],
)  # fmt: skip
def test_more_than_a_limit_pauses_for_50_ms_and_says_why(limits, allowed, more, cause, reason):
    queue = ProcessQueue(QUEUE)
    queue.put(allowed)
    assert check(queue, limits) is None
    queue.put(more)
    assert (paused := check(queue, limits)) is not None
    assert (paused.cause, paused.delay_ms) == (cause, 50)
    assert reason in paused.reason


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
