"""Automatic batching: sends that come close together travel in one request (Java: ProduceAccumulator; ``core.send_batches`` decides).

    send(m1) --+                         +--> SendResult of m1, queue offset n
    send(m2) --+--> one batch --> broker-+--> SendResult of m2, queue offset n + 1
    send(m3) --+                         +--> SendResult of m3, queue offset n + 2

Laws
1. Each message has a result or an exception of its own, exactly one; a batch that fails fails for its messages only.
2. Messages to one queue (given, selected, or of one sharding key) are stored in the order in which they were sent; others go, batch by
   batch, to all queues in turn.
3. A key that moves to another queue because the route changed takes its order along: nothing goes to the new queue before everything that
   was sent by the old route is answered.
4. What cannot be batched (delayed, retry topic, in a transaction, a reply) is sent by itself at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from sprocketmq.client.message_writer import Outgoing
from sprocketmq.client.namespace import wrap, wrap_queue
from sprocketmq.client.results import SendResult
from sprocketmq.client.routes import Routes
from sprocketmq.client.sender import QueueSelector, Sender
from sprocketmq.client.validators import check_range
from sprocketmq.core.send_batches import Batch, SendBatches
from sprocketmq.core.send_latency import queue_of_sharding_key
from sprocketmq.errors import ClosedError, ConfigurationError
from sprocketmq.net.clock import Clock, Timer
from sprocketmq.wire import properties as props
from sprocketmq.wire.batch import encode_element
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.message import Message, MessageQueue

__all__ = ["BatchAccumulator", "ResultFuture"]

_NOT_BATCHED: Final = frozenset(
    {
        props.DELAY,
        props.TIMER_DELAY_MS,
        props.TIMER_DELAY_SEC,
        props.TIMER_DELIVER_MS,
        props.TRAN_MSG,
        props.PGROUP,
        props.MSG_TYPE,
    }
)


class ResultFuture(Protocol):
    """An asyncio or a concurrent future of a SendResult."""

    def done(self) -> bool: ...

    def set_result(self, result: SendResult, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class _Send:
    """One message on its way into a batch; ``element`` is its part of the batch's body."""

    __slots__ = ("element", "future", "key", "message", "timeout_ms")

    def __init__(
        self, message: Message, key: str, element: bytes, future: ResultFuture, timeout_ms: int | None
    ) -> None:
        self.message, self.key, self.element = message, key, element
        self.future, self.timeout_ms = future, timeout_ms


