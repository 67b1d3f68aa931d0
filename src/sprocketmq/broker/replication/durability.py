"""Answers that wait for the disk under SYNC_FLUSH (Java: CommitLog.GroupCommitService).

    send --> append --> answer waits with the end of its record --+-- durable: answered 0 as it was
                                                                  +-- 5 s passed: 10 FLUSH_DISK_TIMEOUT (stored, and clients treat it so)
                                                                  `-- the disk failed: 14 SERVICE_NOT_AVAILABLE

Laws
1. One flush is asked for at a time, up to the end of what was appended when it was asked; all answers it covers go out together.
   While it runs, new answers gather for the next: many senders share one fdatasync.
2. Answers go out in the order of their records.
3. While a disk is slow, a connection whose answers wait by the thousand sends no more (``Connection.hold``).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sprocketmq.errors import StoreError
from sprocketmq.net.connection import Connection, text_bytes
from sprocketmq.net.gathered_answers import GatheredAnswers
from sprocketmq.store.message_store import MessageStore
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command

__all__ = ["DurableAnswers"]

log = logging.getLogger("sprocketmq.broker")

_WAITING_BYTES: Final = 2048  # an answer with its request, whose body and fields are let go, without the ids


@dataclass(slots=True)
class _Waiting:
    end: int
    connection: Connection
    command: Command
    answer: Command
    since_s: float
    kept_bytes: int


def _send_answer(connection: Connection, command: Command, answer: Command, end: int) -> None:
    if not command.is_oneway:
        connection.send(answer)


class DurableAnswers:
    """The answers of sends that wait for the disk. ``release`` gets the durable ones; by default it sends them."""

    def __init__(
        self,
        store: MessageStore,
        timeout_ms: int,
        release: Callable[[Connection, Command, Command, int], None] = _send_answer,
    ) -> None:
        self._store: Final = store
        self._release: Final = release
        self._timeout_s: Final = timeout_ms / 1000
        self._waiting: deque[_Waiting] = deque()
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, connection: Connection, command: Command, answer: Command, end: int) -> None:
        """Send ``answer`` when everything before physical offset ``end`` is on the disk."""
        loop = asyncio.get_running_loop()
        kept_bytes = _WAITING_BYTES + text_bytes(answer)  # of a batch they may be megabytes
        connection.hold(kept_bytes)
        self._waiting.append(_Waiting(end, connection, command, answer, loop.time(), kept_bytes))
        if not self._flushing:
            # At the end of this turn: the other sends of the same read join this flush.
            self._flushing = True
            loop.call_soon(self._flush)
        if self._timer is None:
            self._timer = loop.call_later(self._timeout_s, self._time_out)

    def stop(self) -> None:
        """Make everything durable and answer it. Blocks for one flush."""
        if self._waiting:
            end = self._waiting[-1].end
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
        end = self._waiting[-1].end
        loop = asyncio.get_running_loop()
        future = self._store.when_durable(end)

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
                log.error("a flush failed: %s", error)
            self._refuse_until(end, f"the disk did not take the message: {error}")
        else:
            self._answer_until(end)
        if self._waiting and not self._flushing:
            self._flushing = True
            self._flush()

    def _answer_until(self, end: int) -> None:
        waiting = self._waiting
        with GatheredAnswers() as gathered:
            while waiting and waiting[0].end <= end:
                done = waiting.popleft()
                gathered.take(done.connection, done.kept_bytes)
                self._release(done.connection, done.command, done.answer, done.end)

    def _refuse_until(self, end: int, remark: str) -> None:
        with GatheredAnswers() as gathered:
            while self._waiting and self._waiting[0].end <= end:
                self._send_first(gathered, ResponseCode.SERVICE_NOT_AVAILABLE, remark)

    def _time_out(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        with GatheredAnswers() as gathered:
            while self._waiting and loop.time() - self._waiting[0].since_s >= self._timeout_s:
                self._send_first(gathered, ResponseCode.FLUSH_DISK_TIMEOUT)
        if self._waiting:
            left_s = self._timeout_s - (loop.time() - self._waiting[0].since_s)
            self._timer = loop.call_later(max(0.0, left_s), self._time_out)

    def _send_first(self, gathered: GatheredAnswers, code: ResponseCode, remark: str | None = None) -> None:
        late = self._waiting.popleft()
        gathered.take(late.connection, late.kept_bytes)
        late.answer.code = code
        if remark is not None:
            late.answer.remark, late.answer.ext_fields = remark, {}
        _send_answer(late.connection, late.command, late.answer, late.end)
