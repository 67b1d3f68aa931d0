# SPDX-License-Identifier: Apache-2.0
"""Answers that wait for the disk under SYNC_FLUSH (Java: CommitLog.GroupCommitService). After 5 s the code is 10 FLUSH_DISK_TIMEOUT
(stored, as clients know), after a failure of the disk 14 SERVICE_NOT_AVAILABLE.

1. One flush is requested at a time, up to the end of the log then; all answers that it covers are sent together, so senders share it.
2. Answers are sent in the order of their records; one for an earlier record, given later, is sent with the one before it.
3. While a disk is slow, the broker stops reading from a connection with too many waiting answers (``Connection.hold``).
4. The answer to a message that was sent back waits for 3 s at most, for no slave, and is SUCCESS then: for any other code a consumer stores
   a copy of its own, which comes again, too. (Apache does not wait at all.) Behind an earlier send it may wait as long as that one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from sprocketmq.errors import StoreError
from sprocketmq.net.connection import Connection, text_bytes
from sprocketmq.net.gathered_answers import GatheredAnswers
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

_WAITING_BYTES: Final = 2048  # an answer without its ids; the request is let go

# A consumer gives up after 5 s and stores a copy of its own.
_SENT_BACK_S: Final = 3.0

# End of the record, where to, the answer (None: the request was one-way), until when, what the connection keeps for it, whether it is of a
# message that was sent back. A tuple, as one is made for each message.
_Waiting = tuple[int, Connection, Command | None, float, int, bool]


class DurableAnswers:
    """The answers to sends that wait for the disk; those of a SYNC_MASTER wait for a slave after that."""

    def __init__(self, broker: Broker) -> None:
        self._broker, self._store = broker, broker.store
        self._timeout_s: Final = broker.config.sync_flush_timeout_ms / 1000
        self._waiting: deque[_Waiting] = deque()
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, connection: Connection, answer: Command | None, end: int, *, sent_back: bool = False) -> None:
        """Send ``answer``, or nothing, when everything before physical offset ``end`` is on the disk. ``sent_back``: rule 4."""
        kept_bytes = _WAITING_BYTES if answer is None else _WAITING_BYTES + text_bytes(answer)  # of a batch megabytes
        connection.hold(kept_bytes)
        waiting = self._waiting
        if waiting and end < waiting[-1][0]:  # rule 2: the end of the last one covers all
            end = waiting[-1][0]
        limit_s = min(self._timeout_s, _SENT_BACK_S) if sent_back else self._timeout_s
        waiting.append((end, connection, answer, connection.now_s() + limit_s, kept_bytes, sent_back))
        if not self._flushing:
            # At the end of this turn, so that the other sends of the same read join this flush.
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(waiting[0][3], self._time_out)

    def stop(self) -> None:
        """Make everything durable and answer it. Blocks for one flush."""
        if self._waiting:
            end = self._waiting[-1][0]
            try:
                self._store.flush()
            except StoreError as error:
                self._refuse_until(end, f"the disk did not take the message: {error}")
            else:
                self._answer_until(end)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush(self) -> None:
        if not self._waiting:
            self._flushing = False
            return
        end = self._waiting[-1][0]
        future = self._store.when_durable(end)
        if future.done():  # a store in memory, or a flush that another asked for: the loop need not be woken
            self._flushed(end, future)
            return
        loop = asyncio.get_running_loop()

        def done(_: concurrent.futures.Future[None]) -> None:
            try:
                loop.call_soon_threadsafe(self._flushed, end, future)
            except RuntimeError:  # the loop closed: its connections are gone too
                log.debug("a flush ended after the broker's loop was closed")

        future.add_done_callback(done)

    def _flushed(self, end: int, future: concurrent.futures.Future[None]) -> None:
        self._flushing = False
        error = None if future.cancelled() else future.exception()
        if error is not None:
            if not isinstance(error, StoreError):
                self._broker.troubles.failed("flushes", "a flush failed: %s", error, level=logging.ERROR)
            self._refuse_until(end, f"the disk did not take the message: {error}")
        else:
            self._answer_until(end)
        if self._waiting and not self._flushing:
            self._flushing = True
            self._flush()

    def _answer_until(self, end: int) -> None:
        waiting, replication = self._waiting, self._broker.replication
        is_sync_master = self._broker.config.broker_role == "SYNC_MASTER"
        with GatheredAnswers() as gathered:
            while waiting and waiting[0][0] <= end:
                own_end, connection, answer, _, kept_bytes, sent_back = waiting.popleft()
                gathered.take(connection, kept_bytes)
                if is_sync_master and not sent_back:
                    replication.wait(connection, answer, own_end)
                elif answer is not None:
                    connection.send(answer)

    def _refuse_until(self, end: int, remark: str) -> None:
        with GatheredAnswers() as gathered:
            while self._waiting and self._waiting[0][0] <= end:
                self._send_first(gathered, ResponseCode.SERVICE_NOT_AVAILABLE, remark)

    def _time_out(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        with GatheredAnswers() as gathered:
            while self._waiting and loop.time() >= self._waiting[0][3]:
                is_sent_back = self._waiting[0][5]
                self._send_first(gathered, ResponseCode.SUCCESS if is_sent_back else ResponseCode.FLUSH_DISK_TIMEOUT)
        if self._waiting:
            self._timer = loop.call_at(self._waiting[0][3], self._time_out)

    def _send_first(self, gathered: GatheredAnswers, code: ResponseCode, remark: str | None = None) -> None:
        _, connection, answer, _, kept_bytes, _ = self._waiting.popleft()
        gathered.take(connection, kept_bytes)
        if answer is not None:
            answer.code = code
            if remark is not None:
                answer.remark, answer.ext_fields = remark, {}
            connection.send(answer)
