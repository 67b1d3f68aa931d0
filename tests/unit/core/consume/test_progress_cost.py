# SPDX-License-Identifier: Apache-2.0
"""What progress costs per message with 10 and with 10,000 messages in hand: the same, counted in steps, not in time.

A step is a line of the module that runs, or a comparison or hash of an offset, which also counts what loops inside of C: ``min``,
``sorted``, a search.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from sprocketmq.core.consume import consume_timeout, process_queue
from sprocketmq.core.consume.consume_timeout import ConsumeTimeout
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.wire.records.message import MessageExt

from ..messages import QUEUE

SETTLED = 1_000
IN_HAND = (10, 10_000)
TOO_MANY = 500 * SETTLED  # no reason to count on
steps = 0
most = sys.maxsize


def _counted(operation: Callable[..., Any]) -> Any:
    def count(*numbers: int) -> Any:
        global steps
        steps += 1
        assert steps < most, "steps for each message in hand"
        return operation(*numbers)

    return count


class CountedOffset(int):
    """An offset (or another number) that counts what is done with it."""

    __lt__, __gt__, __hash__ = map(_counted, (int.__lt__, int.__gt__, int.__hash__))


class Cached:
    """As much of a message as a process queue looks at."""

    __slots__ = ("body", "queue_offset")

    def __init__(self, offset: int) -> None:
        self.queue_offset = CountedOffset(offset)
        self.body = b"x"


def _steps(module: Any, work: Callable[[], object]) -> int:
    global most, steps
    steps, most = 0, TOO_MANY

    def local(frame: FrameType, event: str, argument: object) -> Any:
        global steps
        steps += event == "line"
        return local

    def calls(frame: FrameType, event: str, argument: object) -> Any:
        return local if frame.f_code.co_filename == module.__file__ else None

    before = sys.gettrace()
    sys.settrace(calls)
    try:
        work()
    finally:
        sys.settrace(before)
        most = sys.maxsize
    return steps


def _in_hand(offsets: range) -> tuple[ProcessQueue, list[MessageExt]]:
    queue = ProcessQueue(QUEUE)
    queue.put(Cached(offset) for offset in offsets)  # type: ignore[misc]
    return queue, queue.take(len(offsets), 0)


@pytest.mark.parametrize("order", ["as they came", "at random", "the oldest last"])
def test_settling_a_message_costs_the_same_with_10_and_with_10_000_in_hand(order):
    costs = []
    for in_hand in IN_HAND:
        taken_steps = 0
        for first in range(0, SETTLED, in_hand):
            queue, taken = _in_hand(range(first, first + in_hand))
            settled = taken[:SETTLED]
            if order == "at random":
                random.Random(first).shuffle(settled)
            elif order == "the oldest last":
                settled.append(settled.pop(0))

            def settle(queue: ProcessQueue = queue, settled: list[MessageExt] = settled) -> None:
                for one in settled:
                    queue.done([one])
                    assert queue.span >= 0  # flow control looks at these before each pull
                    assert queue.count >= 0

            taken_steps += _steps(process_queue, settle)
            assert queue.commit_offset == first + len(settled)
        costs.append(taken_steps / SETTLED)
    assert costs[1] <= 1.2 * costs[0], costs


def test_caching_a_message_costs_the_same_with_10_and_with_10_000_in_hand():
    costs = []
    for in_hand in IN_HAND:
        queue, _ = _in_hand(range(in_hand))
        more = [Cached(in_hand + n) for n in range(SETTLED)]

        def put(queue: ProcessQueue = queue, more: list[Cached] = more) -> None:
            for one in more:
                queue.put([one])  # type: ignore[list-item]

        costs.append(_steps(process_queue, put))
    assert costs[1] <= 1.2 * costs[0], costs


def test_a_deadline_costs_the_same_with_10_and_with_10_000_running():
    costs = []
    for running in IN_HAND:
        timeout: ConsumeTimeout[int] = ConsumeTimeout(60_000)
        for key in range(running):
            timeout.started(CountedOffset(key), CountedOffset(0))

        def come_and_go(timeout: ConsumeTimeout[int] = timeout, running: int = running) -> None:
            for n in range(SETTLED):
                timeout.started(CountedOffset(running + n), 0)
                timeout.next_deadline_ms()
                timeout.expired(1)
                timeout.finished(CountedOffset(running + n // 2))

        costs.append(_steps(consume_timeout, come_and_go))
    assert costs[1] <= 1.2 * costs[0], costs
