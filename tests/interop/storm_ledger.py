# SPDX-License-Identifier: Apache-2.0
"""Books about a mixed load while its broker is killed over and over, and the laws that the broker's store must keep.

``load`` runs all kinds of work at once over four connections until the broker goes away: single sends, batches, delayed messages,
transactions, retries (send-back), offset commits, and topics, groups, users, policies and keys that come and go. ``audit`` reads what was
stored since the audit before; with ``whole=True`` it reads everything again.

1. An acknowledged message is at the topic, queue and offset that its answer named, with the body that was sent.
2. No message is in the log twice that was sent once. One whose answer got lost is there once or not at all. Exempt: deliveries of
   delayed and retried messages (at least once) and half messages (put anew for each check).
3. Offsets of a queue are dense from 0, and what an audit saw is at the same place for ever.
4. In one queue, messages of one connection are in the order in which they were written to it.
5. A committed transaction whose half was acknowledged is visible once in the end; a rolled back one never is.
6. A delayed message is delivered in the end, and not before it is due. So is each acknowledged retry.
7. After a restart a group's offset is none that was never committed, and not lower than the restart before found it.
8., 9. Topics that are made and deleted: `StormTopics`.
10. Groups, users, policies and keys that are made, changed and deleted: `StormTables`.

Messages are told apart by the number that their body repeats, not by an id that the code under test gave them.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from interop.storm_tables import StormTables
from interop.storm_topics import StormTopics
from sprocketmq.errors import RocketMQError
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.wire import headers
from sprocketmq.wire.bodies import HeartbeatData, ProducerData
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command, request
from sprocketmq.wire.records.batch import encode_batch
from sprocketmq.wire.records.message import Message, MessageExt
from sprocketmq.wire.records.properties import encode_properties
from sprocketmq.wire.records.record import decode_record, decode_records

# Files so small that kills find some that are full; checks and flushes so frequent that kills find them at work.
STORM_CONF: Final[dict[str, Any]] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 300 * 20,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 4_000,
    "messageDelayLevel": "1s 2s 3s",
    "flushConsumerOffsetInterval": 250,
    "flushDelayOffsetInterval": 300,
    "transactionCheckInterval": 300,
    "transactionTimeOut": 500,
    "transactionCheckMax": 100_000,
    "maxTransferCountOnMessageInMemory": 1_000,
    "maxTransferBytesOnMessageInMemory": 1 << 20,
    "haListenPort": -1,
}
TOPIC: Final = "storm"
LATER: Final = "storm-later"
TRANSFERS: Final = "storm-transfers"
GROUP: Final = "stormers"
RETRY: Final = f"%RETRY%{GROUP}"
SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"
HALVES: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
LEVEL_MS: Final = {1: 1_000, 2: 2_000, 3: 3_000}
COMMIT: Final = 8
ROLLBACK: Final = 12

_QUEUES: Final = 4
_CONNECTIONS: Final = 4
_DIGITS: Final = 8
_TIMEOUT_S: Final = 60.0
# Where each topic's messages are looked for. The retry topic has one queue, as a new group's has.
_PLACES: Final = {TOPIC: _QUEUES, LATER: 2, TRANSFERS: 2, SCHEDULE: len(LEVEL_MS), HALVES: 1, RETRY: 1}

Place = tuple[str, int]


@dataclass(frozen=True)
class Sent:
    """What was asked of the broker: over which connection, for which topic; ``delay_level`` 0 for none, ``decision`` 0 for none."""

    connection: int
    topic: str
    delay_level: int = 0
    decision: int = 0


@dataclass(frozen=True)
class Seen:
    """What an audit found at a place."""

    number: int
    commit_log_offset: int
    store_timestamp_ms: int


class StormLedger:
    """The books of one store.

    Args:
        seed: of the mix of work; what is under way at a kill is up to the machine.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sent: dict[int, Sent] = {}
        self.receipts: dict[int, tuple[str, int, int]] = {}
        self.done: Counter[str] = Counter()  # acknowledged requests by kind
        self.cut_off = 0
        self.found: dict[Place, list[Seen]] = defaultdict(list)
        self._numbers = itertools.count(1)
        self._unchecked: list[int] = []  # receipts since the last audit
        self._tries: Counter[int] = Counter()  # send-backs asked for, by number
        self._acks: Counter[int] = Counter()  # send-backs acknowledged
        self._committed: dict[int, int] = defaultdict(int)  # highest offset asked to be committed, by queue
        self._restarted_at: dict[int, int] = defaultdict(int)
        self._first_in_log: dict[int, str] = {}
        self._last_of: dict[tuple[int, int], int] = defaultdict(int)  # (queue, connection) -> last number
        self._gone = False
        self._topics = StormTopics(self.random, self._ask, self.done)
        self._tables = StormTables(self.random, self._ask, self.done)

    @property
    def acknowledged(self) -> int:
        """Messages and requests that the broker said yes to."""
        return sum(self.done.values())

    # -- load ----------------------------------------------------------------------------------------------------------------------

    async def create_names(self, address: str) -> None:
        """Once, on a new store."""
        pool = ConnectionPool()
        try:
            for topic in (TOPIC, LATER, TRANSFERS):
                count = _PLACES[topic]
                header = headers.CreateTopicRequestHeader(topic, "TBW102", count, count, 6, topic_sys_flag=0)
                answer = await pool.invoke(address, request(RequestCode.UPDATE_AND_CREATE_TOPIC, header), 60_000)
                assert answer.code == 0, answer.remark
            await self._tables.create_users(await pool.connection(address))
        finally:
            await pool.aclose()

    async def load(self, address: str, namesrv: str, end: Callable[[], bool], *, idle: bool = False) -> None:
        """Work until ``end()`` is true, by which the servers may be gone; any other failure is raised. ``idle``: only answer checks."""
        self._gone = False
        pools = [ConnectionPool(self._asked) for _ in range(_CONNECTIONS)]
        workers: list[asyncio.Future[None]] = []
        try:
            connections = [await pool.connection(address) for pool in pools]
            namesrvs = [await pool.connection(namesrv) for pool in pools]
            beat = HeartbeatData(client_id="storm", producer_data_set=[ProducerData(group_name=GROUP)])
            await self._ask(connections[0], RequestCode.HEART_BEAT, None, beat.encode())
            for number, connection in enumerate([] if idle else connections):
                works: list[Callable[[int, Connection], Any]] = [
                    self._send,
                    self._send,
                    self._send_v1,
                    self._send_batch,
                ]
                works += [self._topics.remake, partial(self._administrate, namesrvs[number])]
                works += [self._send_delayed, self._transfer] if number % 2 else [self._consume, self._transfer]
                workers += [asyncio.ensure_future(self._work(work, number, connection)) for work in works]
            while not end() and not any(worker.done() for worker in workers):
                await asyncio.sleep(0.001)
            self._gone = True
            await asyncio.gather(*workers)
        finally:
            self._gone = True
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            for pool in pools:
                await pool.aclose()

    async def _administrate(self, namesrv: Connection, who: int, connection: Connection) -> None:
        await self._tables.change(who, connection, namesrv)

    async def _work(self, work: Callable[[int, Connection], Any], number: int, connection: Connection) -> None:
        try:
            while not self._gone:
                await work(number, connection)
        except RocketMQError:
            if not self._gone:
                raise
            self.cut_off += 1

    async def _ask(self, connection: Connection, code: int, header: Any, body: bytes = b"") -> Command:
        # Written at once, so that what is numbered first is on the wire first.
        waiting = connection.start_invoke(request(code, header, body))
        return await asyncio.wait_for(waiting, _TIMEOUT_S)

    def _new(self, connection: int, topic: str, delay_level: int = 0, decision: int = 0) -> tuple[int, bytes]:
        number = next(self._numbers)
        self.sent[number] = Sent(connection, topic, delay_level, decision)
        return number, b"%0*d" % (_DIGITS, number) * self.random.randrange(1, 60)

    def _book(
        self, kind: str, number: int, topic: str, answer: Command, queue_id: int | None = None, step: int = 0
    ) -> None:
        stored = answer.header(headers.SendMessageResponseHeader)
        queue = stored.queue_id if queue_id is None else queue_id
        self.receipts[number] = (topic, queue, stored.queue_offset + step)
        self._unchecked.append(number)
        self.done[kind] += 1

    async def _send(self, who: int, connection: Connection) -> None:
        number, body = self._new(who, TOPIC)
        header = _send_header(TOPIC, number, queue_id=self.random.randrange(_QUEUES), TAGS="AB"[number % 2])
        self._book(
            "send", number, TOPIC, self._fine(await self._ask(connection, RequestCode.SEND_MESSAGE_V2, header, body))
        )

    async def _send_v1(self, who: int, connection: Connection) -> None:
        number, body = self._new(who, TOPIC)
        v2 = _send_header(TOPIC, number, queue_id=self.random.randrange(_QUEUES), KEYS=f"key-{number % 50}")
        header = headers.SendMessageRequestHeader(**{field: getattr(v2, field) for field in v2.__struct_fields__})
        self._book(
            "send v1", number, TOPIC, self._fine(await self._ask(connection, RequestCode.SEND_MESSAGE, header, body))
        )

    async def _send_batch(self, who: int, connection: Connection) -> None:
        made = [self._new(who, TOPIC) for _ in range(self.random.randrange(2, 10))]
        body = encode_batch(_element(number, body) for number, body in made)
        header = _send_header(TOPIC, made[0][0], queue_id=self.random.randrange(_QUEUES))
        header.batch = True
        answer = self._fine(await self._ask(connection, RequestCode.SEND_BATCH_MESSAGE, header, body))
        for step, (number, _) in enumerate(made):
            self._book("batch", number, TOPIC, answer, step=step)

    async def _send_delayed(self, who: int, connection: Connection) -> None:
        level = self.random.choice(list(LEVEL_MS))
        number, body = self._new(who, LATER, level)
        header = _send_header(LATER, number, queue_id=0, DELAY=str(level))
        answer = self._fine(await self._ask(connection, RequestCode.SEND_MESSAGE_V2, header, body))
        # The answer names the queue that was asked for; its offset is of the waiting copy (ScheduleMessageService).
        self._book("delayed", number, SCHEDULE, answer, queue_id=level - 1)

    async def _transfer(self, who: int, connection: Connection) -> None:
        decision = self.random.choice((COMMIT, ROLLBACK))
        number, body = self._new(who, TRANSFERS, decision=decision)
        header = _send_header(TRANSFERS, number, queue_id=number % 2, TRAN_MSG="true", PGROUP=GROUP)
        header.sys_flag = 4
        answer = self._fine(await self._ask(connection, RequestCode.SEND_MESSAGE_V2, header, body))
        self._book("half", number, HALVES, answer, queue_id=0)
        if self.random.random() < 0.1:
            return  # its broker has to ask
        ext = answer.ext_fields
        end = headers.EndTransactionRequestHeader(
            GROUP, int(ext["queueOffset"]), int(ext["msgId"][-16:], 16), decision, False, f"u{number}", f"u{number}"
        )
        if self.random.random() < 0.3:  # as clients do; nobody promises anything
            connection.send(request(RequestCode.END_TRANSACTION, end, oneway=True))
            return
        self._fine(await self._ask(connection, RequestCode.END_TRANSACTION, end))
        self.done["end"] += 1

    def _asked(self, connection: Connection, command: Command) -> None:
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return
        header = command.header(headers.CheckTransactionStateRequestHeader)
        number = _number(decode_record(bytes(command.body)))
        end = headers.EndTransactionRequestHeader(
            GROUP,
            header.tran_state_table_offset,
            header.commit_log_offset,
            self.sent[number].decision,
            True,
            f"u{number}",
            f"u{number}",
        )
        connection.send(request(RequestCode.END_TRANSACTION, end, oneway=True))
        self.done["check"] += 1

    async def _consume(self, who: int, connection: Connection) -> None:
        """A round over this member's queues: from the group's progress on, some messages sent back, progress committed."""
        for queue_id in range(who // 2, _QUEUES, 2):
            header = headers.QueryConsumerOffsetRequestHeader(GROUP, TOPIC, queue_id, False)
            answer = await self._ask(connection, RequestCode.QUERY_CONSUMER_OFFSET, header)
            offset = int(answer.ext_fields["offset"]) if answer.code == 0 else 0
            for _ in range(3):
                pulled = await self._ask(
                    connection, RequestCode.PULL_MESSAGE, _pull_header(GROUP, TOPIC, queue_id, offset, 32)
                )
                if pulled.code:
                    break
                for message in decode_records(pulled.body):
                    if self.random.random() < 0.02:
                        await self._send_back(connection, message)
                offset = int(pulled.ext_fields["nextBeginOffset"])
                self._committed[queue_id] = max(self._committed[queue_id], offset)
                commit = headers.UpdateConsumerOffsetRequestHeader(GROUP, TOPIC, queue_id, offset)
                self._fine(await self._ask(connection, RequestCode.UPDATE_CONSUMER_OFFSET, commit))
                self.done["commit"] += 1
        await asyncio.sleep(0)

    async def _send_back(self, connection: Connection, message: MessageExt) -> None:
        number = _number(message)
        header = headers.ConsumerSendMsgBackRequestHeader(
            message.commit_log_offset, GROUP, self.random.choice(list(LEVEL_MS)), origin_topic=TOPIC
        )
        self._tries[number] += 1
        self._fine(await self._ask(connection, RequestCode.CONSUMER_SEND_MSG_BACK, header))
        self._acks[number] += 1
        self.done["send back"] += 1

    @staticmethod
    def _fine(answer: Command) -> Command:
        assert answer.code == 0, f"{answer.code}: {answer.remark}"
        return answer

    # -- audit -----------------------------------------------------------------------------------------------------------------------

    async def audit(self, address: str, namesrv: str, *, whole: bool = False) -> list[str]:
        """The broken laws, one sentence each, at most twenty; empty when all is well."""
        pool = ConnectionPool()
        broken: list[str] = []
        try:
            connection = await pool.connection(address)
            for topic, queues in _PLACES.items():
                for queue_id in range(queues):
                    broken += await self._read(connection, (topic, queue_id), whole)
            broken += await self._broken_progress(connection)
            broken += await self._topics.broken(connection)
            broken += await self._tables.broken(connection, await pool.connection(namesrv))
        finally:
            await pool.aclose()
        broken += self._broken_receipts(self.receipts if whole else self._unchecked)
        self._unchecked = []
        return broken[:20]

    async def _read(self, connection: Connection, place: Place, whole: bool) -> list[str]:
        """Laws 2 to 4 of what is new in one queue; with ``whole``, law 3 of what was there as well."""
        known, broken = self.found[place], []
        at = 0 if whole else max(0, len(known) - 3)  # some known ones again: a hole would show at the joint
        while True:
            answer = await self._ask(connection, RequestCode.PULL_MESSAGE, _pull_header("audit", *place, at, 1_000))
            if answer.code:
                if answer.code not in (17, 19):
                    broken.append(f"{place}: a pull at {at} was answered {answer.code} {answer.remark}")
                break
            for message in decode_records(answer.body):
                if message.queue_offset != at:
                    broken.append(f"{place}: at {at} there is offset {message.queue_offset}")
                number = _number(message)
                if message.body != message.body[:_DIGITS] * (len(message.body) // _DIGITS):
                    broken.append(f"{place}: message {number} has another body than it was sent with")
                seen = Seen(number, message.commit_log_offset, message.store_timestamp_ms)
                if at < len(known):
                    if known[at] != seen:
                        broken.append(f"{place}: at {at} there was {known[at]}, now {seen}")
                else:
                    known.append(seen)
                    broken += self._broken_new(place, at, seen)
                at += 1
        if at < len(known):
            broken.append(f"{place}: {len(known)} messages were there before, now {at}")
        return broken

    def _broken_new(self, place: Place, at: int, seen: Seen) -> Iterator[str]:
        number, (topic, queue_id) = seen.number, place
        sent = self.sent.get(number)
        if sent is None:
            yield f"{place}: message {number} at {at} was never sent"
            return
        if topic == TOPIC:
            last = self._last_of[queue_id, sent.connection]
            if number < last:
                yield f"{place}: message {number} of connection {sent.connection} is behind its later {last}"
            self._last_of[queue_id, sent.connection] = number
        if topic in (TOPIC, TRANSFERS) or (topic == SCHEDULE and sent.delay_level):
            first = self._first_in_log.setdefault(number, f"{place} {at}")
            if first != f"{place} {at}":
                yield f"message {number} is there twice: at {first} and at {place} {at}"
        if topic == TRANSFERS and sent.decision != COMMIT:
            yield f"message {number} was rolled back, and is visible"
        expected = {SCHEDULE: LATER if sent.delay_level else TOPIC, RETRY: TOPIC, HALVES: TRANSFERS}.get(topic, topic)
        if sent.topic != expected:
            yield f"{place}: message {number} was sent to {sent.topic}"

    def _broken_receipts(self, numbers: Any) -> Iterator[str]:
        """Law 1."""
        for number in numbers:
            topic, queue_id, offset = self.receipts[number]
            queue = self.found[topic, queue_id]
            if offset >= len(queue):
                yield f"message {number} is lost: acknowledged at {topic}/{queue_id}/{offset}, the queue ends at {len(queue)}"
            elif queue[offset].number != number:
                yield f"message {number} was acknowledged at {topic}/{queue_id}/{offset}, there is {queue[offset].number}"

    async def _broken_progress(self, connection: Connection) -> list[str]:
        """Law 7; the group has no member during an audit."""
        broken = []
        for queue_id in range(_QUEUES):
            header = headers.QueryConsumerOffsetRequestHeader(GROUP, TOPIC, queue_id, False)
            answer = await self._ask(connection, RequestCode.QUERY_CONSUMER_OFFSET, header)
            offset = int(answer.ext_fields["offset"]) if answer.code == 0 else 0
            if not self._restarted_at[queue_id] <= offset <= self._committed[queue_id]:
                broken.append(
                    f"queue {queue_id}: the group is at {offset}; at most {self._committed[queue_id]} was committed, "
                    f"{self._restarted_at[queue_id]} was on disk before"
                )
            self._restarted_at[queue_id] = offset
        return broken

    # -- the end ---------------------------------------------------------------------------------------------------------------------

    def outstanding(self) -> dict[str, int]:
        """What still has to happen by laws 5 and 6, by kind; empty when nothing does. Of what the last audit saw."""
        counts = {topic: self._count(topic) for topic in (LATER, TRANSFERS, RETRY)}
        waiting = {
            "delayed": sum(1 for n in self.receipts if self.sent[n].delay_level and not counts[LATER][n]),
            "committed": sum(1 for n in self.receipts if self.sent[n].decision == COMMIT and not counts[TRANSFERS][n]),
            "retries": sum(1 for n, acks in self._acks.items() if counts[RETRY][n] < acks),
        }
        return {kind: number for kind, number in waiting.items() if number}

    def broken_deliveries(self) -> list[str]:
        """Laws 2 and 6 about what waited: copies of retries are as many as were asked for, nothing came before it was due."""
        due: dict[int, list[int]] = defaultdict(list)
        for level, wait_ms in LEVEL_MS.items():
            for seen in self.found[SCHEDULE, level - 1]:
                due[seen.number].append(seen.store_timestamp_ms + wait_ms)
        broken = []
        for number, times in due.items():
            sent = self.sent[number]
            if not sent.delay_level and not self._acks[number] <= len(times) <= self._tries[number]:
                broken.append(
                    f"message {number} was sent back {self._acks[number]} to {self._tries[number]} times, {len(times)} copies waited"
                )
        for topic in (LATER, RETRY):
            for queue_id in range(_PLACES[topic]):
                for seen in self.found[topic, queue_id]:
                    if seen.number not in due:
                        broken.append(f"message {seen.number} was delivered to {topic}, but waited nowhere")
                    elif seen.store_timestamp_ms < min(due[seen.number]):
                        broken.append(f"message {seen.number} was delivered to {topic} before it was due")
        return broken[:20]

    def delivered_again(self) -> int:
        """Deliveries that kills made happen twice, which laws 2 and 6 allow."""
        waited = Counter(seen.number for level in LEVEL_MS for seen in self.found[SCHEDULE, level - 1])
        came = self._count(LATER) + self._count(RETRY)
        return sum(max(0, times - waited[number]) for number, times in came.items())

    def _count(self, topic: str) -> Counter[int]:
        return Counter(seen.number for queue_id in range(_PLACES[topic]) for seen in self.found[topic, queue_id])


def _number(message: MessageExt) -> int:
    return int(bytes(message.body[:_DIGITS]))


def _element(number: int, body: bytes) -> Message:
    message = Message(TOPIC, body)
    message.properties["UNIQ_KEY"] = f"u{number}"
    return message


def _send_header(topic: str, number: int, *, queue_id: int, **properties: str) -> headers.SendMessageRequestHeaderV2:
    text = encode_properties({"UNIQ_KEY": f"u{number}", **properties}).decode()
    return headers.SendMessageRequestHeaderV2(
        GROUP, topic, "TBW102", 4, queue_id, 0, time.time_ns() // 1_000_000, 0, text
    )


def _pull_header(group: str, topic: str, queue_id: int, offset: int, count: int) -> headers.PullMessageRequestHeader:
    return headers.PullMessageRequestHeader(group, topic, queue_id, offset, count, 4, 0, 0, 0, "*", "TAG")
