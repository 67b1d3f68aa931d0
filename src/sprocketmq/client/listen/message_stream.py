# SPDX-License-Identifier: Apache-2.0
"""The messages for an iteration over a consumer: a listener whose call ends when its message was acked or nacked.

    pool (as many calls as are asked for) --> call: offers its message --> ``take`` of an iteration
                                                |                             |
                                                `-- waits for the verdict <---' ack, nack, dead_letter

The consume services do not know the difference: an ack is a call that returned, a nack one that raised. So progress, retries, dead letters,
rebalance, the consume timeout, orderly locks and hooks are those of listeners.

Laws
1. A call begins only when an iteration waits for a message. So the consume timeout counts from the moment at which it is handed out, and
   messages that were not handed out move with their queue to its next owner.
2. At most ``consume_thread_count`` messages are unsettled, in an orderly group one of each queue.
3. A message has one verdict; a second one that says something else is an error.
4. A ``take`` that was cancelled has taken nothing: its message goes to the next one.
5. What is unsettled when the consumer stops causes no progress and is not sent back. It is delivered again, and a verdict that comes later
   says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from sprocketmq.client.listen.async_listener_pool import AsyncListenerPool
from sprocketmq.client.listen.listener_pool import T, mark_caller
from sprocketmq.client.received_message import ReceivedMessage, Verdict, check_one_verdict, received_message
from sprocketmq.client.results import ConsumeOrderlyContext
from sprocketmq.core.consume.orderly_turn import ConsumeOrderlyStatus
from sprocketmq.errors import ClosedError
from sprocketmq.wire.records.message import MessageExt

__all__ = ["DemandPool", "MessageStream"]

log = logging.getLogger("sprocketmq.client")

_END: Final = "end"


class Delivery:
    """One message that was handed out, until its call ends. ``settle`` may be called in any thread, and in a signal handler.

    Its end, a verdict or None if it was given up, is the only item of a dict, set by one atomic call. With a lock a signal handler that
    settles would wait for ever for the code that it interrupted.
    """

    __slots__ = ("_end", "_loop", "_outcome", "item")

    def __init__(self, message: MessageExt) -> None:
        self._loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[BaseException | None] = self._loop.create_future()
        self._end: dict[str, Verdict | None] = {}
        self.item: MessageExt | None = message  # None: it is settled, or given up

    @property
    def is_settled(self) -> bool:
        return self._end.get(_END) is not None

    @property
    def over(self) -> bool:
        """Whether the consumer stopped first (law 5)."""
        return _END in self._end and not self.is_settled

    def settle(self, verdict: Verdict, failure: BaseException | None) -> None:
        message = self.item
        if self._loop.is_closed():
            self.give_up()
        end = self._end.setdefault(_END, verdict)
        if end is None:
            name = message.message_id if message is not None else "the message"
            raise ClosedError(f"the consumer was shut down before the {verdict.value} of {name}; it is delivered again")
        check_one_verdict(end, verdict)
        self.item = None
        with contextlib.suppress(RuntimeError):  # the loop was closed at this moment
            self._loop.call_soon_threadsafe(self._set, failure)

    def _set(self, failure: BaseException | None) -> None:
        if not self._outcome.done():
            self._outcome.set_result(failure)

    def give_up(self) -> None:
        """Wait for no verdict any more; nothing changes when there is one."""
        self._end.setdefault(_END, None)
        self.item = None

    async def ended(self) -> None:
        """Until it is settled; raises the failure that it was settled with."""
        try:
            failure = await self._outcome
        except asyncio.CancelledError:
            self.give_up()
            raise
        if failure is not None:
            raise failure


class MessageStream:
    """Between the consume service and the iterations of one consumer. Belongs to the loop."""

    def __init__(self) -> None:
        self._takers: deque[asyncio.Future[ReceivedMessage[Any] | None]] = deque()
        self._offered: deque[ReceivedMessage[Any]] = deque()  # not handed out: their ``take`` was cancelled
        self._unsettled: dict[Delivery, None] = {}
        self._demand: Callable[[int], None] | None = None
        self._room = 0
        self._any_verdict = self._has_warned = False
        self._pool: object = None
        self.is_over = False

    def attach(self, pool: object, demand: Callable[[int], None], room: int) -> None:
        """The pool that makes the calls: ``demand`` says how many may run, of ``room`` at most."""
        self._pool, self._demand = pool, demand
        self.set_room(room)

    def set_room(self, room: int) -> None:
        self._room = room
        self._demand_changed()

    def _demand_changed(self) -> None:
        if self._demand is not None:
            self._demand(len(self._unsettled) + len(self._takers))

    # -- the listener ----------------------------------------------------------------------------------------------------------

    async def __call__(self, message: MessageExt) -> None:
        delivery = Delivery(message)
        self._unsettled[delivery] = None
        self._offer(received_message(message, delivery))
        try:
            await delivery.ended()
        finally:
            del self._unsettled[delivery]
            self._any_verdict |= delivery.is_settled
            self._demand_changed()

    async def in_order(self, messages: list[MessageExt], context: ConsumeOrderlyContext) -> ConsumeOrderlyStatus:
        """The same as a listener of an orderly service, which calls it with one message."""
        await self(messages[0])
        return ConsumeOrderlyStatus.SUCCESS

    def _offer(self, message: ReceivedMessage[Any]) -> None:
        if self.is_over:  # a ``take`` was cancelled at the end: no iteration gets it
            message._delivery.give_up()
            return
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(message)
                return
        self._offered.append(message)

    # -- iterations ------------------------------------------------------------------------------------------------------------

    async def take(self) -> ReceivedMessage[Any] | None:
        """The next message; None when there will be no more."""
        if self.is_over:
            return None
        if self._offered:
            return self.mark(self._offered.popleft())
        self._warn_about_room()
        taker: asyncio.Future[ReceivedMessage[Any] | None] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        self._demand_changed()
        try:
            message = await taker
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled() and (unclaimed := taker.result()) is not None:
                self.put_back(unclaimed)
            raise
        finally:
            if taker in self._takers:
                self._takers.remove(taker)
                self._demand_changed()
        return None if message is None else self.mark(message)

    def mark(self, message: ReceivedMessage[Any]) -> ReceivedMessage[Any]:
        """From now on the caller works on ``message``: until it is settled, a shutdown that the caller asks for does not wait for it."""
        if self._pool is not None:
            mark_caller(self._pool, message._delivery)
        return message

    def put_back(self, message: ReceivedMessage[Any] | None) -> None:
        """The caller of ``take`` did not get it (law 4)."""
        if message is not None:
            self._offer(message)

    def _warn_about_room(self) -> None:
        if len(self._unsettled) >= self._room > 0 and not self._any_verdict and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%d messages were handed out and none was acked, so no more are (consume_thread_count); call message.ack(), nack() or "
                "dead_letter() for each",
                len(self._unsettled),
            )

    def stop(self) -> None:
        """Hand out no more: each iteration ends when it asks for the next message."""
        self.is_over = True
        for taker in self._takers:
            if not taker.done():
                taker.set_result(None)
        self._takers.clear()
        for message in self._offered:
            message._delivery.give_up()
        self._offered.clear()
        self._demand_changed()

    def give_up(self) -> None:
        """Do not wait for verdicts any more, because none can come (law 5)."""
        self.stop()
        for delivery in self._unsettled:
            delivery.give_up()

    @property
    def waits_for_verdicts(self) -> bool:
        return any(not delivery.over for delivery in self._unsettled)


class DemandPool(AsyncListenerPool[T]):
    """Runs as many calls as a stream asks for, ``workers`` at most. The other arguments are those of AsyncListenerPool."""

    def __init__(
        self, stream: MessageStream, run: Any, on_done: Any, workers: int, name: str, now_ms: Callable[[], int]
    ) -> None:
        super().__init__(run, on_done, 0, name, now_ms)
        self._stream, self._most, self._demanded = stream, workers, 0
        stream.attach(self, self._demand, workers)

    def resize(self, workers: int) -> None:
        self._most = workers
        self._stream.set_room(workers)

    def _demand(self, calls: int) -> None:
        super().resize(min(calls, self._most))

    def stack_of(self, item: T) -> tuple[str, str]:
        """The stack is unknown: the call only waits for the verdict, which other code gives."""
        return "the code that iterates over the messages", ""

    async def close(self, timeout_ms: float) -> bool:
        self._stream.stop()
        if self._stream.waits_for_verdicts:
            return await super().close(timeout_ms)
        await super().close(0)
        return True
