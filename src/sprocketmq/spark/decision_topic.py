"""The ledger as a topic: one queue on one broker, read from its end backwards as far as a question needs, written by drivers only.

What the records mean is ``core.decision_ledger``. Belongs to the process's engine loop; a process reads each part of the topic once.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from sprocketmq.client.api import RemotingApi
from sprocketmq.core.decision_ledger import Decision, DecisionLedger, Names, Record, Standing
from sprocketmq.core.open_transactions import LocalTransactionState
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.message import MessageQueue
from sprocketmq.wire.record import decode_records

__all__ = ["DecisionTopic"]

_READ_AT_ONCE: Final = 256
_FIRST_PART: Final = 32
# A broker that asks about thousands of halves asks all of them within a moment.
_FRESH_FOR_S: Final = 0.2
_MASTER: Final = 0
_ROUTE_WAIT_S: Final = 10.0
_POLL_S: Final = 0.05


class DecisionTopic:
    """Reads the decisions of one ledger topic.

    Args:
        api: to the brokers.
        topic: its name.
        group: who reads, as the broker sees it.
    """

    def __init__(self, api: RemotingApi, topic: str, group: str) -> None:
        self._api, self.topic, self._group = api, topic, group
        self._queue: MessageQueue | None = None
        self._address = ""
        self._ledger: DecisionLedger | None = None
        self._lock = asyncio.Lock()
        self._read_at_s = 0.0

    async def queue(self, *, create: bool = False) -> MessageQueue:
        """The one queue that holds the decisions.

        Args:
            create: make the topic when the name server does not know it; only for who knows that nothing can have been decided yet.

        Raises:
            NetworkError: the name server knows no such topic (now), and ``create`` is false.
            ConfigurationError: more than one broker has it.
        """
        route = await self._api.route(self.topic)
        if route is None or not route.queue_datas:
            if not create:
                raise NetworkError(
                    f"the ledger topic {self.topic!r} has no route; start its broker, or create it with one queue on one broker if no "
                    "write of this query was ever transactional"
                )
            route = await self._created()
        names = {data.broker_name for data in route.queue_datas}
        if len(names) != 1:
            raise ConfigurationError(
                f"the ledger topic {self.topic!r} is on the brokers {', '.join(sorted(names))}; it must be on one of them only, "
                "delete it on those that never held it"
            )
        self._queue = MessageQueue(self.topic, names.pop(), 0)
        broker = next((data for data in route.broker_datas if data.broker_name == self._queue.broker_name), None)
        if broker is None or _MASTER not in broker.broker_addrs:
            raise NetworkError(f"the broker {self._queue.broker_name!r} of the ledger {self.topic!r} has no master now")
        self._address = broker.broker_addrs[_MASTER]
        return self._queue

    async def standing(self, query: str, batch: int, *, create: bool = False) -> Standing:
        """How a batch stands, by all that is stored now; never UNREAD."""
        async with self._lock:
            if self._queue is None or create:
                await self.queue(create=create)
            ledger = await self._read_newer()
            return await self._read_older_for(ledger, query, batch)

    async def ledger_of(self, query: str, batch: int, upto: int = 0, *, is_new: bool = False) -> DecisionLedger:
        """The ledger, read to its end (at least to ``upto``) and as far back as ``batch`` needs; for a query that ``is_new``, no further
        than it is read now."""
        async with self._lock:
            ledger = await self._read_newer(upto)
            if is_new:
                ledger.is_new(query)
            await self._read_older_for(ledger, query, batch)
            return ledger

    async def answer(self, query: str, batch: int, attempt: str, half: str) -> LocalTransactionState:
        """What a broker is told that asks about a half."""
        async with self._lock:
            ledger = self._ledger
            if ledger is None or time.monotonic() - self._read_at_s > _FRESH_FOR_S:
                ledger = await self._read_newer()
            await self._read_older_for(ledger, query, batch)
            return ledger.answer(query, batch, attempt, half)

    # -- reading ---------------------------------------------------------------------------------------------------------------

    async def _read_newer(self, upto: int = 0) -> DecisionLedger:
        try:
            queue = self._queue or await self.queue()
            end = await self._api.max_offset(self._address, queue)
            deadline_s = time.monotonic() + _ROUTE_WAIT_S
            while end < upto:  # stored, but the broker has not entered it into the queue yet
                if time.monotonic() > deadline_s:
                    raise NetworkError(f"{queue} ends at {end}, before {upto}, which it said it stored", self._address)
                await asyncio.sleep(_POLL_S)
                end = await self._api.max_offset(self._address, queue)
            if self._ledger is None:
                self._ledger = DecisionLedger(end)
            ledger = self._ledger
            ledger.read_newer((await self._part(queue, ledger.end, end))[0], end)
        except (NetworkError, RemoteError):
            self._queue = None  # its broker may have moved
            raise
        self._read_at_s = time.monotonic()
        return ledger

    async def _read_older_for(self, ledger: DecisionLedger, query: str, batch: int) -> Standing:
        size = _FIRST_PART
        while (standing := ledger.standing(query, batch)) is Standing.UNREAD:
            queue = self._queue or await self.queue()
            oldest = await self._api.min_offset(self._address, queue)
            start = max(oldest, ledger.start - size)
            if start < ledger.start:
                records, oldest_now = await self._part(queue, start, ledger.start)
                oldest = max(oldest, oldest_now)
            else:
                records, start = [], ledger.start
            ledger.read_older(records, start, oldest)
            size *= 4
        return standing

    async def _part(self, queue: MessageQueue, start: int, end: int) -> tuple[list[tuple[int, Record]], int]:
        """The records from ``start`` to ``end``, and where the queue begins now."""
        found: list[tuple[int, Record]] = []
        at, oldest = start, 0
        while at < end:
            answer = await self._api.read_queue(self._address, self._group, queue, at, _READ_AT_ONCE)
            oldest = answer.min_offset
            for message in decode_records(answer.body) if answer.body else ():
                if at <= message.queue_offset < end:
                    record = Decision.decode(message.body) or Names.decode(message.body)
                    if record is not None:
                        found.append((message.queue_offset, record))
            if answer.next_begin_offset <= at:
                raise NetworkError(f"{queue} cannot be read at {at}, though it ends at {end}", self._address)
            at = answer.next_begin_offset
        return found, oldest

    # -- making it -------------------------------------------------------------------------------------------------------------

    async def _created(self) -> bodies.TopicRouteData:
        """On the first broker by name: whoever else makes it at the same moment chooses the same one."""
        info = await self._api.cluster_info()
        masters = {
            name: data.broker_addrs[_MASTER]
            for name, data in info.broker_addr_table.items()
            if _MASTER in data.broker_addrs
        }
        if not masters:
            raise NetworkError("no broker is registered with the name server now; is one running?")
        header = headers.CreateTopicRequestHeader(
            topic=self.topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6
        )
        await self._api.create_topic(masters[min(masters)], header)
        deadline_s = time.monotonic() + _ROUTE_WAIT_S
        while True:
            route = await self._api.route(self.topic)
            if route is not None and route.queue_datas:
                return route
            if time.monotonic() > deadline_s:
                raise NetworkError(f"the ledger topic {self.topic!r} was created, and the name server does not know it")
            await asyncio.sleep(_POLL_S)
