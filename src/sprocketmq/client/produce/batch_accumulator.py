# SPDX-License-Identifier: Apache-2.0
"""Automatic batching: sends close together share one request (Java: ProduceAccumulator). ``core.produce.send_batches`` decides.

Rules
1. Each message gets exactly one result or exception; a batch that fails affects only its own messages.
2. Messages to one queue (given, selected, or of one sharding key) are stored in the order in which they were sent; other messages
   go to all queues in turn, one batch after the other.
3. A sharding key keeps its order when a changed route moves it to another queue: nothing is sent to the new queue before everything
   that was sent by the old route is answered.
4. What cannot be batched (delayed, retry topic, in a transaction, a reply) is sent by itself at once.
5. A message is read once, when it comes here; later changes by its owner have no effect. It keeps its UNIQ_KEY. Only with send
   hooks a batch is encoded again from its messages, because hooks may change them. (The blocking producer hands many messages over
   at once, so one may come here after its ``send_async`` has returned.)
6. A message that waits (behind others of its queue, or for a route) fails when its timeout is over, or some tenths of a second
   later, and is not sent. The time for which it lingers for a fuller batch does not count.

Most messages are like the one before: same topic, any queue, no special properties. ``join`` adds such a message directly to the
open batch and refuses all others. The UNIQ_KEYs of a batch have the time at which the batch was opened. ``join`` may run 300,000
times a second, so it makes few calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterator
from functools import partial
from itertools import compress, count, repeat
from operator import attrgetter
from threading import get_ident
from typing import Any, Final, NamedTuple, overload

from sprocketmq.client.produce.send_future import ResultFuture, fail_all, finish_all
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.client.remoting.send import BATCH, Send
from sprocketmq.client.remoting.sender import Sender
from sprocketmq.client.results import SendResult
from sprocketmq.client.settings.validators import check_timeout_ms
from sprocketmq.core.produce.send_batches import Batch, SendBatches
from sprocketmq.core.produce.send_latency import queue_of_sharding_key
from sprocketmq.core.resource_names import RETRY_PREFIX
from sprocketmq.errors import ClosedError, RequestTimeout
from sprocketmq.net.process.clock import Timer
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import EMPTY_ELEMENT_BYTES, join_elements
from sprocketmq.wire.records.message import Message, MessageQueue

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
_SHORT_TEXT: Final = 8_000  # so many characters, with a UNIQ_KEY, are no more bytes than properties may have
_NO_FLAG: Final = 0
_KEYS_AGE_MS: Final = 10
_SWEEP_S: Final = 0.1
# The default of our broker's maxMessagesPerBatch; Apache's 5.x counts the offsets of a batch in 16 bits.
_MOST_MESSAGES: Final = 10_000


# ``asyncio.Future`` and ``concurrent.futures.Future`` both have it; a call of ``done`` for each message costs three times as much.
_state: Final = attrgetter("_state")
_UNDER_WAY: Final = frozenset({"PENDING", "RUNNING"})


class _Element(NamedTuple):
    """A message as it was when it came here, with what its send adds to it.

    ``message`` is there for hooks only. ``kind``: its WAIT. ``end_s`` is its deadline on the loop's clock; None: it is not waiting for a
    queue or route, and its time begins when its batch leaves.
    """

    message: Message | None
    unique_key: str
    flag: int
    body: bytes
    properties: bytes  # encoded
    kind: str | None
    future: ResultFuture  # gets the result
    end_s: float | None


class _SendBatch(Batch):
    """Messages that travel together, as columns; ``join`` of the accumulator fills the first four. ``messages``: for hooks; empty without
    them. ``flags``, ``ends_s``: by the number of the message in the batch; most have none."""

    __slots__ = ("bodies", "ends_s", "flags", "futures", "messages", "properties", "unique_keys")

    def __init__(self, destination: Hashable, kind: Hashable, ordered: bool, due_ms: float) -> None:
        super().__init__(destination, kind, ordered, due_ms)
        self.unique_keys: list[str] = []
        self.bodies: list[bytes] = []
        self.properties: list[bytes] = []
        self.futures: list[ResultFuture] = []
        self.messages: list[Message] = []
        self.flags: dict[int, int] = {}
        self.ends_s: dict[int, float] = {}

    def append(self, element: _Element) -> None:
        if element.flag:
            self.flags[len(self.futures)] = element.flag
        if element.end_s is not None:
            self.ends_s[len(self.futures)] = element.end_s
        if element.message is not None:
            self.messages.append(element.message)
        self.unique_keys.append(element.unique_key)
        self.bodies.append(element.body)
        self.properties.append(element.properties)
        self.futures.append(element.future)

    def late(self, now_s: float) -> list[ResultFuture]:
        return [self.futures[number] for number, end_s in self.ends_s.items() if end_s <= now_s]

    def drop_done(self) -> None:
        if _UNDER_WAY.issuperset(map(_state, self.futures)):
            return
        kept = [not future.done() for future in self.futures]
        numbers = {old: new for new, old in enumerate(compress(count(), kept))}
        self.flags = {numbers[old]: flag for old, flag in self.flags.items() if old in numbers}
        self.ends_s = {numbers[old]: end_s for old, end_s in self.ends_s.items() if old in numbers}
        columns: tuple[list[Any], ...] = (self.unique_keys, self.bodies, self.properties, self.futures, self.messages)
        for column in columns:
            column[:] = compress(column, kept)


class BatchAccumulator:
    """The batches of one producer. Belongs to its loop."""

    def __init__(self, sender: Sender, instance: ClientInstance) -> None:
        settings = sender.settings
        self._sender, self._instance, self._clock = sender, instance, instance.clock
        self._batches: SendBatches[_SendBatch] = SendBatches(
            _SendBatch,
            settings.batch_max_bytes,
            settings.batch_max_delay_ms,
            settings.total_batch_max_bytes,
            settings.max_message_bytes,
            _MOST_MESSAGES,
        )
        self._topics: dict[str, str] = {}  # names that were checked, and what brokers call them
        self._max_body_bytes = settings.max_message_bytes
        self._open: dict[Hashable, _SendBatch] = {}  # by topic: what ``join`` adds to
        self._keys: Iterator[str] = iter(())
        self._keys_ms = 0
        self._is_watched = True  # by hooks, which are shown the messages; else they need not be kept
        self._loop, self._thread_id = asyncio.get_running_loop(), get_ident()
        self._create_future: Callable[[], asyncio.Future[SendResult]] = self._loop.create_future
        self._timer: Timer | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._delivering: dict[_SendBatch, None] = {}
        self._routes_in_use: dict[str, list[MessageQueue]] = {}  # by topic: the queues that keys are shared out to
        self._sweep: asyncio.TimerHandle | None = None  # rule 6
        self._linger_s = settings.batch_max_delay_ms / 1000
        self._held: dict[str, deque[tuple[Send, _Element]]] = {}  # by topic: sends that wait (rule 3)

    def takes(self, message: Message) -> bool:
        """See rule 4."""
        return (
            isinstance(message, Message)
            and (message._text is not None or _NOT_BATCHED.isdisjoint(message.properties))
            and isinstance(message.topic, str)
            and (message.topic in self._topics or not message.topic.startswith(RETRY_PREFIX))
        )

    @overload
    def join(self, message: Message) -> asyncio.Future[SendResult] | None: ...

    @overload
    def join(self, message: Message, future: ResultFuture) -> ResultFuture | None: ...

    def join(self, message: Message, future: ResultFuture | None = None) -> ResultFuture | None:
        """Add ``message`` to the open batch if it is like the others there. ``future``: gets the result; default one of the
        producer's loop, on which the caller runs then. Returns the future; None: nothing was done, use ``takes`` and ``add``.
        Raises RuntimeError (the caller needs a future, and runs in another loop or in none)."""
        if type(message) is not Message:
            return None
        if future is None and get_ident() != self._thread_id:
            self._check_loop()
        topic, body = message.topic, message.body
        if type(topic) is not str or type(body) is not bytes:
            return None
        batch, text = self._open.get(topic), message._text
        if batch is None or text is None or message._unique_key is not None:
            return None
        body_bytes = len(body)
        if not 0 < body_bytes <= self._max_body_bytes or message.flag is not _NO_FLAG or len(text) > _SHORT_TEXT:
            return None
        key = next(self._keys, None)
        if key is None:
            self._keys_ms = 0
            return None
        message._text = text = f"{text}UNIQ_KEY\x01{key}\x02"
        message._unique_key = key
        properties = text.encode()
        if future is None:
            future = self._create_future()
        batches, kept = self._batches, message if self._is_watched else None
        if not batches.join(batch, EMPTY_ELEMENT_BYTES + body_bytes + len(properties)):
            element = _Element(kept, key, _NO_FLAG, body, properties, None, future, None)
            self._add_to_topic(self._topics[topic], element)
            return future
        batch.unique_keys.append(key)
        batch.bodies.append(body)
        batch.properties.append(properties)
        batch.futures.append(future)
        if kept is not None:
            batch.messages.append(kept)
        if batches.ready:
            self._go()
        return future

    def add(self, send: Send, future: ResultFuture) -> None:
        """Add the message of ``send``; ``future`` gets its result. Raises ConfigurationError: as ``send``; the future is not touched."""
        sender, message = self._sender, send.message
        topic = sender.writer.checked_topic(message)
        if message.topic not in self._topics:
            self._topics[message.topic] = topic
            sender.queue_choice.turn(topic)
        timeout_ms = send.timeout_ms
        if timeout_ms is not None:
            timeout_ms = check_timeout_ms(timeout_ms)
        key = sender.writer.identify(message)
        text = sender.writer.text_of_send(message.properties_text, send.sharding_key)
        is_free = not send.is_bound
        element = _Element(
            None if sender.hooks is None else _with_properties(message, text),
            key,
            message.flag,
            message.body,
            props.encode_text(text),
            None if message._text is not None else message.properties.get(props.WAIT),
            future,
            None if is_free and timeout_ms is None else self._end_s(timeout_ms),
        )
        if is_free:
            self._add_to_topic(topic, element)
            return
        send.check_choice()
        if send.queue is not None:
            send.topic = topic
            self._put(sender.queue_choice.given(send.queue, send), element, ordered=True)
            return
        self._add_chosen(topic, send, element)

    async def flush(self) -> None:
        """Send what lingers and wait for the answers to all messages that were added before this call."""
        for future in self._unanswered():
            while not future.done():
                self._batches.flush()  # again each time: what was held for its route (rule 3) joins a batch later
                self._go()
                await asyncio.wait(set(self._tasks), return_when=asyncio.FIRST_COMPLETED)

    @property
    def unanswered_count(self) -> int:
        return len(self._unanswered())

    def _unanswered(self) -> list[ResultFuture]:
        in_batches = [future for batch in (*self._delivering, *self._batches.unsent()) for future in batch.futures]
        return in_batches + [element.future for held in self._held.values() for _, element in held]

    async def close(self) -> None:
        while self._tasks or self._held or not self._batches.is_empty:
            self._batches.flush()
            self._go()
            if self._tasks:
                await asyncio.wait(set(self._tasks))
        if self._timer is not None:
            self._timer.cancel()
        if self._sweep is not None:
            self._sweep.cancel()

    # -- keys and routes (rule 3) ---------------------------------------------------------------------------------------------------

    def _add_chosen(self, topic: str, send: Send, element: _Element) -> None:
        held = self._held.get(topic)
        if held is None and self._takes_newest_route(topic):
            self._put_chosen(topic, send, element)
            return
        if held is None:
            held = self._held[topic] = deque()
            self._start(self._send_held(topic, held), partial(self._cut_held, topic, held))
        held.append((send, element))
        self._sweep_later()

    def _put_chosen(self, topic: str, send: Send, element: _Element) -> None:
        queues = self._routes_in_use[topic]
        if send.sharding_key is not None:
            queue = queue_of_sharding_key(send.sharding_key, queues)
        else:
            assert send.selector is not None
            queue = self._sender.queue_choice.selected(send.selector, queues, send.message)
        self._put(queue, element, ordered=True)

    def _takes_newest_route(self, topic: str) -> bool:
        """Whether the newest route may be used for sharding keys now (rule 3)."""
        newest = self._sender.cluster.routes.table.publish_queues(topic)
        if not newest:
            return False
        known = self._routes_in_use.get(topic)
        if known is newest:
            return True
        if known is not None and known != newest and any(map(self._batches.is_busy, known)):
            return False
        self._routes_in_use[topic] = newest
        return True

    async def _send_held(self, topic: str, held: deque[tuple[Send, _Element]]) -> None:
        """Wait for a route and for the answers to what was sent by the old one; then send what was held, in order."""
        try:
            await self._sender.queue_choice.queues(topic)
            while not self._takes_newest_route(topic):
                self._batches.flush()
                self._go()
                others = {task for task in self._tasks if task is not asyncio.current_task()}
                await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        except Exception as error:  # noqa: BLE001 - handed to every message that waited
            fail_all([element.future for _, element in held], error)
            held.clear()
        finally:
            del self._held[topic]
        for send, element in held:
            if not element.future.done():  # else its time is over
                try:
                    self._put_chosen(topic, send, element)
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a selector is the user's: it fails its own message only
                    fail_all([element.future], error)

    def _cut_held(self, topic: str, held: deque[tuple[Send, _Element]]) -> None:
        ended = ClosedError("the client was shut down while the message waited for a route; it was not sent")
        fail_all([element.future for _, element in held], ended)
        if self._held.get(topic) is held:  # _send_held did not begin
            del self._held[topic]

    # -- batches -------------------------------------------------------------------------------------------------------------------

    def _check_loop(self) -> None:
        """A loop may run in one thread after the other, but a producer belongs to one loop."""
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("this is another event loop than the one in which the producer was started")
        self._thread_id = get_ident()

    def _add_to_topic(self, topic: str, element: _Element) -> None:
        batch = self._put(topic, element, ordered=False)
        if self._sender.namespace is None and element.kind is None:
            if not batch.is_closed:
                self._open[topic] = batch
            self._is_watched = self._sender.hooks is not None
            now_ms = self._clock.now_ms()
            if now_ms - self._keys_ms > _KEYS_AGE_MS:
                self._keys, self._keys_ms = self._sender.writer.next_keys(now_ms), now_ms

    def _put(self, destination: str | MessageQueue, element: _Element, *, ordered: bool) -> _SendBatch:
        batches = self._batches
        size_bytes = EMPTY_ELEMENT_BYTES + len(element.body) + len(element.properties)
        batch = batches.add(destination, element.kind, size_bytes, self._clock.steady_ms(), ordered=ordered)
        batch.append(element)
        if batches.ready or self._timer is None:
            self._go()
        if ordered:
            self._sweep_later()
        return batch

    def _go(self) -> None:
        batches = self._batches
        while batches.ready:
            ready, batches.ready = batches.ready, []
            for batch in ready:
                if self._open.get(batch.destination) is batch:  # nothing joins it any more
                    del self._open[batch.destination]
                self._delivering[batch] = None
                self._start(self._deliver(batch), partial(self._cut_delivery, batch))
        if self._timer is None and (due_ms := batches.next_due_ms) is not None:
            self._timer = self._clock.call_later(due_ms - self._clock.steady_ms(), self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._batches.tick(self._clock.steady_ms())
        self._go()

    def _end_s(self, timeout_ms: int | None) -> float:
        total_ms = self._sender.settings.send_msg_timeout_ms if timeout_ms is None else timeout_ms
        return asyncio.get_running_loop().time() + self._linger_s + total_ms / 1000

    def _sweep_later(self) -> None:
        if self._sweep is None and (self._held or not self._batches.is_empty):
            self._sweep = asyncio.get_running_loop().call_later(_SWEEP_S, self._swept)

    def _swept(self) -> None:
        """Fail the messages that have waited too long (rule 6)."""
        self._sweep = None
        now_s = asyncio.get_running_loop().time()
        held = [element for held in self._held.values() for _, element in held]
        late = [one.future for one in held if one.end_s is not None and one.end_s <= now_s]
        for batch in self._batches.unsent():
            late += batch.late(now_s)
        if late:
            fail_all(late, _waited_too_long())
        self._sweep_later()

    def _start(self, work: Coroutine[Any, Any, Any], cut: Callable[[], None]) -> None:
        """Run ``work``, and ``cut`` if its task is cancelled, perhaps before its first step: then nothing of ``work`` runs."""

        def ended(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                cut()

        task = self._instance.spawn(work)
        self._tasks.add(task)
        task.add_done_callback(ended)

    async def _deliver(self, batch: _SendBatch) -> None:
        batch.drop_done()
        futures = batch.futures
        try:
            results = await self._results(batch) if futures else iter(())
        except Exception as error:  # noqa: BLE001 - each sender gets it
            fail_all(futures, error.with_traceback(None))  # whose frames hold the futures
        else:
            finish_all(futures, results)
        finally:
            self._delivered(batch)

    def _delivered(self, batch: _SendBatch) -> None:
        self._delivering.pop(batch, None)
        self._batches.answered(batch)
        self._go()

    def _cut_delivery(self, batch: _SendBatch) -> None:
        ended = ClosedError("the client was shut down before the broker answered; the message may have been stored")
        fail_all(batch.futures, ended)
        if batch in self._delivering:  # _deliver did not begin
            self._delivered(batch)

    async def _results(self, batch: _SendBatch) -> Iterator[SendResult]:
        sender, destination, keys, bodies = self._sender, batch.destination, batch.unique_keys, batch.bodies
        end_s = min(batch.ends_s.values(), default=None)
        if end_s is not None and end_s <= asyncio.get_running_loop().time():
            raise _waited_too_long()
        chosen = destination if isinstance(destination, MessageQueue) else None
        topic = str(destination) if chosen is None else chosen.topic
        first_flag = batch.flags.get(0, _NO_FLAG)
        if len(keys) == 1:  # an ordinary send, which may be compressed
            message = (
                batch.messages[0] if batch.messages else _message_of(topic, first_flag, bodies[0], batch.properties[0])
            )
            send = Send(
                message,
                chosen,
                end_s=end_s,
                topic=topic,
                text=message.properties_text,
                message_id=keys[0],
                target=chosen,
            )
            sender.writer.write_body(send)
            return iter((await sender.send(send),))
        flags = map(batch.flags.get, range(len(keys)), repeat(_NO_FLAG)) if batch.flags else repeat(_NO_FLAG)
        shown = batch.messages or (Message(topic, b"-", flag=first_flag),)
        send = Send(
            shown[0], chosen, end_s=end_s, messages=shown, topic=topic, text=sender.writer.text_of_batch(batch.kind is None),
            message_id=",".join(keys), code=BATCH, body=join_elements(flags, bodies, batch.properties), target=chosen,
        )  # fmt: skip
        whole = await sender.send_batch(send)
        ids = whole.offset_message_id.split(",")
        if len(ids) != len(keys):  # a topic whose queues keep a batch as one (queue.type=BatchCQ)
            ids = [whole.offset_message_id] * len(keys)
        status, queue = whole.status, whole.message_queue
        return map(SendResult, repeat(status), keys, repeat(queue), count(whole.queue_offset), ids)


def _waited_too_long() -> RequestTimeout:
    return RequestTimeout(
        "the message waited until its timeout for a route, or behind others of its queue that got no answer; it was not sent"
    )


def _with_properties(message: Message, text: str) -> Message:
    if text == message.properties_text:
        return message
    copy = Message(message.topic, message.body, flag=message.flag)
    copy.properties.update(props.pairs_of_text(text))
    return copy


def _message_of(topic: str, flag: int, body: bytes, properties: bytes) -> Message:
    message = Message(topic, body, flag=flag)
    message.properties.update(props.decode_properties(properties))
    return message
