# SPDX-License-Identifier: Apache-2.0
"""Exceptions by which a listener chooses what happens to its messages: RetryLater and DeadLetter (in Java the context has it).

                         concurrent                                        orderly
    RetryLater           sent back, delay level as asked                   the queue pauses as long as asked, same messages again
    DeadLetter           sent back with level -1, or with its reason       to %DLQ%group at once, with its reason; the queue goes on
                         written by this client: to %DLQ%group at once
    anything else        sent back, the schedule chooses the level         the queue pauses, same messages again

Both apply to every message of the call. They are logged as information, not as errors. Statistics and hooks see a failed call with
the exception as its ``failure``.

Rules
1. A signal never acknowledges a message: each message of the call becomes a retry copy or a dead letter, or is tried again here.
2. Broadcasting has neither retries nor dead letters: with both the message is dropped, as after any failure.
"""

from __future__ import annotations

from typing import Final

from sprocketmq.client.settings.validators import check_range
from sprocketmq.core.retry.retry_schedule import MOST_DELAY_LEVELS, DelayLevels
from sprocketmq.errors import ValueDeserializationError, described

_LONGEST_MS: Final = 366 * 86_400_000


class ListenerSignal(Exception):
    """Root of the two; ``delay_level`` is what the send-back carries, ``suspend_ms`` how long an orderly queue pauses (-1: its setting)."""

    delay_level = 0
    suspend_ms = -1
    reason = ""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class RetryLater(ListenerSignal):
    """Raise it in a listener to get the message again after a delay of your choice.

    Args:
        reason: for the log, and for the dead letter if this was the last try.
        delay_ms: the wait in milliseconds; default the schedule chooses, as after any failure. Concurrent consumption rounds it up
            to the broker's next delay level (1 s, 5 s, 10 s, 30 s, 1 to 10 min, 20 min, 30 min, 1 h, 2 h); an orderly queue pauses
            for it, within 10 ms and 30 s.
        delay_level: the level, 1 to 18 by the broker's default (a broker takes its highest for more); wins over ``delay_ms``.

    Raises ConfigurationError: a value is out of range; inside a listener that makes it an ordinary failure.
    """

    def __init__(self, reason: str = "", *, delay_ms: int | None = None, delay_level: int = 0) -> None:
        super().__init__(reason)
        levels = DelayLevels.parse()
        self.delay_level = check_range("delay_level", delay_level, 0, MOST_DELAY_LEVELS)
        if delay_ms is not None:
            self.suspend_ms = check_range("delay_ms", delay_ms, 1, _LONGEST_MS)
            self.delay_level = self.delay_level or levels.level_for(self.suspend_ms)
        elif self.delay_level:
            self.suspend_ms = levels.delay_ms(self.delay_level)


class DeadLetter(ListenerSignal):
    """Raise it in a listener when no retry can help: the message goes to ``%DLQ%group`` now; ``rmq.DeadLetters(group)`` reads and
    replays it.

    Args:
        reason: why; it is logged, and kept with the dead letter as property RETRY_REASON (``DeadLetterMessage.reason``, of 1024
            bytes at most). The consumer then writes the letter itself, so its ``born_host`` is the consumer's; without a reason the
            broker does. Default none.
    """

    delay_level = -1

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


def reason_of(failure: BaseException | None) -> str:
    """The reason that is kept with a dead letter; empty when the listener gave none and raised nothing. It names no message, so that
    dead letters can be counted by it."""
    if failure is None:
        return ""
    if isinstance(failure, ListenerSignal):
        return str(failure.reason)
    if isinstance(failure, ValueDeserializationError) and failure.__cause__ is not None:
        return f"the body cannot be deserialized: {described(failure.__cause__)}"
    return described(failure)
