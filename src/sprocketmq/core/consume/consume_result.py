# SPDX-License-Identifier: Apache-2.0
"""What a concurrent listener's answer means for each message of its batch. Java: ConsumeMessageConcurrentlyService.processConsumeResult.

    answer                                    acknowledged          sent back (clustering)      dropped, logged (broadcasting)
    CONSUME_SUCCESS, ack_index not set        all                   none                        none
    CONSUME_SUCCESS, ack_index = i            0..i                  i+1..                       i+1..
    RECONSUME_LATER, None, exception, other   none                  all                         all

An ack_index of -1 means that none succeeded, one above the last index means all. One that is not a number makes the call a failure: when
the answer is unclear, the messages are delivered again. If the delay level is not a number, the broker chooses it. So whatever a listener
stored in its context, every batch can be settled."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

ALL_ACKED = 0x7FFFFFFF
"""Default of ``context.ack_index`` (Java: Integer.MAX_VALUE)."""


class ConsumeConcurrentlyStatus(Enum):
    """What a concurrent listener returns."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


def read_answer(returned: object, context: Any) -> tuple[ConsumeConcurrentlyStatus, str | None]:
    """The status of a listener call, and what was wrong with its answer as the rest of a sentence ("returned 3, ... is allowed").
    ``context``: a ConsumeConcurrentlyContext as the listener left it; nonsense in it is replaced."""
    if returned is _SUCCESS and context.ack_index is ALL_ACKED:
        return _SUCCESS, None
    status, complaint = ConsumeConcurrentlyStatus.RECONSUME_LATER, None
    if isinstance(returned, ConsumeConcurrentlyStatus):
        status = returned
    else:
        complaint = f"returned {returned!r}, ConsumeConcurrentlyStatus.CONSUME_SUCCESS or RECONSUME_LATER is allowed"
    level, ack_index = context.delay_level_when_next_consume, context.ack_index
    if not is_number(level):
        complaint = (
            f"set context.delay_level_when_next_consume to {level!r}, 0 (the broker chooses), 1 to 18 (that level) or -1 (dead-letter "
            "topic) is allowed"
        )
        context.delay_level_when_next_consume = 0
    if not is_number(ack_index):
        complaint = f"set context.ack_index to {ack_index!r}, the index of the last message that is done is allowed"
        context.ack_index = ALL_ACKED
        status = ConsumeConcurrentlyStatus.RECONSUME_LATER
    return status, complaint


def is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_SUCCESS: Final = ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def acked_count(status: ConsumeConcurrentlyStatus, ack_index: int, batch_size: int) -> int:
    """How many messages at the head of the batch are acknowledged; the rest is sent back, or dropped when broadcasting."""
    if status is not ConsumeConcurrentlyStatus.CONSUME_SUCCESS:
        return 0
    return min(max(ack_index + 1, 0), batch_size)
