# SPDX-License-Identifier: Apache-2.0
"""Concurrent consumption: batches to workers, results to progress or to send-back (Java: ConsumeMessageConcurrentlyService).

    Dispatch --> take batches --> pool: listener --> settle --> acknowledged: ProcessQueue.done -> progress
                                                      |
                                                      +-- failed, clustering:   send back -> done | not possible: again here in 5 s
                                                      `-- failed, broadcasting: logged, done

    a batch that runs too long: its messages are sent back (level 3) and done; the result that may still come is ignored

Laws
1. A message leaves its process queue only when it was acknowledged, or a retry copy of it is stored, or (broadcasting) was logged as lost.
2. One delivery makes at most one retry copy (core.consume_timeout holds it between listener and timeout).
3. After its queue was dropped, a message causes no progress and is not sent back; the next owner of the queue gets it.
4. Nothing that a listener returns or raises stops the consumer.

Consume timeout: the pool stores when each call began. The running calls are checked every ``limit`` ms, which finds each call before its
deadline; then the deadline has a timer. So a call that ends in time costs nothing.

A listener of single messages (OneAtATime) without hooks gets the messages directly: the pool's items are messages, and a message whose call
returned None is settled as it is. A Batch is made only for other results, exceptions and calls that the check finds running.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from sprocketmq.client.listen.listener_call import ListenerBatch, ListenerCall, OneAtATime
from sprocketmq.client.listen.listener_service import ListenerService
from sprocketmq.client.listen.message_stream import MessageStream
from sprocketmq.client.listen.stuck_listener import StuckListener, log_line, run_timeout_callback
from sprocketmq.client.listener_signals import reason_of
from sprocketmq.client.results import ConsumeConcurrentlyContext
from sprocketmq.core.consume.consume_result import ConsumeConcurrentlyStatus, acked_count, read_answer
from sprocketmq.core.consume.consume_timeout import ConsumeTimeout, Settlement
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.retry import retry_schedule
from sprocketmq.core.retry.retry_schedule import FIRST_RETRY_LEVEL
from sprocketmq.net.process.clock import Timer
from sprocketmq.wire.records.message import MessageExt

if TYPE_CHECKING:
    from sprocketmq.client.consume.group_member import GroupMember

log = logging.getLogger("sprocketmq.client")

ConcurrentListener = Callable[[Sequence[MessageExt], ConsumeConcurrentlyContext], Any]

# ConsumeMessageConcurrentlyService.submitConsumeRequestLater
_LOCAL_RETRY_MS: Final = 5_000
_SENT_BACK: Final = "are sent back and progress moves past them"
_GIVEN_UP: Final = "are given up, because broadcasting does not retry"
# Send-backs in flight at once: if all messages of a topic fail, thousands must not be sent at once.
_SEND_BACKS_AT_ONCE: Final = 64
_ALL: Final = 1 << 31


class Batch(ListenerBatch[ConsumeConcurrentlyStatus]):
    """One listener call."""

    __slots__ = ("alone", "process_queue", "tracked")
    context: ConsumeConcurrentlyContext

    def __init__(
        self, process_queue: ProcessQueue, messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> None:
        super().__init__(messages, context)
        self.process_queue = process_queue
        self.alone = False  # made for a message whose call has begun, or ended, without a batch
        self.tracked = False  # the consume timeout watches its messages; ``began_ms`` is set


# What goes to the pool and comes back: a batch, or one message of a OneAtATime.
Delivery: TypeAlias = "Batch | MessageExt"


class ConcurrentService(ListenerService[Delivery]):
    """Feeds one concurrent listener."""

    orderly = False

    def __init__(
        self, group: GroupMember, listener: ConcurrentListener, batch_size: int, stream: MessageStream | None = None
    ) -> None:
        limit = group.settings.max_reconsume_times
        self._max_reconsume_times = retry_schedule.max_reconsume_times(limit, orderly=False)
        again = "are retried" if group.clustering else "are given up, because broadcasting does not retry"
        call = ListenerCall(
            group,
            listener,
            read=read_answer,
            failed=ConsumeConcurrentlyStatus.RECONSUME_LATER,
            consequence=f"those not acknowledged {again}",
            max_reconsume_times=self._max_reconsume_times if group.clustering else None,
        )
        super().__init__(group, call, stream)
        self._one = listener if isinstance(listener, OneAtATime) else None
        self._batch_size = batch_size
        self._timeouts: ConsumeTimeout[MessageExt] = group.recorded(ConsumeTimeout)(group.settings.consume_timeout_ms)
        self._tracked: dict[MessageExt, Batch] = {}
        self._watched: dict[
            MessageExt, Batch
        ] = {}  # running messages without a batch that the timeout check has found, until they are reported
        self._timer: Timer | None = None
        self._level_is_logged = False
        self._send_backs = asyncio.Semaphore(_SEND_BACKS_AT_ONCE)

    # -- life ------------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        super().start()
        self._arm(self._timeouts.limit_ms)

    def record_ended(self) -> None:
        self._pool.report()

    @property
    def consume_timeout_ms(self) -> int:
        return self._timeouts.limit_ms

    @consume_timeout_ms.setter
    def consume_timeout_ms(self, limit_ms: int) -> None:
        """Takes effect at once, also for running calls."""
        self._timeouts.limit_ms = limit_ms
        self._look()

    def running_since_ms(self) -> list[int]:
        return [running.started_ms for running in self._pool.running]

    async def close(self, timeout_ms: float) -> bool:
        self._closing = self._listener.closing = True
        if self._timer is not None:
            self._timer.cancel()
        ended = await self._pool.close(timeout_ms)
        self.cut_off = [
            one for item in self._pool.late for one in (item.messages if isinstance(item, Batch) else [item])
        ]
        await self._tasks.close(timeout_ms)
        return ended

    # -- from the process queue to the listener --------------------------------------------------------------------------------

    def submit(self, process_queue: ProcessQueue) -> None:
        if self._closing:
            return
        now_ms, queue = self._clock.now_ms(), process_queue.queue
        assert queue is not None
        if self._one is not None and not self._group.hooks.consume:
            self._pool.submit(process_queue.take(_ALL, now_ms), process_queue)
            return
        batches: list[Delivery] = []
        while messages := process_queue.take(self._batch_size, now_ms):
            batches.append(Batch(process_queue, messages, ConsumeConcurrentlyContext(queue)))
        self._pool.submit(batches, process_queue)

    def _batch_of(self, messages: list[MessageExt]) -> Batch:
        queue = messages[0].message_queue
        return Batch(ProcessQueue(queue), messages, ConsumeConcurrentlyContext(queue))

    def _call(self, item: Delivery, process_queue: ProcessQueue) -> Delivery:
        if process_queue.dropped:
            return item
        one = self._one
        if one is None or isinstance(item, Batch):
            self._listener.run(cast(Batch, item))
            return item
        try:
            returned = one.listener(item)
            return item if returned is None else self._answered(item, process_queue, one.answer(returned))
        except BaseException as error:  # noqa: BLE001 - even SystemExit in a worker must not lose the message
            return self._failed(item, process_queue, error)

    async def _call_async(self, item: Delivery, process_queue: ProcessQueue) -> Delivery:
        if process_queue.dropped:
            return item
        one = self._one
        if one is None or isinstance(item, Batch):
            await self._listener.run_async(cast(Batch, item))
            return item
        try:
            returned = await one.listener(item)
            return item if returned is None else self._answered(item, process_queue, one.answer(returned))
        except BaseException as error:
            if self._closing and isinstance(error, asyncio.CancelledError):
                raise
            return self._failed(item, process_queue, error)

    def _batch_alone(self, message: MessageExt, process_queue: ProcessQueue) -> Batch:
        assert process_queue.queue is not None
        batch = Batch(process_queue, [message], ConsumeConcurrentlyContext(process_queue.queue))
        batch.alone = True
        return batch

    def _answered(self, message: MessageExt, process_queue: ProcessQueue, answer: object) -> Delivery:
        """The message if it succeeded, else a batch with the outcome."""
        if answer is ConsumeConcurrentlyStatus.CONSUME_SUCCESS:
            return message
        batch = self._batch_alone(message, process_queue)
        self._listener.record_answer(batch, answer)
        return batch

    def _failed(self, message: MessageExt, process_queue: ProcessQueue, failure: BaseException) -> Batch:
        batch = self._batch_alone(message, process_queue)
        self._listener.record_failure(batch, failure)
        return batch

    # -- from the listener to progress -----------------------------------------------------------------------------------------

    def _on_done(self, items: list[Delivery], process_queue: ProcessQueue, spent_s: float) -> None:
        if self._one is None or self._watched or Batch in map(type, items):
            self._settle([self._batch(item, process_queue, spent_s / len(items)) for item in items], process_queue)
        elif not process_queue.dropped:
            messages = cast("list[MessageExt]", items)
            self._measure_alone(messages, spent_s * 1000)
            self._done(process_queue, messages)

    def _batch(self, item: Delivery, process_queue: ProcessQueue, spent_s: float) -> Batch:
        """The batch of a finished item; the one that the timeout check made of it, if there is one."""
        if isinstance(item, Batch) and not item.alone:
            return item
        outcome = item if isinstance(item, Batch) else None
        message = item.messages[0] if isinstance(item, Batch) else item
        batch = self._watched.pop(message, None) or outcome or self._batch_alone(message, process_queue)
        batch.spent_s = spent_s
        if outcome is None:
            batch.status = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        else:
            batch.status, batch.context, batch.failure = outcome.status, outcome.context, outcome.failure
        return batch

    def _settle(self, batches: Sequence[Batch], process_queue: ProcessQueue) -> None:
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
                own = self._own(batch)
                good = [message for message in good if message in own]
                bad = [message for message in bad if message in own]
            done += good
            if bad:
                failed.append((batch, bad))
        if done:
            self._done(process_queue, done)
        if failed:
            self.spawn(partial(self._retry_all, failed))

    def _acked(self, batch: Batch) -> int:
        status = batch.status or ConsumeConcurrentlyStatus.RECONSUME_LATER
        return acked_count(status, batch.context.ack_index, len(batch.messages))

    def _own(self, batch: Batch) -> set[MessageExt]:
        """The messages of a tracked batch that its result settles; the timeout sends the others back."""
        own: set[MessageExt] = set()
        for message in batch.messages:
            settlement = self._timeouts.finished(message)
            if settlement is Settlement.SETTLE:
                own.add(message)
            if settlement is not Settlement.WAIT:
                self._tracked.pop(message, None)
        return own

    def _done(self, process_queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        offset = process_queue.done(messages)
        if offset is not None and process_queue.queue is not None:
            self._group.offset_store.progress.update(process_queue.queue, offset)
            self._group.settled(process_queue)

    def _measure(self, batch: Batch, acked: int) -> None:
        failed = len(batch.messages) - acked
        now_ms = self._clock.now_ms()
        self._group.statistics.consumed(batch.messages[0].topic, acked, failed, batch.spent_s * 1000, now_ms)

    def _measure_alone(self, messages: list[MessageExt], spent_ms: float) -> None:
        statistics, now_ms, topics = self._group.statistics, self._clock.now_ms(), {one.topic for one in messages}
        if len(topics) == 1:  # only those from a retry topic can have more
            statistics.consumed_alone(topics.pop(), len(messages), spent_ms, now_ms)
            return
        for topic in topics:
            count = sum(one.topic == topic for one in messages)
            statistics.consumed_alone(topic, count, spent_ms * count / len(messages), now_ms)

    # -- failures --------------------------------------------------------------------------------------------------------------

    async def _retry_all(self, failed: Iterable[tuple[Batch, list[MessageExt]]]) -> None:
        await asyncio.gather(*(self._retry(batch, message) for batch, messages in failed for message in messages))

    async def _retry(self, batch: Batch, message: MessageExt) -> None:
        process_queue = batch.process_queue
        if not self._group.clustering:
            log.warning(
                "group %s: broadcasting does not retry, message %s from %s is given up",
                self._group.name,
                message.message_id,
                batch.context.message_queue,
            )
            self._done(process_queue, [message])
            return
        async with self._send_backs:
            if process_queue.dropped:
                return
            reason = reason_of(batch.failure)
            # The broker's own dead letter has no room for a reason, so at the last try this client makes it.
            level = -1 if reason and message.reconsume_times >= self._max_reconsume_times else self._level(batch)
            sent = await self._send_back(message, level, reason)
        if sent:
            self._done(process_queue, [message])
            return
        message.reconsume_times += 1
        # ``SendBack`` has said why.
        log.debug("group %s: %s is tried again here in %d ms", self._group.name, message.message_id, _LOCAL_RETRY_MS)
        self._clock.call_later(_LOCAL_RETRY_MS, lambda: self._again(process_queue, message))

    def _level(self, batch: Batch) -> int:
        """The level that the listener asked for. A level that the brokers do not have is logged once."""
        level, highest = batch.context.delay_level_when_next_consume, self._group.max_delay_level
        if level > highest and not self._level_is_logged:
            self._level_is_logged = True
            log.error(
                "group %s: the listener asked for delay level %d, 1 to %d is allowed, so the broker takes its highest one (logged once); "
                "if the brokers have more levels (messageDelayLevel), give max_delay_level",
                self._group.name,
                level,
                highest,
            )
        return level

    async def _send_back(self, message: MessageExt, level: int, reason: str = "") -> bool:
        try:
            return await self._group.send_back(message, level, reason)
        except Exception:  # law 1: a message for which the send-back request cannot even be made is retried here
            log.exception("group %s: %s could not be sent back", self._group.name, message.message_id)
            return False

    def _again(self, process_queue: ProcessQueue, message: MessageExt) -> None:
        if not self._closing and not process_queue.dropped:
            process_queue.put_back([message])
            self.submit(process_queue)

    # -- consume timeout -------------------------------------------------------------------------------------------------------

    def _arm(self, delay_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._timeouts.limit_ms > 0 and not self._closing:
            self._timer = self._clock.call_later(delay_ms, self._look)

    def _look(self) -> None:
        """Track the running batches, send back those over the limit, and set the timer for the next deadline."""
        if self._closing or self._timeouts.limit_ms <= 0:
            return
        now_ms = self._clock.now_ms()
        for item, process_queue, started_ms in sorted(self._pool.running, key=lambda one: one.started_ms):
            if item in self._watched or (isinstance(item, Batch) and item.tracked):
                continue
            if isinstance(item, Batch):
                batch = item
            else:
                batch = self._watched[item] = self._batch_alone(item, process_queue)
            batch.began_ms, batch.tracked = started_ms, True
            for message in batch.messages:
                self._tracked[message] = batch
                self._timeouts.started(message, batch.began_ms)
        expired = [(self._tracked[message], message) for message in self._timeouts.expired(now_ms)]
        if expired:
            self._report_stuck(expired, now_ms)
        for batch, message in expired:
            self.spawn(partial(self._expire, batch, message))
        deadline_ms = self._timeouts.next_deadline_ms()
        latest_ms = now_ms + self._timeouts.limit_ms
        self._arm(max(1, min(latest_ms, latest_ms if deadline_ms is None else deadline_ms) - now_ms))

    async def _expire(self, batch: Batch, message: MessageExt) -> None:
        process_queue = batch.process_queue
        if process_queue.dropped or not self._group.clustering:
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
        elif self._timeouts.send_back_failed(message, self._clock.now_ms()) is Settlement.SETTLE:
            self._tracked.pop(message, None)
            if batch.messages.index(message) < self._acked(batch):
                self._done(process_queue, [message])
            else:
                await self._retry(batch, message)
        else:
            self._look()

    def _report_stuck(self, expired: Sequence[tuple[Batch, MessageExt]], now_ms: int) -> None:
        """Once per call: a log line with its stack, the callbacks of on_consume_timeout, statistics."""
        calls: dict[Batch, list[MessageExt]] = {}
        for batch, message in expired:
            if not batch.stuck_reported and not batch.process_queue.dropped:
                calls.setdefault(batch, []).append(message)
        for batch, messages in calls.items():
            batch.stuck_reported = True
            worker, stack = self._pool.stack_of(batch.messages[0] if batch.alone else batch)
            queue, limit_ms = batch.context.message_queue, self._timeouts.limit_ms
            stuck = StuckListener(
                self._group.name, queue, messages, batch.began_ms, now_ms - batch.began_ms, limit_ms, worker, stack
            )
            log_line(stuck, _SENT_BACK if self._group.clustering else _GIVEN_UP)
            self._group.statistics.timed_out(batch.messages[0].topic, len(messages), now_ms)
            for callback in self._group.stuck_callbacks:
                self.spawn(partial(run_timeout_callback, callback, stuck))

    def _forget(self, batch: Batch) -> None:
        if batch.tracked:
            for message in batch.messages:
                self._timeouts.forget(message)
                self._tracked.pop(message, None)
