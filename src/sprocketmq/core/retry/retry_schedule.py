# SPDX-License-Identifier: Apache-2.0
"""When and where a failed message comes back. Java: ScheduleMessageService, SendMessageProcessor.consumerSendMsgBack, MixAll.

    send back (group, commit log offset, delay level asked for), n-th time
        +-- n >= max, or level < 0 --> %DLQ%group          (dead letter: no delay, no group subscribes by itself)
        `-- else --> SCHEDULE_TOPIC_XXXX, queue level-1 --(delay of that level)--> %RETRY%group --> the same group again
                     level asked for, or 3 + n when 0

    default levels   1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h        (level 1 is the first; retries begin with 10s)

Rules
    1. A level above the highest is the highest; level 0 never delays.
    2. reconsume_times grows by one with each copy, so a message is delivered at most max + 1 times and dead-lettered once.
    3. The message id (UNIQ_KEY) is a property and moves along; only the stored copy's own id is new.
    4. A delayed message is never due later than now + delay of its level (a clock that jumped back must not park it for hours)."""

from __future__ import annotations

import re

from msgspec import Struct

from sprocketmq.errors import ConfigurationError

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
DEFAULT_MAX_RECONSUME_TIMES = 16
FIRST_RETRY_LEVEL = 3
# What a client allows for brokers with levels of their own; not a limit of brokers.
MOST_DELAY_LEVELS = 1_000
ORDERLY_MAX_RECONSUME_TIMES = 0x7FFFFFFF  # Integer.MAX_VALUE: an ordered queue waits rather than lets a message go

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"([0-9]{1,9})([smhd])")


class DelayLevels(Struct, frozen=True):
    """The parsed ``messageDelayLevel``; level n (from 1) waits ``delays_ms[n - 1]``."""

    delays_ms: tuple[int, ...]

    @classmethod
    def parse(cls, text: str = DEFAULT_DELAY_LEVELS) -> DelayLevels:
        """Reads ``"1s 5s 10s"`` with units s, m, h, d. Raises ConfigurationError."""
        delays = []
        for part in text.split():
            match = _LEVEL.fullmatch(part)
            if match is None:
                raise ConfigurationError(
                    f"messageDelayLevel holds {part!r}; each level is a number and one of s m h d, as in '1s 5s 10m 2h'"
                )
            delays.append(int(match[1]) * _UNIT_MS[match[2]])
        if not delays:
            raise ConfigurationError("messageDelayLevel is empty; give at least one level, as in '1s 5s 10s'")
        return cls(tuple(delays))

    @property
    def max_level(self) -> int:
        return len(self.delays_ms)

    def clamp(self, level: int) -> int:
        """The highest level instead of one above it (rule 1). A level of 0 or below means no delay."""
        return min(max(level, 0), len(self.delays_ms))

    def delay_ms(self, level: int) -> int:
        level = self.clamp(level)
        return self.delays_ms[level - 1] if level else 0

    def level_for(self, delay_ms: int) -> int:
        """The lowest level that waits at least ``delay_ms``, or the highest there is; 0 for no delay."""
        if delay_ms <= 0:
            return 0
        longest = max(self.delays_ms)
        return 1 + next(n for n, delay in enumerate(self.delays_ms) if delay >= min(delay_ms, longest))

    def due_ms(self, level: int, store_timestamp_ms: int) -> int:
        """When a message stored now is due; kept as tagsCode in the schedule topic's consume queue."""
        return store_timestamp_ms + self.delay_ms(level)

    def latest_due_ms(self, level: int, now_ms: int) -> int:
        """Rule 4. Java: ScheduleMessageService.correctDeliverTimestamp."""
        return now_ms + self.delay_ms(level)


def queue_of_delay_level(level: int) -> int:
    return level - 1


def delay_level_of_queue(queue_id: int) -> int:
    return queue_id + 1


def retry_level(reconsume_times: int, asked_level: int = 0) -> int:
    """The delay level of the next delivery: what the listener asked for (> 0), else 3 + reconsume_times."""
    return asked_level if asked_level > 0 else FIRST_RETRY_LEVEL + reconsume_times


def max_reconsume_times(configured: int, *, orderly: bool = False) -> int:
    """A consumer's effective limit: -1 means 16 for concurrent consumption and no limit for orderly consumption."""
    if configured >= 0:
        return configured
    return ORDERLY_MAX_RECONSUME_TIMES if orderly else DEFAULT_MAX_RECONSUME_TIMES


class ToRetryTopic(Struct, frozen=True):
    delay_level: int
    reconsume_times: int


class ToDeadLetterQueue(Struct, frozen=True):
    reconsume_times: int


def decide_send_back(reconsume_times: int, max_times: int, asked_level: int = 0) -> ToRetryTopic | ToDeadLetterQueue:
    """Of CONSUMER_SEND_MSG_BACK. ``reconsume_times``: before this failure. ``max_times``: the group's retryMaxTimes, or maxReconsumeTimes
    of the request. ``asked_level``: -1 dead-letters at once, 0 lets the schedule choose."""
    if reconsume_times >= max_times or asked_level < 0:
        return ToDeadLetterQueue(reconsume_times + 1)
    return ToRetryTopic(retry_level(reconsume_times, asked_level), reconsume_times + 1)