class BatchAccumulator:
    """The batches of one producer. Belongs to its loop.

    Args:
        spawn: starts a task that ends with the client instance.
    """

    def __init__(
        self,
        sender: Sender,
        routes: Routes,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
    ) -> None:
        settings = sender.settings
        self._sender, self._routes, self._clock, self._spawn = sender, routes, clock, spawn
        self._batches: SendBatches[_Send] = SendBatches(
            settings.batch_max_bytes,
            settings.batch_max_delay_ms,
            settings.total_batch_max_bytes,
            settings.max_message_bytes,
        )
        self._topics: dict[str, str] = {}  # names that were checked, and what brokers call them
        self._max_body_bytes = settings.max_message_bytes
        self._timer: Timer | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._routes_in_use: dict[str, list[MessageQueue]] = {}  # by topic: the queues that keys are shared out to
        self._lanes_in_use: dict[str, set[MessageQueue]] = {}
        self._held: dict[str, deque[tuple[_Send, Callable[[], None]]]] = {}  # by topic: sends that wait (law 3)

    @staticmethod
    def takes(message: Message) -> bool:
        """Law 4."""
        return (
            isinstance(message, Message)
            and _NOT_BATCHED.isdisjoint(message.properties)
            and isinstance(message.topic, str)
            and not message.topic.startswith("%RETRY%")
        )

    def add(
        self,
        message: Message,
        future: ResultFuture,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Take ``message`` in; ``future`` gets its result.

        Raises:
            ConfigurationError: as ``send``; the future is not touched.
        """
        sender = self._sender
        topic = self._topics.get(message.topic)
        if topic is None or not 0 < len(message.body) <= self._max_body_bytes:
            topic = self._topics[message.topic] = sender.writer.checked_topic(message)
            sender.use(topic)
        if timeout_ms is not None:
            check_range("timeout_ms", timeout_ms, 1, 86_400_000)
        key = sender.writer.identify(message)
        copy = message
        if sharding_key is not None or sender.namespace is not None:
            copy = _with_own_properties(message)
            if sharding_key is not None:
                copy.properties[props.SHARDING_KEY] = props.checked_value("sharding_key", sharding_key)
            if sender.namespace is not None:
                copy.properties[props.INSTANCE_ID] = sender.namespace
        send = _Send(copy, key, encode_element(copy), future, timeout_ms)
        if queue is None and selector is None and sharding_key is None:
            self._put(topic, send, ordered=False)
            return
        if (queue is not None) + (selector is not None) + (sharding_key is not None) > 1:
            raise ConfigurationError(
                "more than one of queue, selector and sharding_key is given, one at most is allowed"
            )
        if queue is not None:
            if not isinstance(queue, MessageQueue) or wrap(sender.namespace, queue.topic) != topic:
                raise ConfigurationError(f"queue is {queue}, a MessageQueue of topic {message.topic!r} is allowed")
            self._put(wrap_queue(sender.namespace, queue), send, ordered=True)
            return
        self._add_chosen(topic, send, message, selector, sharding_key)

    async def close(self) -> None:
        """Send what lingers and wait for all answers."""
        while self._tasks or self._held or not self._batches.is_empty:
            self._batches.flush()
            self._go()
            if self._tasks:
                await asyncio.wait(set(self._tasks))
        if self._timer is not None:
            self._timer.cancel()

    # -- keys and routes (law 3) ---------------------------------------------------------------------------------------------------

    def _add_chosen(
        self, topic: str, send: _Send, message: Message, selector: QueueSelector | None, sharding_key: str | None
    ) -> None:
        def put() -> None:
            queues = self._routes_in_use[topic]
            if sharding_key is not None:
                self._put(queue_of_sharding_key(sharding_key, queues), send, ordered=True)
            else:
                assert selector is not None
                self._put(self._sender.selected(selector, queues, message), send, ordered=True)

        held = self._held.get(topic)
        if held is None and self._is_settled(topic):
            put()
            return
        if held is None:
            held = self._held[topic] = deque()
            self._start(self._settle(topic, held))
        held.append((send, put))

    def _is_settled(self, topic: str) -> bool:
        """Whether keys may be shared out by the newest route now."""
        newest = self._routes.table.publish_queues(topic)
        if not newest:
            return False
        known = self._routes_in_use.get(topic)
        if known is newest:
            return True
        if known is not None and known != newest and any(map(self._batches.is_busy, self._lanes_in_use[topic])):
            return False
        self._routes_in_use[topic] = newest
        self._lanes_in_use[topic] = set(newest)
        return True

    async def _settle(self, topic: str, held: deque[tuple[_Send, Callable[[], None]]]) -> None:
        """Wait for a route, and until what went by the old one is answered; then let go of what was held, in order."""
        try:
            await self._sender.queues(topic)
            while not self._is_settled(topic):
                self._batches.flush()
                self._go()
                others = {task for task in self._tasks if task is not asyncio.current_task()}
                await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        except Exception as error:  # noqa: BLE001 - handed to every message that waited
            _fail([send for send, _ in held], error)
            held.clear()
        finally:
            del self._held[topic]
        for send, put in held:
            _guarded(send, put)

    # -- batches -------------------------------------------------------------------------------------------------------------------

    def _put(self, lane: str | MessageQueue, send: _Send, *, ordered: bool) -> None:
        batches = self._batches
        kind = send.message.properties.get(props.WAIT)
        batches.add(lane, kind, send, len(send.element), self._clock.now_ms(), ordered=ordered)
        if batches.ready or self._timer is None:
            self._go()

    def _go(self) -> None:
        batches = self._batches
        while batches.ready:
            ready, batches.ready = batches.ready, []
            for batch in ready:
                self._start(self._deliver(batch))
        if self._timer is None and (due_ms := batches.next_due_ms) is not None:
            self._timer = self._clock.call_later(due_ms - self._clock.now_ms(), self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._batches.tick(self._clock.now_ms())
        self._go()

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = self._spawn(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, batch: Batch[_Send]) -> None:
        sends = batch.items
        try:
            results = await self._results(batch)
        except asyncio.CancelledError:
            _fail(
                sends,
                ClosedError("the client was shut down before the broker answered; the message may have been stored"),
            )
            raise
        except Exception as error:  # noqa: BLE001 - each sender gets it
            _fail(sends, error)
        else:
            for send, result in zip(sends, results, strict=True):
                if not send.future.done():
                    send.future.set_result(result)
        finally:
            self._batches.answered(batch)
            self._go()

    async def _results(self, batch: Batch[_Send]) -> list[SendResult]:
        sender, sends = self._sender, batch.items
        chosen = batch.lane if isinstance(batch.lane, MessageQueue) else None
        timeouts = [send.timeout_ms for send in sends if send.timeout_ms is not None]
        timeout_ms = min(timeouts) if timeouts else None
        first = sends[0].message
        if len(sends) == 1:  # an ordinary send, which may be compressed
            outgoing = sender.writer.one(first, None, 0, None, None, None)
            return [await sender.deliver(outgoing, chosen, timeout_ms)]
        properties = {} if first.wait_store_msg_ok else {props.WAIT: "false"}
        if sender.namespace is not None:
            properties[props.INSTANCE_ID] = sender.namespace
        outgoing = Outgoing(
            wrap(sender.namespace, first.topic),
            [send.message for send in sends],
            properties,
            ",".join([send.key for send in sends]),
            RequestCode.SEND_BATCH_MESSAGE,
            b"".join([send.element for send in sends]),
        )
        whole = await sender.deliver(outgoing, chosen, timeout_ms)
        ids = whole.offset_message_id.split(",")
        if len(ids) != len(sends):  # a topic whose queues keep a batch as one (queue.type=BatchCQ)
            ids = [whole.offset_message_id] * len(sends)
        status, queue, offset, transaction_id = (
            whole.status,
            whole.message_queue,
            whole.queue_offset,
            whole.transaction_id,
        )
        return [
            SendResult(status, send.key, queue, offset + number, ids[number], transaction_id)
            for number, send in enumerate(sends)
        ]


def _guarded(send: _Send, put: Callable[[], None]) -> None:
    try:
        put()
    except Exception as error:  # noqa: BLE001 - a selector is the user's: it fails its own message only
        _fail([send], error)


def _fail(sends: list[_Send], error: BaseException) -> None:
    for send in sends:
        if not send.future.done():
            send.future.set_exception(error)


def _with_own_properties(message: Message) -> Message:
    """The message with properties of this send, which the caller's one does not get."""
    copy = Message(message.topic, message.body, flag=message.flag)
    copy.properties.update(message.properties)
    return copy
