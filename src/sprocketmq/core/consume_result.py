"""What a concurrent listener's answer means for each message of its batch. Java: ConsumeMessageConcurrentlyService.processConsumeResult.

    answer                                    acknowledged          sent back (clustering)      dropped, logged (broadcasting)
    CONSUME_SUCCESS, ack_index not set        all                   none                        none
    CONSUME_SUCCESS, ack_index = i            0..i                  i+1..                       i+1..
    RECONSUME_LATER, None, exception, other   none                  all                         all

Laws
    1. Every message of the batch is in exactly one of the parts, in order.
    2. ack_index counts only with CONSUME_SUCCESS; -1 means that none succeeded; above the last index means all.
    3. Anything that is not CONSUME_SUCCESS is a failure: unclear must mean "again", not "done".
"""

from __future__ import annotations

from enum import Enum

__all__ = ["ALL_ACKED", "ConsumeConcurrentlyStatus", "acked_count", "read_status"]

ALL_ACKED = 0x7FFFFFFF
"""Default of ``context.ack_index`` (Java: Integer.MAX_VALUE)."""


class ConsumeConcurrentlyStatus(Enum):
    """What a concurrent listener returns."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


def read_status(returned: object) -> tuple[ConsumeConcurrentlyStatus, bool]:
    """The status of whatever a listener returned, and whether it was one of the allowed values.

    None is allowed and means RECONSUME_LATER; anything else that is no status is a mistake to be reported once, and means the same.
    """
    if isinstance(returned, ConsumeConcurrentlyStatus):
        return returned, True
    return ConsumeConcurrentlyStatus.RECONSUME_LATER, returned is None


def acked_count(status: ConsumeConcurrentlyStatus, ack_index: int, batch_size: int) -> int:
    """How many messages at the head of the batch are acknowledged; the rest is sent back, or dropped when broadcasting."""
    if status is not ConsumeConcurrentlyStatus.CONSUME_SUCCESS:
        return 0
    return min(max(ack_index + 1, 0), batch_size)
