# SPDX-License-Identifier: Apache-2.0
"""The ledger as a topic: one queue on one broker, written by drivers only, read from its end backwards as far as needed, each part once.
``core.transactions.decision_ledger`` says what the records mean, ``ledger_location`` on which broker the topic is."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from sprocketmq.client.remoting.cluster import Cluster
from sprocketmq.client.remoting.pulls import read_queue
from sprocketmq.core.transactions.decision_ledger import BatchStatus, Decision, DecisionLedger, QuerySummary, Record
from sprocketmq.core.transactions.open_transactions import LocalTransactionState
from sprocketmq.errors import NetworkError, RemoteError
from sprocketmq.spark.transactions.ledger_location import broker_settings, find_ledger
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.records.record import decode_records
from sprocketmq.wire.requests.offsets import GET_MAX_OFFSET, GET_MIN_OFFSET

log = logging.getLogger("sprocketmq.spark")

_READ_AT_ONCE: Final = 256
_FIRST_PART: Final = 32
# A broker sends thousands of check-backs at nearly the same moment.
_FRESH_FOR_S: Final = 0.2
_ROUTE_WAIT_S: Final = 10.0
_POLL_S: Final = 0.05


class DecisionTopic:
    """Belongs to the loop of its process's engine. ``group``: the one that requests name."""

    def __init__(self, cluster: Cluster, topic: str, group: str) -> None:
        self._cluster, self.topic, self._group = cluster, topic, group
        self._queue: MessageQueue | None = None
        self._address = ""
        self._broker_name: str | None = None
        self._warned = False
        self._ledger: DecisionLedger | None = None
        self._lock = asyncio.Lock()
        self._read_at_s = 0.0

    async def queue(self, *, create: bool = False) -> MessageQueue:
        """``create``: create an unknown topic; only when nothing can have been decided yet. Raises NetworkError (the topic is unknown, or
        its broker unreachable), ConfigurationError (decisions are on more than one broker)."""
        place = await find_ledger(self._cluster, self.topic, create=create)
        if self._broker_name not in (None, place.queue.broker_name):
            self._ledger = None  # it was merged into another ledger, where the same records have other offsets
        self._queue, self._address, self._broker_name = place.queue, place.address, place.queue.broker_name
        return place.queue

    async def batch_status(self, query: str, batch: int, *, create: bool = False) -> BatchStatus:
        """The status of a batch by all records that are stored now; never UNREAD."""
        async with self._lock:
            if self._queue is None or create:
                await self.queue(create=create)
            ledger = await self._read_newer()
            return await self._read_older_for(ledger, query, batch)

    async def ledger_of(self, query: str, batch: int, upto: int = 0, *, is_new: bool = False) -> DecisionLedger:
        """Read to its end (at least to ``upto``) and as far back as ``batch`` needs; nothing older for a query that ``is_new``."""
        async with self._lock:
            ledger = await self._read_newer(upto)
            await self._warn_once()
            if is_new:
                ledger.is_new(query)
            await self._read_older_for(ledger, query, batch)
            return ledger

    async def answer(self, query: str, batch: int, attempt: str, half: str) -> LocalTransactionState:
        async with self._lock:
            ledger = self._ledger
            if ledger is None or time.monotonic() - self._read_at_s > _FRESH_FOR_S:
                ledger = await self._read_newer()
            await self._read_older_for(ledger, query, batch)
            return ledger.answer(query, batch, attempt, half)

    async def _warn_once(self) -> None:
        """Warn if the broker may lose acknowledged decisions. Only drivers call this, and it warns once in a process."""
        if self._warned:
            return
        self._warned = True
        settings = await broker_settings(self._cluster, self._address)
        if settings.get("flushDiskType") == "ASYNC_FLUSH":
            log.warning(
                "the ledger %s is on broker %s with flushDiskType=ASYNC_FLUSH: a power cut of its machine may take decisions of the last "
                "moments, whose batches would be written twice, or not appear; set flushDiskType=SYNC_FLUSH there",
                *(self.topic, self._broker_name),
            )

    # -- reading ---------------------------------------------------------------------------------------------------------------

    async def _read_newer(self, upto: int = 0) -> DecisionLedger:
        try:
            queue = self._queue or await self.queue()
            end = (await self._cluster.ask_queue(GET_MAX_OFFSET, queue, at=self._address)).offset
            deadline_s = time.monotonic() + _ROUTE_WAIT_S
            while end < upto:  # stored, but not dispatched to the consume queue yet
                if time.monotonic() > deadline_s:
                    raise NetworkError(
                        f"{queue} ends at {end}, before {upto}, which its broker acknowledged", self._address
                    )
                await asyncio.sleep(_POLL_S)
                end = (await self._cluster.ask_queue(GET_MAX_OFFSET, queue, at=self._address)).offset
            if self._ledger is None:
                self._ledger = DecisionLedger(end)
            ledger = self._ledger
            ledger.read_newer((await self._part(queue, ledger.end, end))[0], end)
        except (NetworkError, RemoteError):
            self._queue = None  # its broker may have moved
            raise
        self._read_at_s = time.monotonic()
        return ledger

    async def _read_older_for(self, ledger: DecisionLedger, query: str, batch: int) -> BatchStatus:
        size = _FIRST_PART
        while (batch_status := ledger.batch_status(query, batch)) is BatchStatus.UNREAD:
            queue = self._queue or await self.queue()
            oldest = (await self._cluster.ask_queue(GET_MIN_OFFSET, queue, at=self._address)).offset
            start = max(oldest, ledger.start - size)
            if start < ledger.start:
                records, oldest_now = await self._part(queue, start, ledger.start)
                oldest = max(oldest, oldest_now)
            else:
                records, start = [], ledger.start
            ledger.read_older(records, start, oldest)
            size *= 4
        return batch_status

    async def _part(self, queue: MessageQueue, start: int, end: int) -> tuple[list[tuple[int, Record]], int]:
        return await read_records(self._cluster, self._address, self._group, queue, start, end)


async def read_records(
    cluster: Cluster, address: str, group: str, queue: MessageQueue, start: int, end: int
) -> tuple[list[tuple[int, Record]], int]:
    """The records of a ledger from ``start`` to ``end``, and the smallest offset of the queue."""
    found: list[tuple[int, Record]] = []
    at, oldest = start, 0
    while at < end:
        answer = await read_queue(cluster, address, group, queue, at, _READ_AT_ONCE)
        oldest = answer.min_offset
        for message in decode_records(answer.body) if answer.body else ():
            if at <= message.queue_offset < end:
                record = Decision.decode(message.body) or QuerySummary.decode(message.body)
                if record is not None:
                    found.append((message.queue_offset, record))
        if answer.next_begin_offset <= at:
            raise NetworkError(f"{queue} cannot be read at {at}, though it ends at {end}", address)
        at = answer.next_begin_offset
    return found, oldest
