# SPDX-License-Identifier: Apache-2.0
"""Waits until decided rows are visible: those left to the brokers' check-backs, and those that a broker gave up
(TRANS_CHECK_MAX_TIME_TOPIC).

1. The broker's checks pass ``end`` of its half queue: each half message before it is ended, or given up, or has a copy behind ``end``.
2. A decided half message among the copies whose row is not visible is open: its answer is under way, or got lost, or was UNKNOWN.
3. A decided half message that was given up and is not visible is put back (RESUME_CHECK_HALF_MESSAGE), and is open; only while no newer
   copy of it is open: two copies could both be committed.
4. The same with the end of the copies, until nothing is open.

A row is settled when it is visible in its topic, unless the broker does not allow this group to look. If this process waited in vain, it
waits for the same half messages again with the next ones (``Responder.unsettled``).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.pulls import read_queue
from sprocketmq.client.remoting.queue_offsets import committed_offset
from sprocketmq.core.resource_names import TRANS_CHECK_MAX_TIME_TOPIC, TRANSACTION_GROUP
from sprocketmq.core.transactions.open_transactions import LocalTransactionState
from sprocketmq.errors import NetworkError, RemoteError, RocketMQError
from sprocketmq.spark.send.row_sender import is_transient_send_error
from sprocketmq.spark.troubles import troubles
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.headers import ResumeCheckHalfMessageRequestHeader
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.records.properties import REAL_TOPIC
from sprocketmq.wire.records.record import decode_records
from sprocketmq.wire.requests.offsets import GET_MAX_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP

if TYPE_CHECKING:
    from sprocketmq.spark.transactions.responder import Responder

log = logging.getLogger("sprocketmq.spark")

_TIMEOUT_MS: Final = 3_000
_READ_AT_ONCE: Final = 256
_PAUSE_S: Final = 0.25
# Enough for a copy to be dispatched to its queue, and for its answer to arrive.
_ANSWER_S: Final = 1.0
# Clocks of tasks and brokers differ; a 4.9 broker finds the message nearest to a time.
_EARLIER_MS: Final = 3_600_000


class UncheckedHalfMessages(NamedTuple):
    """Left to a broker's check-back, before the offset ``end`` of its half queue. ``since_ms``: when the oldest was sent; 0 if unknown."""

    end: int
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class _OpenRow:
    topic: str
    key: str
    born_ms: int
    commit_log_offset: int


