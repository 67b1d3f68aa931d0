# SPDX-License-Identifier: Apache-2.0
"""The messages for an iteration over a consumer: a listener whose call ends when its message was acked or nacked.

The services do not know the difference: an ack is a call that returned, a nack one that raised.

Rules
1. A call begins only when an iteration waits for a message. So the consume timeout counts from the moment at which it is handed out, and
   messages that were not handed out move with their queue to its next owner.
2. At most ``consume_thread_count`` messages are unsettled, in an orderly group one of each queue.
3. A message has one verdict; a second one that says something else is an error.
4. A ``receive`` that was cancelled has taken nothing: its messages go to the next one.
5. What is unsettled when the consumer stops causes no progress and is not sent back. It is delivered again; a later verdict says so.
6. The descriptor is readable while a ``receive`` would return at once: a message waits and may be handed out, or it is over. It does not
   ask for a message itself (rule 1).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sprocketmq.client.listen.async_listener_pool import AsyncListenerPool
from sprocketmq.client.listen.listener_pool import T, mark_caller
from sprocketmq.client.received_message import Delivery, ReceivedMessage, Verdict, check_one_verdict, received_message
from sprocketmq.client.results import ConsumeOrderlyContext
from sprocketmq.core.consume.orderly_turn import ConsumeOrderlyStatus
from sprocketmq.errors import ClosedError
from sprocketmq.net.process.clock import Clock
from sprocketmq.net.process.ready_descriptor import ReadyDescriptor
from sprocketmq.wire.records.message import MessageExt

log = logging.getLogger("sprocketmq.client")

_END: Final = "end"


class HandedOut(Delivery):
    """A message that was handed out, until its call ends. ``settle`` may be called in any thread, and in a signal handler, where a lock
    might be held by the interrupted code: so its end, a verdict or None, is the only item of a dict, set by one atomic call."""

    __slots__ = ("_end", "_loop", "_outcome", "item")

    def __init__(self, message: MessageExt) -> None:
        self._loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[BaseException | None] = self._loop.create_future()
        self._end: dict[str, Verdict | None] = {}
        self.item: MessageExt | None = message

    @property
    def is_settled(self) -> bool:
        return self._end.get(_END) is not None

    @property
    def over(self) -> bool:
        """Whether the consumer stopped first (rule 5)."""
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
        self._end.setdefault(_END, None)
        self.item = None

    def end_call(self) -> None:
        """If it was given up, its call ends, too, without an outcome. Only while the consumer stops: at another time that is a failure."""
        if self.over:
            self._outcome.cancel()

    async def ended(self) -> None:
        """Until it is settled; raises the failure that it was settled with."""
        try:
            failure = await self._outcome
        except asyncio.CancelledError:
            self.give_up()
            raise
        if failure is not None:
            raise failure


class _Receiver:
    __slots__ = ("first", "got", "missing")

    def __init__(self, most: int) -> None:
        self.missing = most
        self.got: list[ReceivedMessage[Any]] = []
        # Ends with the first message, or when there will be none.
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def give(self, message: ReceivedMessage[Any]) -> None:
        self.got.append(message)
        self.missing -= 1
        self.wake()

    def wake(self) -> None:
        if not self.first.done():
            self.first.set_result(None)


class _InHand:
    __slots__ = ("_messages",)

    def __init__(self, messages: Sequence[ReceivedMessage[Any]]) -> None:
        self._messages = messages

    @property
    def item(self) -> object:
        return next((item for message in self._messages if (item := message._delivery.item) is not None), None)


class MessageStream:
    """Between the consume service and the iterations of one consumer. Belongs to the loop."""

    def __init__(self) -> None:
        self._receivers: deque[_Receiver] = deque()
        self._offered: deque[ReceivedMessage[Any]] = deque()  # not handed out: their ``receive`` was cancelled
        self._unsettled: dict[HandedOut, None] = {}
        self._pool: DemandPool[Any] | None = None
        self._room = 0
        self._any_verdict = self._has_warned = False
        self.descriptor: ReadyDescriptor | None = None
        self.is_over = self._is_stopped = False

    def attach(self, pool: DemandPool[Any], room: int) -> None:
        """The consumer starts, perhaps once more after a start that failed and closed the last pool."""
        self._pool, self.is_over = pool, self._is_stopped
        self.set_room(room)

    def set_room(self, room: int) -> None:
        self._room = room
        self._demand_changed()

    def _demand_changed(self) -> None:
        if self._pool is not None:
            calls = len(self._unsettled)
            if not self.is_over:
                for receiver in self._receivers:
                    calls += receiver.missing
            self._pool.demand(calls)
        self.update_descriptor()

    # -- the descriptor --------------------------------------------------------------------------------------------------------

    async def make_descriptor(self) -> None:
        """If there is none yet: most iterations need none."""
        if self.descriptor is None:
            self.descriptor = ReadyDescriptor()
            self.update_descriptor()

    def update_descriptor(self) -> None:
        """Something that the descriptor depends on may have changed (rule 6)."""
        if self.descriptor is not None:
            self.descriptor.set(self._is_ready())

    def _is_ready(self) -> bool:
        if self.is_over or self._offered:
            return True
        pool = self._pool
        return pool is not None and len(self._unsettled) < self._room and pool.has_waiting and not self._calls_begin

    @property
    def _calls_begin(self) -> bool:
        """Whether a call is on its way to its message. It arrives without waiting for anything but its turn of the loop."""
        return self._pool is not None and self._pool.begun > len(self._unsettled)

    # -- the listener ----------------------------------------------------------------------------------------------------------

    async def __call__(self, message: MessageExt) -> None:
        delivery = HandedOut(message)
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
        if self.is_over:  # a ``receive`` was cancelled at the end: no iteration gets it
            message._delivery.give_up()
            return
        for receiver in self._receivers:
            if receiver.missing:
                receiver.give(message)
                return
        self._offered.append(message)

    # -- iterations ------------------------------------------------------------------------------------------------------------

    async def receive(self, most: int = 1, timeout_s: float | None = None) -> list[ReceivedMessage[Any]]:
        """As many messages as there are, ``most`` at most, as soon as there is one. None after ``timeout_s``, or when it is over."""
        if self.is_over:
            return []
        self._warn_about_room()
        receiver = _Receiver(most)
        while self._offered and receiver.missing:
            receiver.give(self._offered.popleft())
        self._receivers.append(receiver)
        self._demand_changed()
        try:
            if timeout_s is None:
                await receiver.first
            elif timeout_s > 0:
                # Not wait_for: before Python 3.12 it swallows a cancellation that comes together with what was waited for.
                await asyncio.wait([receiver.first], timeout=timeout_s)
            while receiver.missing and self._calls_begin:  # noqa: ASYNC110 - those of one pull begin one after the other
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._receivers.remove(receiver)
            self.put_back(receiver.got)
            raise
        self._receivers.remove(receiver)
        self._demand_changed()
        return self.mark(receiver.got)

    def mark(self, messages: list[ReceivedMessage[Any]]) -> list[ReceivedMessage[Any]]:
        """The caller works on ``messages``: until they are settled, a shutdown that it asks for does not wait for them."""
        if self._pool is not None and messages:
            mark_caller(self._pool, messages[0]._delivery if len(messages) == 1 else _InHand(messages))
        return messages

    def put_back(self, messages: Iterable[ReceivedMessage[Any]]) -> None:
        """The caller of ``receive`` did not get them (rule 4)."""
        for message in messages:
            self._offer(message)
        self._demand_changed()

    def _warn_about_room(self) -> None:
        if len(self._unsettled) >= self._room > 0 and not self._any_verdict and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%d messages were handed out and none was acked, so no more are (consume_thread_count); call message.ack(), nack() or "
                "dead_letter() for each",
                len(self._unsettled),
            )

    def stop(self) -> None:
        self._is_stopped = True
        self.close()

    def close(self) -> None:
        """No more messages come from the pool."""
        self.is_over = True
        for receiver in self._receivers:
            receiver.wake()
        for message in self._offered:
            message._delivery.give_up()
        self._offered.clear()
        self._demand_changed()

    def give_up(self) -> None:
        """Do not wait for verdicts any more, because none can come (rule 5)."""
        self.stop()
        for delivery in self._unsettled:
            delivery.give_up()
            if self._pool is not None and self._pool.is_closing:
                delivery.end_call()

    @property
    def waits_for_verdicts(self) -> bool:
        return any(not delivery.over for delivery in self._unsettled)


class DemandPool(AsyncListenerPool[T]):
    """Runs as many calls as a stream asks for, ``workers`` at most. The other arguments are those of AsyncListenerPool."""

    def __init__(self, stream: MessageStream, run: Any, on_done: Any, workers: int, name: str, clock: Clock) -> None:
        super().__init__(run, on_done, 0, name, clock)
        self._stream, self._most = stream, workers
        stream.attach(self, workers)

    def resize(self, workers: int) -> None:
        self._most = workers
        self._stream.set_room(workers)

    def demand(self, calls: int) -> None:
        super().resize(min(calls, self._most))

    @property
    def has_waiting(self) -> bool:
        return any(self._pending)

    @property
    def begun(self) -> int:
        """How many calls run, or may begin in this turn of the loop."""
        return self._working + self._start_is_due

    @property
    def is_closing(self) -> bool:
        return self._closing

    def _start_more(self) -> None:
        super()._start_more()
        self._stream.update_descriptor()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        super()._task_ended(task)
        self._stream.update_descriptor()

    def stack_of(self, item: T) -> tuple[str, str]:
        """The stack is unknown: the call only waits for the verdict, which other code gives."""
        return "the code that iterates over the messages", ""

    async def close(self, timeout_ms: float) -> bool:
        self._stream.close()
        if self._stream.waits_for_verdicts:
            return await super().close(timeout_ms)
        await super().close(0)
        return True
