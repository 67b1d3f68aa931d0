# SPDX-License-Identifier: Apache-2.0
"""What the client hands back: outcomes of sends and pulls, and what a listener gets to answer with (Java: SendResult, PullResult)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.core.consume.consume_result import ALL_ACKED
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.client.listener_signals import ListenerSignal
    from sprocketmq.core.consume.pull_cursor import PullStatus


class SendStatus(str, Enum):
    """How safely a message is stored. With all four the broker has it; three name a flush or slave that is missing."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"

    def __str__(self) -> str:
        return self.value


NOT_SAFE_YET: Final = frozenset(status.value for status in SendStatus if status is not SendStatus.SEND_OK)
"""By one of these names Apache refuses a send-back whose copy it has stored (AbstractSendMessageProcessor.consumerSendMsgBack)."""

SEND_STATUS_BY_CODE: dict[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """The broker's acknowledgement of one send.

    Attributes:
        message_id: the id given by this client (UNIQ_KEY); for a batch the ids of its messages joined by commas.
        queue_offset: its place in ``message_queue`` (of the first message of a batch).
        offset_message_id: the broker's own id of the stored copy; for a batch joined by commas.
        transaction_id: of a half message, else None. Brokers repeat the id of every message there, and Java's SendResult has it for
            plain sends, too; here it says that the send was a part of a transaction.
        recall_handle: takes a message with a delivery time back (``Producer.recall``), from 5.x brokers, else None.
    """

    # No garbage collection (gc=False): it refers to nothing that could refer to it.

    status: SendStatus
    message_id: str
    message_queue: MessageQueue
    queue_offset: int
    offset_message_id: str = ""
    transaction_id: str | None = None
    recall_handle: str | None = None


class ServerOutage(msgspec.Struct, frozen=True):
    """A broker or name server that a client has lost: the argument of ``on_disconnected`` and ``on_reconnected``.

    Attributes:
        broker_name: of a broker, as in routes; "" for a name server.
        error: the text of the error of the request that noticed it.
        began_ms: when that was, milliseconds since 1970.
        lasted_ms: milliseconds until the first answer; 0 in ``on_disconnected``.
    """

    address: str
    broker_name: str
    error: str
    began_ms: int
    lasted_ms: int = 0


class PullResult(msgspec.Struct, frozen=True):
    """One answer to PULL_MESSAGE, its records still raw.

    Attributes:
        next_begin_offset: where the next pull must begin; always adopt it, never compute it from what was received.
        min_offset, max_offset: limits of the queue at that moment; ``max_offset`` is one behind the last message.
        suggested_broker_id: which replica to ask next, 0 is the master.
        body: the commit-log records back to back, see ``wire.records.record``; empty unless FOUND.
    """

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int = 0
    body: bytes | bytearray | memoryview = b""


class ConsumeConcurrentlyContext(msgspec.Struct):
    """Handed to a concurrent listener together with its messages, of ``message_queue``.

    Attributes:
        delay_level_when_next_consume: 0 lets the broker choose (10 s, 30 s, 1 min, ...), 1..18 asks for that level (above its
            highest a broker takes the highest, and the consumer logs it once), -1 means straight to the dead-letter topic.
        ack_index: index of the last message that is done; with CONSUME_SUCCESS the messages behind it are retried.
    """

    message_queue: MessageQueue
    delay_level_when_next_consume: int = 0
    ack_index: int = ALL_ACKED

    def apply_signal(self, signal: ListenerSignal) -> None:
        """Apply what the listener raised. Called by the consume service."""
        self.delay_level_when_next_consume = signal.delay_level or self.delay_level_when_next_consume


class ConsumeOrderlyContext(msgspec.Struct):
    """Handed to an orderly listener together with its messages, of ``message_queue``.

    Attributes:
        auto_commit: True (default) commits progress at SUCCESS; False leaves it to COMMIT and ROLLBACK.
        suspend_current_queue_time_ms: pause before the next try after SUSPEND or ROLLBACK, 10..30000; -1 takes the consumer's.
        dead_letter: with SUSPEND, give these messages up: to the dead-letter topic now (raising DeadLetter does the same).
    """

    message_queue: MessageQueue
    auto_commit: bool = True
    suspend_current_queue_time_ms: int = -1
    dead_letter: bool = False

    def apply_signal(self, signal: ListenerSignal) -> None:
        """Apply what the listener raised. Called by the consume service."""
        self.dead_letter = signal.delay_level < 0
        if signal.suspend_ms >= 0:
            self.suspend_current_queue_time_ms = signal.suspend_ms
