# SPDX-License-Identifier: Apache-2.0
"""A sender that keeps books while the broker is killed under it, and the audit of what a broker holds afterwards.

    send_until_killed    16 sends under way: single ones, batches, delayed ones, the old request code 10, one-way; then SIGKILL
    audit                reads every queue from its first message to its end and compares with the books

Laws of the audit, for any broker that opens the store:
1. Every acknowledged message is in the queue, at the queue offset, under the message id and the offset message id of its acknowledgement,
   with the body that was sent.
2. No message is there twice, and each that is there was sent; one whose acknowledgement got lost may be there or not.
3. Queue offsets are dense from 0.
4. What one audit saw is at the same place in all later ones, acknowledged or not.
5. A delayed message waits once, as 1 to 4 say, in the queue of its level. Its delivery into the real topic may happen again after a kill,
   but never before it is due.

Messages are told apart by the number that their body repeats, not by an id that the code under test gave them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import sprocketmq as rmq
from interop.child import poll_until
from interop.sprocket_server import SprocketServer
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import request
from sprocketmq.wire.headers import SendMessageRequestHeader, SendMessageResponseHeader
from sprocketmq.wire.records.record import decode_records

# Files so small that every kill finds some that are full; an Apache broker on the same store needs the same sizes and levels.
BROKER_CONF: Final[dict[str, Any]] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 300 * 20,
    "messageDelayLevel": "1s 2s 3s",
}
TOPIC: Final = "ledger"
LATER: Final = "ledger-later"
SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"
LEVEL_MS: Final = {1: 1_000, 2: 2_000, 3: 3_000}

_QUEUES: Final = 4
_IN_FLIGHT: Final = 16
_DIGITS: Final = 8
# A send that nobody answers because the machine is busy must not be taken for one that a kill cut off.
_TIMEOUT_MS: Final = 60_000

Queues = dict[int, list[rmq.MessageExt]]


@dataclass(frozen=True)
class Receipt:
    """What the broker said when it acknowledged a message; of a delayed one, where it waits."""

    topic: str
    queue_id: int
    queue_offset: int
    offset_message_id: str
    message_id: str | None


class SendLedger:
    """The books of one store: ``sent`` (number -> delay level, 0 for none) and ``receipts`` (number -> Receipt).

    Args:
        seed: of the mix of sends and of the moments of the kills; tests print it. What is in flight at a kill is up to the machine.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sent: dict[int, int] = {}
        self.receipts: dict[int, Receipt] = {}
        self.cut_off = 0  # sends that a kill left without an answer
        self._numbers = itertools.count(1)
        self._seen: dict[tuple[str, int], list[tuple[int, int]]] = {}  # (number, commit log offset) of each offset
        self._killed = False

    # -- sending -----------------------------------------------------------------------------------------------------------------

    async def send_until_killed(self, server: SprocketServer) -> None:
        """Send with many requests under way, and kill the server at a random moment in the middle of them."""
        self._killed = False
        wanted = len(self.receipts) + self.random.randrange(1, 700)
        async with self._producer(server.namesrv_addr) as producer:
            pool = ConnectionPool()
            workers = [asyncio.ensure_future(self._send_on(producer, pool, server)) for _ in range(_IN_FLIGHT)]
            try:
                while len(self.receipts) < wanted and not any(worker.done() for worker in workers):
                    await asyncio.sleep(0)
                await asyncio.sleep(
                    self.random.uniform(0, 0.03)
                )  # so that it does not always hit right behind an answer
                self._killed = True
                os.kill(server.broker_pid, signal.SIGKILL)
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await pool.aclose()

    async def send_some(self, namesrv_addr: str, count: int) -> None:
        """Send ``count`` single messages and wait for their acknowledgements, to whatever broker is there."""
        async with self._producer(namesrv_addr) as producer:
            await asyncio.gather(*(self._send_single(producer) for _ in range(count)))

    @staticmethod
    def _producer(namesrv_addr: str) -> rmq.AsyncProducer:
        # No second try: it could store a message twice, which is what the audit looks for.
        return rmq.AsyncProducer(
            "ledger", namesrv_addr=namesrv_addr, retry_times_when_send_failed=0, send_msg_timeout_ms=_TIMEOUT_MS
        )

    async def _send_on(self, producer: rmq.AsyncProducer, pool: ConnectionPool, server: SprocketServer) -> None:
        while not self._is_killed():
            (kind,) = self.random.choices(("single", "batch", "delayed", "old", "oneway"), (50, 15, 15, 10, 10))
            try:
                if kind == "single":
                    await self._send_single(producer)
                elif kind == "batch":
                    await self._send_batch(producer)
                elif kind == "delayed":
                    await self._send_delayed(producer)
                elif kind == "old":
                    await self._send_old(pool, server.broker_addr)
                else:
                    await producer.send_oneway(self._message(TOPIC))
            except rmq.RocketMQError:
                if not self._is_killed():
                    raise
                self.cut_off += 1

    def _is_killed(self) -> bool:
        return self._killed

    def _body(self, delay_level: int = 0) -> bytes:
        number = next(self._numbers)
        self.sent[number] = delay_level
        # Now and then one that is long enough to be compressed.
        repeats = 700 if number % 40 == 0 else self.random.randrange(1, 200)
        return b"%0*d" % (_DIGITS, number) * repeats

    def _message(self, topic: str, delay_level: int = 0) -> rmq.Message:
        return rmq.Message(topic, self._body(delay_level), tags="AB"[len(self.sent) % 2])

    async def _send_single(self, producer: rmq.AsyncProducer) -> None:
        message = self._message(TOPIC)
        result = await producer.send(message)
        assert result.status is rmq.SendStatus.SEND_OK
        self._book(
            message.body,
            result.message_queue.queue_id,
            result.queue_offset,
            result.offset_message_id,
            result.message_id,
        )

    async def _send_batch(self, producer: rmq.AsyncProducer) -> None:
        messages = [self._message(TOPIC) for _ in range(self.random.randrange(2, 12))]
        result = await producer.send_batch(messages)
        assert result.status is rmq.SendStatus.SEND_OK
        ids = zip(result.offset_message_id.split(","), result.message_id.split(","), strict=True)
        for place, (message, (stored, key)) in enumerate(zip(messages, ids, strict=True)):
            self._book(message.body, result.message_queue.queue_id, result.queue_offset + place, stored, key)

    async def _send_delayed(self, producer: rmq.AsyncProducer) -> None:
        level = self.random.choice(list(LEVEL_MS))
        message = self._message(LATER, level)
        result = await producer.send(message, delay_level=level)
        assert result.status is rmq.SendStatus.SEND_OK
        # The answer names the queue that was asked for; offset and id are of the waiting copy (ScheduleMessageService).
        self._book(message.body, level - 1, result.queue_offset, result.offset_message_id, result.message_id, SCHEDULE)

    async def _send_old(self, pool: ConnectionPool, broker_addr: str) -> None:
        body = self._body()
        header = SendMessageRequestHeader(
            producer_group="ledger",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=self.random.randrange(_QUEUES),
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties="TAGS\x01old\x02",
        )
        answer = await pool.invoke(broker_addr, request(RequestCode.SEND_MESSAGE, header, body), _TIMEOUT_MS)
        assert answer.code == 0, answer.remark
        stored = answer.header(SendMessageResponseHeader)
        self._book(body, stored.queue_id, stored.queue_offset, stored.msg_id, None)

    def _book(
        self, body: bytes, queue_id: int, offset: int, stored_id: str, key: str | None, topic: str = TOPIC
    ) -> None:
        self.receipts[int(body[:_DIGITS])] = Receipt(topic, queue_id, offset, stored_id, key)

    # -- auditing ----------------------------------------------------------------------------------------------------------------

    def audit(self, namesrv_addr: str) -> list[str]:
        """The broken laws, one sentence each; empty when all is well."""
        found = {topic: read_topic(namesrv_addr, topic) for topic in (TOPIC, SCHEDULE, LATER)}
        broken = [*self._broken_places(found), *self._broken_once(found), *self._broken_deliveries(found)]
        return broken[:20]

    def undelivered(self, namesrv_addr: str) -> set[int]:
        """Acknowledged delayed messages that their real topic does not hold yet."""
        there = {_number(message) for queue in read_topic(namesrv_addr, LATER).values() for message in queue}
        return {number for number in self.receipts if self.sent[number]} - there

    def _broken_places(self, found: dict[str, Queues]) -> Iterator[str]:
        """Laws 1, 3 and 4."""
        for topic, queues in found.items():
            for queue_id, messages in queues.items():
                offsets = [message.queue_offset for message in messages]
                if offsets != list(range(len(offsets))):
                    yield f"{topic}/{queue_id}: offsets are not dense: {offsets[:5]} ... {offsets[-5:]}"
                now = [(_number(message), message.commit_log_offset) for message in messages]
                before = self._seen.get((topic, queue_id), [])
                if now[: len(before)] != before:
                    yield f"{topic}/{queue_id}: {len(before)} messages were there before, and not all still are"
                self._seen[topic, queue_id] = now
        for number, receipt in self.receipts.items():
            messages = found[receipt.topic].get(receipt.queue_id, [])
            if len(messages) <= receipt.queue_offset:
                yield f"message {number} is lost: {receipt}, the queue ends at {len(messages)}"
                continue
            there = messages[receipt.queue_offset]
            ids = (there.offset_message_id, receipt.message_id and there.message_id)
            if (_number(there), *ids) != (number, receipt.offset_message_id, receipt.message_id):
                yield f"message {number} is not where it was acknowledged: {receipt}, there is {_number(there)} {ids}"

    def _broken_once(self, found: dict[str, Queues]) -> Iterator[str]:
        """Law 2, and every body."""
        once: dict[int, rmq.MessageExt] = {}
        for topic, queues in found.items():
            for message in itertools.chain.from_iterable(queues.values()):
                number = _number(message)
                if message.body != message.body[:_DIGITS] * (len(message.body) // _DIGITS):
                    yield f"message {number} has another body than it was sent with"
                if (self.sent.get(number, -1) > 0) != (topic != TOPIC) or number not in self.sent:
                    yield f"message {number} was never sent to {topic}"
                if topic != LATER:
                    first = once.setdefault(number, message)
                    if first is not message:
                        yield f"message {number} is there twice: {first} and {message}"

    def _broken_deliveries(self, found: dict[str, Queues]) -> Iterator[str]:
        """Law 5."""
        waiting = {_number(message): message for queue in found[SCHEDULE].values() for message in queue}
        for message in itertools.chain.from_iterable(found[LATER].values()):
            number = _number(message)
            origin = waiting.get(number)
            if origin is None:
                yield f"message {number} was delivered, but waits nowhere"
                continue
            waited_ms = message.store_timestamp_ms - origin.store_timestamp_ms
            if waited_ms < LEVEL_MS[self.sent[number]]:
                yield f"message {number} of level {self.sent[number]} was delivered after {waited_ms} ms"


def _number(message: rmq.MessageExt) -> int:
    return int(message.body[:_DIGITS])


def read_topic(namesrv_addr: str, topic: str) -> Queues:
    """Every message of a topic by queue, in the order of the broker's answers; queues without messages are left out."""
    with rmq.Admin(namesrv_addr=namesrv_addr) as admin:
        limits = admin.topic_stats(topic)
    ranges = [(queue, offsets.min_offset, offsets.max_offset) for queue, offsets in limits.items()]
    found: Queues = {}
    with rmq.QueueReader(namesrv_addr, "ledger-audit", ranges) as reader:
        for chunk in reader:
            messages = decode_records(chunk.body, chunk.queue.broker_name)
            found.setdefault(chunk.queue.queue_id, []).extend(
                message for message in messages if chunk.start <= message.queue_offset < chunk.end
            )
    return found


def bodies_of(namesrv_addr: str, topic: str) -> list[str]:
    """Of every message of a topic, sorted."""
    return sorted(message.body.decode() for queue in read_topic(namesrv_addr, topic).values() for message in queue)


def kill_repeatedly(server: SprocketServer, ledger: SendLedger, kills: int) -> None:
    """Start, audit, send, kill; ``kills`` times. Now and then the start after it is killed too, in the middle of what it repairs.

    The server is dead at the end, as a crash leaves it.
    """
    for turn in range(kills):
        server.start(60)
        if turn == 0:
            server.create_topic(TOPIC, _QUEUES)
            server.create_topic(LATER, 2)
        assert ledger.audit(server.namesrv_addr) == [], f"after kill {turn}"
        started_s = time.monotonic()
        asyncio.run(ledger.send_until_killed(server))
        server.kill()
        if ledger.random.random() < 0.3:
            _kill_while_starting(server, ledger.random, time.monotonic() - started_s)


def _kill_while_starting(server: SprocketServer, moment: random.Random, longest_s: float) -> None:
    child = server.spawn()
    until_s = time.monotonic() + moment.uniform(0, min(longest_s, 1.0))
    poll_until(
        lambda: time.monotonic() >= until_s or child.exit_code is not None, "the moment of the kill", pause_s=0.001
    )
    server.kill()
