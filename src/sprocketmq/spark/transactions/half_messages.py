# SPDX-License-Identifier: Apache-2.0
"""Sends the rows of a task as half messages and remembers their positions in few bytes. ``half_ends`` ends them.

RocketMQ accepts no half messages in a batch, so each row is a request, written from a template, with many in flight. A send without an
answer may have stored a half message: its name is added to ``lost``, and the row is sent again with another try number and another
unique key. When ``send`` returns or raises, nothing is in flight any more, and ``half_positions`` has every half message that is known
to be stored, in the order of the task's rows.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sprocketmq.client.produce.async_transaction_producer import AsyncTransactionProducer
from sprocketmq.client.remoting.send import Send
from sprocketmq.client.results import SendStatus
from sprocketmq.core.backoff import Backoff
from sprocketmq.errors import NetworkError, RemoteError, RequestTimeout
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.send.row_messages import OutgoingRow
from sprocketmq.spark.send.row_sender import RowSender, is_transient_send_error
from sprocketmq.spark.transactions.responder import ATTEMPT, SEQUENCE, TRY, half_name
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.send_frames import StoredAnswer

# Topic, broker, and the queue that rows were bound to (or -1).
Destination = tuple[str, str, int]

_NUMBERS: Final = 3
_FOREVER_MS: Final = (1 << 63) - 1
# With more unanswered sends the task fails, so that the ledger does not grow too large.
_MAX_UNANSWERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class HalfMessage:
    """The position of a half message, and when its send began (this machine's clock)."""

    queue_offset: int
    commit_log_offset: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class HalfPositions:
    """Half messages on one broker: of one queue in the order of rows (``in_order``), or of any queues. ``oldest_ms``: when the first
    was sent. Compressed to about eight bytes for each."""

    topic: str
    broker_name: str
    in_order: bool
    oldest_ms: int
    packed: bytes

    @classmethod
    def of(cls, topic: str, broker_name: str, in_order: bool, halves: Iterable[HalfMessage]) -> HalfPositions:
        """Stores the differences between successive numbers, which are small."""
        numbers = array("q")
        before = (0, 0, 0)
        oldest_ms = _FOREVER_MS
        for half in halves:
            oldest_ms = min(oldest_ms, half.sent_ms)
            now = (half.queue_offset, half.commit_log_offset, half.sent_ms)
            numbers.extend(new - old for new, old in zip(now, before, strict=True))
            before = now
        return cls(topic, broker_name, in_order, oldest_ms, zlib.compress(numbers.tobytes(), 1))

    def __iter__(self) -> Iterator[HalfMessage]:
        numbers = array("q")
        numbers.frombytes(zlib.decompress(self.packed))
        place = [0] * _NUMBERS
        for at in range(0, len(numbers), _NUMBERS):
            place = [old + new for old, new in zip(place, numbers[at : at + _NUMBERS], strict=True)]
            yield HalfMessage(*place)


class HalfSender(RowSender):
    """Sends the rows of one task attempt as half messages, each with ``marks`` as properties. ``producer``: started, without retries of
    its own, as each try has a name. ``attempt``: the unique name of this attempt."""

    _producer: AsyncTransactionProducer

    def __init__(
        self, options: SinkOptions, producer: AsyncTransactionProducer, marks: dict[str, str], attempt: str
    ) -> None:
        super().__init__(options, producer)
        self._marks, self._attempt = marks, attempt
        self._halves: dict[Destination, list[HalfMessage]] = {}
        self.lost: set[str] = set()

    @property
    def half_positions(self) -> list[HalfPositions]:
        return [
            HalfPositions.of(topic, broker_name, queue_id >= 0, halves)
            for (topic, broker_name, queue_id), halves in self._halves.items()
        ]

    def send(self, rows: Sequence[OutgoingRow]) -> None:
        """Send rows, none of them delayed, and wait until their half messages are stored. Raises ConfigurationError (a row names a queue
        that no broker has), NetworkError, RequestTimeout, RemoteError (not stored within ``retryTimeoutMs``)."""
        self._engine.run(self._send_all(rows))
        self.sent += len(rows)

    async def _send_all(self, rows: Iterable[OutgoingRow]) -> None:
        in_flight = _RowsInFlight(self, self._options.max_in_flight)
        try:
            for sequence, row in enumerate(rows, self.sent):
                await in_flight.take(row, await self._queue_of(row) if row.is_bound else None, sequence)
        finally:  # after a failure no send may be left in flight
            failures = await in_flight.wait()
            for key, half in in_flight.halves():
                self._halves.setdefault(key, []).append(half)
        if failures:
            raise failures[0]

    def begin(self, row: OutgoingRow, queue: MessageQueue | None, sequence: int) -> Send | None:
        """Begin the first try of a row; None if it cannot begin without waiting."""
        properties = row.message.properties
        properties.update(self._marks)
        properties[SEQUENCE], properties[ATTEMPT] = str(sequence), self._attempt
        return self._producer.begin_prepared(row.message, queue=queue)

    async def store(
        self, row: OutgoingRow, queue: MessageQueue | None, sequence: int, begun: Send | None, sent_ms: int
    ) -> tuple[Destination, HalfMessage]:
        """Send a row until it is stored, after its first try did not store it or did not begin. Raises as ``send``."""
        message = row.message
        deadline_s = time.monotonic() + self._options.retry_timeout_ms / 1000
        backoff = Backoff(0.1, 2.0)  # few tries, as each may be stored twice
        for tried in range(_MAX_UNANSWERED):
            pause_s = backoff.next_s()
            # Another message under another key, so that an answer to a check-back is about one of them only.
            if tried:
                message.properties[TRY] = str(tried)
                message.properties.pop(props.UNIQ_KEY, None)
                begun, sent_ms = None, _now_ms()
            producer = self._producer
            try:
                asked = producer.send_prepared(message, queue=queue) if begun is None else producer.prepared(begun)
                half, place = await asked
            except (NetworkError, RequestTimeout, RemoteError) as error:
                if not is_transient_send_error(error) or time.monotonic() + pause_s > deadline_s:
                    raise
            else:
                if half.status is SendStatus.SEND_OK:
                    where = half.message_queue
                    return _destination_of(row, where.broker_name, where.queue_id), HalfMessage(
                        place.queue_offset, place.commit_log_offset, sent_ms
                    )
                if time.monotonic() + pause_s > deadline_s:
                    raise NetworkError(f"{half.message_queue} stores half messages with {half.status.name} only")
            self._note_lost(half_name(self._attempt, str(sequence), str(tried)))
            await asyncio.sleep(pause_s)
        raise NetworkError(f"row {sequence} could not be stored in {_MAX_UNANSWERED} tries")

    def _note_lost(self, name: str) -> None:
        self.lost.add(name)
        if len(self.lost) > _MAX_UNANSWERED:
            raise NetworkError(f"{len(self.lost)} sends of this task were not answered; it must run again")


class _RowsInFlight:
    """The rows of one batch that are being sent, at most ``most`` at once, and the half messages that are stored, in the order of rows."""

    def __init__(self, sender: HalfSender, most: int) -> None:
        self._sender, self._most = sender, most
        self._begun: deque[tuple[int, OutgoingRow, MessageQueue | None, int, int, Send]] = deque()
        self._stored: list[tuple[Destination, HalfMessage] | None] = []
        self._retries: dict[asyncio.Task[tuple[Destination, HalfMessage]], int] = {}
        self._failures: list[BaseException] = []

    async def take(self, row: OutgoingRow, queue: MessageQueue | None, sequence: int) -> None:
        """Begin to send a row; waits while the limit is reached."""
        sent_ms = _now_ms()
        begun = self._sender.begin(row, queue, sequence)
        at = len(self._stored)
        self._stored.append(None)
        if begun is None:
            await self._retry(at, row, queue, sequence, None, sent_ms)
        else:
            self._begun.append((at, row, queue, sequence, sent_ms, begun))
        if len(self._begun) >= self._most:
            await self._first()

    async def wait(self) -> list[BaseException]:
        while self._begun:
            await self._first()
        while self._retries:
            await self._wait_for_retries(0)
        return self._failures

    def halves(self) -> Iterator[tuple[Destination, HalfMessage]]:
        return (stored_half for stored_half in self._stored if stored_half is not None)

    async def _first(self) -> None:
        at, row, queue, sequence, sent_ms, begun = self._begun.popleft()
        try:
            answer = await begun.answer
        except (NetworkError, RequestTimeout):
            answer = None
        if type(answer) is StoredAnswer and begun.target is not None:
            stored, where = answer.extFields, begun.target
            # An offset message id ends with the offset in the commit log.
            half = HalfMessage(stored.queue_offset, int(stored.msg_id[-16:], 16), sent_ms)
            self._stored[at] = _destination_of(row, where.broker_name, stored.queue_id), half
        else:
            await self._retry(at, row, queue, sequence, begun, sent_ms)

    async def _retry(self, at: int, *how: Any) -> None:
        self._retries[asyncio.ensure_future(self._sender.store(*how))] = at
        await self._wait_for_retries(self._most)

    async def _wait_for_retries(self, most: int) -> None:
        while len(self._retries) > most:
            done, _ = await asyncio.wait(self._retries, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                at = self._retries.pop(task)
                failure = task.exception()
                if failure is None:
                    self._stored[at] = task.result()
                else:
                    self._failures.append(failure)


def _destination_of(row: OutgoingRow, broker_name: str, queue_id: int) -> Destination:
    return row.message.topic, broker_name, queue_id if row.is_bound else -1


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
