# SPDX-License-Identifier: Apache-2.0
"""When a queue has enough cached to stop pulling for a moment. Java: the three checks in DefaultMQPushConsumerImpl.pullMessage.

    before each pull        count > 1000 messages   -+
                            size  > 100 MiB          +-> do not pull, check again in 50 ms, and say why
                            span  > 2000 offsets    -+    (span: concurrent consumption only)

Rules
    1. A limit is a "more than": the pull that reaches it is allowed, the next one is not.
    2. A limit per topic is shared out evenly over all process queues of the consumer, at least 1 each, at each rebalance.
    3. The span is that of what is cached. So if one message is stuck and all later ones are consumed, the queue is pulled only each 50 ms
       but does not stop, as in Java: slower pulls limit how much a crash would repeat, a stop would delay all other messages.
    4. After a pause for the count, pulling resumes when a quarter of the limit was settled, so that a few pulls share one pause; with a
       limit below 256, where all workers could become idle meanwhile, when one message was settled; and in 50 ms at the latest."""

from __future__ import annotations

from enum import Enum

import msgspec

from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.errors import ConfigurationError

FLOW_CONTROL_PAUSE_MS = 50
_MANY = 256
MIB = 1024 * 1024


class FlowControlCause(Enum):
    COUNT = "count"
    SIZE = "size"
    SPAN = "span"


class FlowLimits(msgspec.Struct, frozen=True):
    """Limits per queue, and optional ones per topic (-1 = none). Java: pullThresholdForQueue, pullThresholdSizeForQueue,
    consumeConcurrentlyMaxSpan, pullThresholdForTopic, pullThresholdSizeForTopic. Sizes are bytes here; Java compares whole MiB."""

    max_count: int = 1000
    max_size_bytes: int = 100 * MIB
    max_span: int = 2000
    topic_max_count: int = -1
    topic_max_size_bytes: int = -1

    def __post_init__(self) -> None:
        _check_range("pull_threshold_for_queue", self.max_count, 1, 65_535)
        _check_range("pull_threshold_size_for_queue in bytes", self.max_size_bytes, 1, 1024 * MIB)
        _check_range("consume_concurrently_max_span", self.max_span, 1, 65_535)
        if self.topic_max_count != -1:
            _check_range("pull_threshold_for_topic", self.topic_max_count, 1, 6_553_500)
        if self.topic_max_size_bytes != -1:
            _check_range("pull_threshold_size_for_topic in bytes", self.topic_max_size_bytes, 1, 102_400 * MIB)


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigurationError(f"{name} is {value}, {low} to {high} is allowed")


def per_queue_limits(limits: FlowLimits, process_queue_count: int) -> FlowLimits:
    """The limits in force while the consumer has ``process_queue_count`` queues (rule 2). Java: RebalancePushImpl.messageQueueChanged."""
    if process_queue_count <= 0:
        return limits
    count, size = limits.max_count, limits.max_size_bytes
    if limits.topic_max_count != -1:
        count = min(65_535, max(1, limits.topic_max_count // process_queue_count))
    if limits.topic_max_size_bytes != -1:
        size = min(1024 * MIB, max(1, limits.topic_max_size_bytes // process_queue_count))
    return msgspec.structs.replace(limits, max_count=count, max_size_bytes=size)


class Paused(msgspec.Struct, frozen=True):
    """Do not pull now; check again after ``delay_ms``. ``reason`` is a sentence for the log."""

    cause: FlowControlCause
    reason: str
    delay_ms: int = FLOW_CONTROL_PAUSE_MS


def check(process_queue: ProcessQueue, limits: FlowLimits, *, orderly: bool = False) -> Paused | None:
    """None when the queue may be pulled, else why not."""
    if process_queue.count > limits.max_count:
        return Paused(
            FlowControlCause.COUNT,
            f"{process_queue.queue} has {process_queue.count} messages cached, more than {limits.max_count}",
        )
    if process_queue.size_bytes > limits.max_size_bytes:
        return Paused(
            FlowControlCause.SIZE,
            f"{process_queue.queue} has {process_queue.size_bytes} bytes cached, more than {limits.max_size_bytes}",
        )
    if not orderly and process_queue.span > limits.max_span:
        return Paused(
            FlowControlCause.SPAN,
            f"{process_queue.queue} spans {process_queue.span} offsets from its oldest unfinished message "
            f"{process_queue.min_offset}, more than {limits.max_span}",
        )
    return None


def resume_count(limits: FlowLimits) -> int:
    """A queue that is paused for its count is checked again when it has no more messages than this (rule 4)."""
    most = limits.max_count
    return most - most // 4 if most >= _MANY else most
