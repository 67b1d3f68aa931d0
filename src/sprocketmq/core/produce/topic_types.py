# SPDX-License-Identifier: Apache-2.0
"""What to do when a proxy refuses a message because its topic takes another type (``message.type`` of RocketMQ 5).

The type of a message follows from its properties (Java: TopicMessageType.parseFromMessageProperty): TRANSACTION of a half message, DELAY
with a delay, FIFO with a sharding key, else NORMAL. Brokers do not compare it with the topic's; a proxy does
(DefaultTopicMessageTypeValidator, ``enableTopicMessageTypeCheck``), and answers MESSAGE_ILLEGAL.
"""

from __future__ import annotations

import re
from typing import Final

_REFUSAL: Final = re.compile(r"TopicMessageType validate failed, the expected type is (\w+), but actual type is (\w+)")
_HOW: Final = {
    "NORMAL": "send it without sharding key, delay and transaction, or to another topic",
    "FIFO": "send it alone, with sharding_key",
    "DELAY": "send it alone, with delay_level or deliver_time_ms",
    "TRANSACTION": "send it with TransactionProducer.send_in_transaction",
}


def type_refusal(remark: str) -> str | None:
    """The refusal in a user's words; None if the remark is about something else."""
    found = _REFUSAL.search(remark)
    if found is None:
        return None
    expected, actual = found.groups()
    if expected == "UNSPECIFIED":
        return "the proxy knows no such topic; create it, with mqadmin or in the console of the service"
    how = _HOW.get(expected, "send it to another topic")
    return f"the topic takes {expected} messages (its attribute message.type), and this one is {actual}; {how}"