class Settling:
    """Waits for the half messages ``left`` at each broker, by its half queue, while ``responder`` answers check-backs. ``resumed``: how
    many were put back that a broker had given up."""

    def __init__(self, responder: Responder, left: Mapping[MessageQueue, UncheckedHalfMessages]) -> None:
        self._unsettled = responder.unsettled
        self._brokers = [_Broker(responder, queue, *halves) for queue, halves in left.items()]

    @property
    def resumed(self) -> int:
        return sum(broker.resumed for broker in self._brokers)

    async def wait(self, timeout_ms: int) -> list[str]:
        """Wait until all are settled. Returns the brokers that are not settled when ``timeout_ms`` is over."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        waiting = self._brokers
        while True:
            are_done = await all_ended(broker.is_settled() for broker in waiting)
            for broker in (broker for broker, is_done in zip(waiting, are_done, strict=True) if is_done):
                if self._unsettled.get(broker.name, -1) >= broker.since_ms:
                    del self._unsettled[broker.name]
            waiting = [broker for broker, is_done in zip(waiting, are_done, strict=True) if not is_done]
            if not waiting or time.monotonic() > deadline_s:
                break
            await asyncio.sleep(_PAUSE_S)
        for broker in waiting:
            self._unsettled[broker.name] = min(broker.since_ms, self._unsettled.get(broker.name, broker.since_ms))
        return sorted(broker.name for broker in waiting)


class _Broker:
    """The half messages of one broker; those from ``end`` on are not examined yet."""

    def __init__(self, responder: Responder, halves: MessageQueue, end: int, since_ms: int) -> None:
        self._responder, self._cluster = responder, responder.cluster
        self._halves, self._end = halves, end
        self._given_up = MessageQueue(TRANS_CHECK_MAX_TIME_TOPIC, halves.broker_name, 0)
        self._given_up_at: int | None = None
        self._open: dict[str, _OpenRow] = {}
        self.name = halves.broker_name
        self.since_ms = min(since_ms, responder.unsettled.get(self.name, since_ms))
        self.resumed = 0
        self._is_refused = False

    async def is_settled(self) -> bool:
        """Whether nothing is open; False also if the broker cannot be asked now."""
        try:
            address = await self._cluster.master(self._halves.broker_name, self._halves.topic)
            asked_upto = await committed_offset(self._cluster, TRANSACTION_GROUP, self._halves, at=address) or 0
            if asked_upto < self._end:
                return False
            await asyncio.sleep(_ANSWER_S)
            await self._read_copies(address)
        except RemoteError as error:
            if is_transient_send_error(error):
                return False
            sentence = "%s does not let group %s see what is settled: %s"
            troubles.failed(("settled", self.name), sentence, self.name, self._responder.group, error)
            return True
        except RocketMQError as error:
            log.info("%s cannot be asked now what is settled: %s", self.name, error)
            self._cluster.routes.forget()
            return False
        return not self._open

    async def _read_copies(self, address: str) -> None:
        stop = (await self._cluster.ask_queue(GET_MAX_OFFSET, self._halves, at=address)).offset
        async for half in self._decided(address, self._halves, self._end, stop):
            self._note_open(half)
        self._end = max(self._end, stop)
        await self._forget_shown(address)
        if self._given_up_at is None:
            self._given_up_at = await self._first_given_up(address)
        given_up_stop = (await self._cluster.ask_queue(GET_MAX_OFFSET, self._given_up, at=address)).offset
        async for half in self._decided(address, self._given_up, self._given_up_at, given_up_stop):
            await self._resume_check(address, half)
        self._given_up_at = given_up_stop

    async def _first_given_up(self, address: str) -> int:
        """An offset in TRANS_CHECK_MAX_TIME_TOPIC at or before the first half message given up after the oldest one was sent."""
        if self.since_ms <= _EARLIER_MS:
            return 0
        asked, since_ms = SEARCH_OFFSET_BY_TIMESTAMP, self.since_ms - _EARLIER_MS
        return max(0, (await self._cluster.ask_queue(asked, self._given_up, at=address, timestamp=since_ms)).offset)

    async def _decided(self, address: str, queue: MessageQueue, start: int, end: int) -> AsyncIterator[MessageExt]:
        """The half messages of the group from ``start`` to ``end`` that are to be committed."""
        at = start
        while at < end:
            answer = await read_queue(self._cluster, address, self._responder.group, queue, at, _READ_AT_ONCE)
            for half in decode_records(answer.body) if answer.body else ():
                if at <= half.queue_offset < end:
                    state = await self._responder.state_of(half)
                    if state is LocalTransactionState.COMMIT_MESSAGE:
                        yield half
            if answer.next_begin_offset <= at:
                raise NetworkError(f"{queue} cannot be read at {at}, though it ends at {end}", address)
            at = answer.next_begin_offset

    def _note_open(self, half: MessageExt) -> None:
        topic = half.properties.get(REAL_TOPIC, "")
        self._open[half.message_id] = _OpenRow(topic, half.message_id, half.born_timestamp_ms, half.commit_log_offset)

    async def _forget_shown(self, address: str) -> None:
        rows = list(self._open.values())
        shown = self._responder.visible_rows
        asked = await self._cluster.gather(shown.is_visible(address, row.topic, row.key, row.born_ms) for row in rows)
        # None: without the index it is only known that the broker checked.
        self._open = {row.key: row for row, is_visible in zip(rows, asked, strict=True) if is_visible is False}

    async def _resume_check(self, address: str, half: MessageExt) -> None:
        known = self._open.get(half.message_id)
        if known is not None and known.commit_log_offset > half.commit_log_offset:
            return
        topic = half.properties.get(REAL_TOPIC, "")
        is_visible = await self._responder.visible_rows.is_visible(
            address, topic, half.message_id, half.born_timestamp_ms
        )
        if is_visible is not False:
            return
        header = ResumeCheckHalfMessageRequestHeader(msg_id=half.offset_message_id, topic=TRANS_CHECK_MAX_TIME_TOPIC)
        command = requests.messages.RESUME_CHECK_HALF_MESSAGE.command(header)
        answer = await self._cluster.invoke(address, command, _TIMEOUT_MS)
        if answer.code == ResponseCode.SUCCESS:
            self.resumed += 1
        elif is_transient_send_error(refusal := RemoteError(answer.code, answer.remark, address)):
            raise refusal
        elif not self._is_refused:
            self._is_refused = True
            troubles.failed(
                ("decided rows", self.name),
                "%s holds decided rows of group %s in %s and refuses to take them up again: %s; run 'sprocketmq settle' with the account "
                "of an administrator", self.name, self._responder.group, TRANS_CHECK_MAX_TIME_TOPIC, refusal
            )  # fmt: skip
        self._note_open(half)
