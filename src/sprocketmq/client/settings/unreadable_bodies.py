# SPDX-License-Identifier: Apache-2.0
"""Messages whose body cannot be opened: compressed in a way whose library is not installed, broken, or an inner batch that is none.

Java's client is silent: MessageDecoder stops there (``decode`` returns null, ``decodesBatch`` ends), so the message and all behind it in
the answer are skipped. Here it is logged, and the user chooses what happens.
"""

from __future__ import annotations

import logging
from enum import Enum

from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.troubles import Troubles
from sprocketmq.wire.records.message import MessageExt, MessageQueue


class UnreadableBody(Enum):
    """What happens to a message whose body cannot be decoded. STOP: its queue waits there. SKIP: progress passes it. DELIVER: it is
    delivered with its body as it is stored, and ``sys_flag`` still says that the body is compressed (bit 0x1)."""

    STOP = "STOP"
    SKIP = "SKIP"
    DELIVER = "DELIVER"


_ENDS = {UnreadableBody.SKIP: "it is skipped", UnreadableBody.DELIVER: "it is passed on as it is stored"}


class UnreadableBodies:
    """The unreadable bodies of one queue. ``choice``: None stops if a library is missing, because installing it helps, and delivers
    bodies that no library can decode."""

    def __init__(self, choice: UnreadableBody | None, group: str, queue: MessageQueue, troubles: Troubles) -> None:
        self._choice, self._group, self._queue, self._troubles = choice, group, queue, troubles

    def settle(
        self,
        found: list[tuple[MessageExt, Exception]],
        messages: list[MessageExt],
        offset: int,
        next_offset: int,
    ) -> tuple[list[MessageExt], int]:
        """The messages that are passed on, and the offset of the next pull. ``found``: those that cannot be decoded, and why.
        ``messages``: what the filter left of the answer to a pull from ``offset``, which ends before ``next_offset``. Raises
        ConfigurationError, ProtocolError (the queue is to stop, and what comes next is such a message)."""
        left = set(map(id, messages))
        for message, error in found:
            if id(message) not in left:
                continue
            choice = self._choice
            if choice is None:
                choice = UnreadableBody.STOP if isinstance(error, ConfigurationError) else UnreadableBody.DELIVER
            place = message.queue_offset
            if choice is UnreadableBody.STOP:
                if place <= offset:
                    raise _with_choice(error)
                return [one for one in messages if one.queue_offset < place], place
            if choice is UnreadableBody.SKIP:
                messages = [one for one in messages if one is not message]
            sentence = "group %s: the body of message %s at offset %d of %s cannot be opened (%s), so %s"
            self._troubles.failed(
                ("unreadable body", type(error)),
                sentence, self._group, message.message_id, place, self._queue, error, _ENDS[choice],
                of=str(self._queue),
                level=logging.ERROR,
            )  # fmt: skip
        return messages, next_offset


def _with_choice(error: Exception) -> Exception:
    sentence = f"{error}; with unreadable_body='SKIP' or 'DELIVER' the queue continues"
    return ConfigurationError(sentence) if isinstance(error, ConfigurationError) else ProtocolError(sentence)
