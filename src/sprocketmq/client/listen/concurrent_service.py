# SPDX-License-Identifier: Apache-2.0
"""Concurrent consumption: batches to workers, results to progress or to send-back (Java: ConsumeMessageConcurrentlyService).

A failed message is sent back, and tried again here in 5 s if that is not possible; with broadcasting it is logged. The messages of a batch
that runs too long are sent back (level 3), and the result that may still come is ignored.

What counts as a failure is in ``listener_call`` and ``core.consume.consume_result``; where a message that failed goes, in
``client.consume.send_back``.

Rules
1. A message leaves its process queue only when it was acknowledged, or a retry copy of it is stored, or (broadcasting) was logged as lost.
2. One delivery makes at most one retry copy (core.consume_timeout holds it between listener and timeout).
3. After its queue was dropped, a message causes no progress and is not sent back; the next owner of the queue gets it.
4. Nothing that a listener returns or raises stops the consumer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sprocketmq.client.listen.listener_call import ListenerBatch, OneAtATime
from sprocketmq.client.listen.listener_service import ListenerService
from sprocketmq.client.listen.message_stream import MessageStream
from sprocketmq.client.listener_signals import reason_of
from sprocketmq.client.results import ConsumeConcurrentlyContext
from sprocketmq.core.consume.consume_result import ConsumeConcurrentlyStatus, acked_count, read_answer
from sprocketmq.core.consume.consume_timeout import ConsumeTimeout, Settlement
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.retry.retry_schedule import FIRST_RETRY_LEVEL
from sprocketmq.wire.records.message import MessageExt

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer

log = logging.getLogger("sprocketmq.client")

# ConsumeMessageConcurrentlyService.submitConsumeRequestLater
_LOCAL_RETRY_MS: Final = 5_000
_GIVEN_UP: Final = "given up, because broadcasting does not retry"
# Send-backs in flight at once: if all messages of a topic fail, thousands must not be sent at once.
_SEND_BACKS_AT_ONCE: Final = 64
_ALL: Final = 1 << 31


class Batch(ListenerBatch[ConsumeConcurrentlyStatus]):
    """One listener call. ``tracked``: the consume timeout watches its messages, and ``began_ms`` is set."""

    __slots__ = ("process_queue", "tracked")
    context: ConsumeConcurrentlyContext

    def __init__(self, process_queue: ProcessQueue, messages: list[MessageExt]) -> None:
        assert process_queue.queue is not None
        super().__init__(messages, ConsumeConcurrentlyContext(process_queue.queue))
        self.process_queue = process_queue
        self.tracked = False


class ConcurrentService(ListenerService[Any]):
    """Feeds a listener of several messages, or any one with hooks. The items of the pool are batches."""

    failed = ConsumeConcurrentlyStatus.RECONSUME_LATER
    read_answer = staticmethod(read_answer)

    def __init__(
        self,
        consumer: RunningConsumer,
        listener: Callable[..., Any],
        batch_size: int,
        stream: MessageStream | None = None,
    ) -> None:
        clustering = consumer.clustering
        retried = "is retried", "are retried"
        self.consequence = retried if clustering else (f"is {_GIVEN_UP}", f"are {_GIVEN_UP}")
        self.if_stuck = "are sent back and progress moves past them" if clustering else f"are {_GIVEN_UP}"
        super().__init__(consumer, listener, batch_size, stream)
        self._timeouts: ConsumeTimeout[MessageExt] = consumer.recorded(ConsumeTimeout)(self.consume_timeout_ms)
        self._tracked: dict[MessageExt, Batch] = {}
        self._level_is_logged = False
        self._send_backs = asyncio.Semaphore(_SEND_BACKS_AT_ONCE)

    def _new_batch(self, messages: list[MessageExt]) -> Batch:
        return Batch(ProcessQueue(messages[0].message_queue), messages)

    def record_ended(self) -> None:
        self._pool.report()

    async def _close_tasks(self, timeout_ms: float) -> None:
        await self._tasks.close(timeout_ms)

    # -- from the process queue to the listener --------------------------------------------------------------------------------

    def submit(self, process_queue: ProcessQueue) -> None:
        if self._closing:
            return
        now_ms, batches = self._clock.now_ms(), []
        while messages := process_queue.take(self._batch_size, now_ms):
            batches.append(Batch(process_queue, messages))
        self._pool.submit(batches, process_queue)

    def _call(self, batch: Batch, process_queue: ProcessQueue) -> Batch:
        if not process_queue.dropped:
            self._listener.run(batch)
        return batch

    async def _call_async(self, batch: Batch, process_queue: ProcessQueue) -> Batch:
        if not process_queue.dropped:
            await self._listener.run_async(batch)
        return batch

    def _messages_of(self, batch: Batch) -> Sequence[MessageExt]:
        return batch.messages

    # -- from the listener to progress -----------------------------------------------------------------------------------------

    def _on_done(self, batches: list[Any], process_queue: ProcessQueue, spent_s: float) -> None:
        done: list[MessageExt] = []
        failed: list[tuple[Batch, list[MessageExt]]] = []
        for batch in batches:
            if process_queue.dropped:
                self._forget(batch)
                continue
            acked = self._acked(batch)
            self._measure(batch, acked)
            good, bad = batch.messages[:acked], batch.messages[acked:]
            if batch.tracked:
                settled = self._settled_by_result(batch)
                good = [message for message in good if message in settled]
                bad = [message for message in bad if message in settled]
            done += good
            if bad:
                failed.append((batch, bad))
        if done:
            self._done(process_queue, done)
        if failed:
            self._keep(partial(self._retry_all, failed))

    def _acked(self, batch: Batch) -> int:
        status = batch.status or ConsumeConcurrentlyStatus.RECONSUME_LATER
        return acked_count(status, batch.context.ack_index, len(batch.messages))

    def _settled_by_result(self, batch: Batch) -> set[MessageExt]:
        """The messages of a tracked batch that its result settles; the timeout sends the others back."""
        settled: set[MessageExt] = set()
        for message in batch.messages:
            settlement = self._timeouts.finished(message)
            if settlement is Settlement.SETTLE:
                settled.add(message)
            if settlement is not Settlement.WAIT:
                self._tracked.pop(message, None)
        return settled

    def _done(self, process_queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        offset = process_queue.done(messages)
        if offset is not None and process_queue.queue is not None:
            self._consumer.offset_store.progress.update(process_queue.queue, offset)
            self._consumer.messages_left(process_queue)

    def _measure(self, batch: Batch, acked: int) -> None:
        failed = len(batch.messages) - acked
        now_ms = self._clock.now_ms()
        self._consumer.statistics.consumed(batch.messages[0].topic, acked, failed, batch.spent_s * 1000, now_ms)

    # -- failures --------------------------------------------------------------------------------------------------------------

    async def _retry_all(self, failed: Iterable[tuple[Batch, list[MessageExt]]]) -> None:
        await asyncio.gather(*(self._retry(batch, message) for batch, messages in failed for message in messages))

    async def _retry(self, batch: Batch, message: MessageExt) -> None:
        process_queue, name = batch.process_queue, self._consumer.name
        if not self._consumer.clustering:
            sentence = "group %s: broadcasting does not retry, message %s from %s is given up"
            args = (name, message.message_id, batch.context.message_queue)
            self._consumer.instance.cluster.outages.failed("broadcast", None, sentence, *args, of=message.message_id)
            self._done(process_queue, [message])
            return
        async with self._send_backs:
            if process_queue.dropped:
                return
            reason = reason_of(batch.failure)
            # The broker's own dead letter has no room for a reason, so at the last try this client makes it.
            level = (
                -1 if reason and message.reconsume_times >= self._consumer.max_reconsume_times else self._level(batch)
            )
            sent = await self._send_back(message, level, reason)
        if sent:
            self._done(process_queue, [message])
            return
        message.reconsume_times += 1
        # ``SendBack`` has said why.
        log.debug("group %s: %s is tried again here in %d ms", name, message.message_id, _LOCAL_RETRY_MS)
        self._clock.call_later(_LOCAL_RETRY_MS, lambda: self._again(process_queue, message))

    def _level(self, batch: Batch) -> int:
        """A level that the brokers do not have is logged once."""
        level, highest = batch.context.delay_level_when_next_consume, self._consumer.options.max_delay_level
        if level > highest and not self._level_is_logged:
            self._level_is_logged = True
            log.error(
                "group %s: the listener asked for delay level %d, 1 to %d is allowed, so the broker takes its highest one (logged once); "
                "if the brokers have more levels (messageDelayLevel), give max_delay_level",
                self._consumer.name,
                level,
                highest,
            )
        return level

    async def _send_back(self, message: MessageExt, level: int, reason: str = "") -> bool:
        try:
            return await self._consumer.send_back.send(message, level, reason)
        except Exception as error:  # noqa: BLE001 - rule 1: the request cannot even be made; the message is retried here
            sentence, name = "group %s: %s could not be sent back: %s", self._consumer.name
            outages = self._consumer.instance.cluster.outages
            outages.failed("retries", error, sentence, name, message.message_id, error, of=name)
            return False

    def _again(self, process_queue: ProcessQueue, message: MessageExt) -> None:
        if not self._closing and not process_queue.dropped:
            process_queue.put_back([message])
            self.submit(process_queue)

    # -- consume timeout -------------------------------------------------------------------------------------------------------

    def set_consume_timeout_ms(self, limit_ms: int) -> None:
        self._timeouts.limit_ms = limit_ms
        super().set_consume_timeout_ms(limit_ms)

    def _running_batch(self, item: Any, process_queue: ProcessQueue) -> Batch:
        assert isinstance(item, Batch)
        return item

    def _item_of(self, batch: Batch) -> object:
        return batch

    def _check_timeouts(self, now_ms: int) -> int | None:
        for item, process_queue, started_ms in sorted(self._pool.running, key=lambda one: one.started_ms):
            batch = self._running_batch(item, process_queue)
            if batch.tracked:
                continue
            batch.began_ms, batch.tracked = started_ms, True
            for message in batch.messages:
                self._tracked[message] = batch
                self._timeouts.started(message, batch.began_ms)
        expired = [(self._tracked[message], message) for message in self._timeouts.expired(now_ms)]
        calls: dict[Batch, list[MessageExt]] = {}
        for batch, message in expired:
            if not batch.stuck_reported and not batch.process_queue.dropped:
                calls.setdefault(batch, []).append(message)
        for batch, messages in calls.items():
            self._report_stuck(batch, messages, self._item_of(batch), now_ms)
        for batch, message in expired:
            self._keep(partial(self._expire, batch, message))
        return self._timeouts.next_deadline_ms()

    async def _expire(self, batch: Batch, message: MessageExt) -> None:
        process_queue = batch.process_queue
        if process_queue.dropped or not self._consumer.clustering:
            self._timeouts.forget(message)
            self._tracked.pop(message, None)
            self._done(process_queue, [message])  # in broadcasting it is given up, like any that failed
            return
        sent = await self._send_back(message, FIRST_RETRY_LEVEL)
        if message not in self._timeouts:
            return  # meanwhile its queue was dropped, and its listener has ended
        if sent:
            self._timeouts.sent_back(message)
            self._tracked.pop(message, None)
            self._done(process_queue, [message])
        elif self._timeouts.send_back_failed(message, self._clock.steady_ms()) is Settlement.SETTLE:
            self._tracked.pop(message, None)
            if batch.messages.index(message) < self._acked(batch):
                self._done(process_queue, [message])
            else:
                await self._retry(batch, message)
        else:
            self._check_running()

    def _forget(self, batch: Batch) -> None:
        if batch.tracked:
            for message in batch.messages:
                self._timeouts.forget(message)
                self._tracked.pop(message, None)


MessageOrFailure: TypeAlias = "MessageExt | Batch"
"""What comes back of a message: the message itself if its listener succeeded, or a batch of it with the outcome."""


class OneAtATimeService(ConcurrentService):
    """Feeds a listener of single messages, without hooks. The items of the pool are the messages, and one whose call succeeded is settled
    as it is: a batch is made only for failures, and for calls that the timeout check finds running."""

    def __init__(
        self, consumer: RunningConsumer, listener: OneAtATime, batch_size: int, stream: MessageStream | None = None
    ) -> None:
        super().__init__(consumer, listener, batch_size, stream)
        self._one = listener
        # Running messages that the timeout check has found, until they are reported.
        self._running: dict[MessageExt, Batch] = {}

    def submit(self, process_queue: ProcessQueue) -> None:
        if not self._closing:
            self._pool.submit(process_queue.take(_ALL, self._clock.now_ms()), process_queue)

    def _call(self, message: MessageExt, process_queue: ProcessQueue) -> MessageOrFailure:  # type: ignore[override]
        if process_queue.dropped:
            return message
        try:
            returned = self._one.listener(message)
            return message if returned is None else self._answered(message, process_queue, self._one.answer(returned))
        except BaseException as error:  # noqa: BLE001 - even SystemExit in a worker must not lose the message
            return self._raised(message, process_queue, error)

    async def _call_async(self, message: MessageExt, process_queue: ProcessQueue) -> MessageOrFailure:  # type: ignore[override]
        if process_queue.dropped:
            return message
        try:
            returned = await self._one.listener(message)
            return message if returned is None else self._answered(message, process_queue, self._one.answer(returned))
        except BaseException as error:
            if self._closing and isinstance(error, asyncio.CancelledError):
                raise
            return self._raised(message, process_queue, error)

    def _answered(self, message: MessageExt, process_queue: ProcessQueue, answer: object) -> MessageOrFailure:
        if answer is ConsumeConcurrentlyStatus.CONSUME_SUCCESS:
            return message
        batch = Batch(process_queue, [message])
        self._listener.record_answer(batch, answer)
        return batch

    def _raised(self, message: MessageExt, process_queue: ProcessQueue, failure: BaseException) -> Batch:
        batch = Batch(process_queue, [message])
        self._listener.record_failure(batch, failure)
        return batch

    def _on_done(self, items: list[MessageOrFailure], process_queue: ProcessQueue, spent_s: float) -> None:
        if self._running or Batch in map(type, items):
            batches = [self._ended_batch(item, process_queue, spent_s / len(items)) for item in items]
            super()._on_done(batches, process_queue, spent_s)
        elif not process_queue.dropped:
            self._measure_alone(items, spent_s * 1000)  # type: ignore[arg-type]
            self._done(process_queue, items)  # type: ignore[arg-type]

    def _ended_batch(self, item: MessageOrFailure, process_queue: ProcessQueue, spent_s: float) -> Batch:
        """The batch of a finished item; the one that the timeout check made of it, if there is one."""
        (message,) = self._messages_of(item)
        batch = self._running.pop(message, None) or Batch(process_queue, [message])
        batch.spent_s = spent_s
        if isinstance(item, Batch):
            batch.status, batch.context, batch.failure = item.status, item.context, item.failure
        else:
            batch.status = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        return batch

    def _messages_of(self, item: MessageOrFailure) -> Sequence[MessageExt]:
        return item.messages if isinstance(item, Batch) else [item]

    def _running_batch(self, item: MessageOrFailure, process_queue: ProcessQueue) -> Batch:
        assert isinstance(item, MessageExt)
        batch = self._running.get(item)
        if batch is None:
            batch = self._running[item] = Batch(process_queue, [item])
        return batch

    def _item_of(self, batch: Batch) -> object:
        return batch.messages[0]

    def _measure_alone(self, messages: list[MessageExt], spent_ms: float) -> None:
        statistics, now_ms, topics = self._consumer.statistics, self._clock.now_ms(), {one.topic for one in messages}
        if len(topics) == 1:  # only those from a retry topic can have more
            statistics.consumed_alone(topics.pop(), len(messages), spent_ms, now_ms)
            return
        for topic in topics:
            count = sum(one.topic == topic for one in messages)
            statistics.consumed_alone(topic, count, spent_ms * count / len(messages), now_ms)
