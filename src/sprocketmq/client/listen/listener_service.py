# SPDX-License-Identifier: Apache-2.0
"""What the services that call a listener have in common: its pool, the consume timeout, and the tasks that finish what a call began.

The pool stores when each call began. The running calls are checked every ``consume_timeout_ms``, which finds each call before its
deadline; then the deadline has a timer. So a call that ends in time costs nothing.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from sprocketmq.client.listen.async_listener_pool import AsyncListenerPool
from sprocketmq.client.listen.consume_service import ConsumeService
from sprocketmq.client.listen.listener_call import Listener, ListenerBatch
from sprocketmq.client.listen.listener_pool import ListenerPool, T, run_in_own_thread
from sprocketmq.client.listen.message_stream import DemandPool, MessageStream
from sprocketmq.client.listen.stuck_listener import StuckListener, log_line, run_timeout_callback
from sprocketmq.client.listen.thread_listener_pool import ThreadListenerPool
from sprocketmq.core.retry.retry_schedule import ORDERLY_MAX_RECONSUME_TIMES
from sprocketmq.net.process.clock import Timer, watch
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.wire.records.message import MessageExt

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer

log = logging.getLogger("sprocketmq.client")


class ListenerService(ConsumeService, Generic[T]):
    """Feeds one listener. Only ``_call``, ``_call_async`` and what they call run in workers. ``T`` is an item of the pool. ``stream``:
    the iteration that gets the messages; None for a listener. ``failed``: the status of a call that raised. ``last_try``: after so many
    retries messages become dead letters, None is never. ``consequence``: what becomes of one message of a call that failed, and of
    several; with ``if_stuck`` for the log."""

    failed: ClassVar[Any]
    consequence: tuple[str, str]
    if_stuck: str

    def __init__(
        self, consumer: RunningConsumer, listener: Callable[..., Any], batch_size: int, stream: MessageStream | None
    ) -> None:
        self._consumer, self._clock, self._batch_size, self._stream = consumer, consumer.clock, batch_size, stream
        limit = consumer.max_reconsume_times
        self.last_try = limit if consumer.clustering and limit < ORDERLY_MAX_RECONSUME_TIMES else None
        self._listener = Listener(self, consumer, listener)
        self._tasks = Tasks(log, f"group {consumer.name}: settling a delivery")
        self._pool: ListenerPool[T]
        self._timer: Timer | None = None
        self._closing = False
        self.consume_timeout_ms = consumer.settings.consume_timeout_ms

    @staticmethod
    @abstractmethod
    def read_answer(returned: object, context: Any, /) -> tuple[Any, str | None]:
        """The status of a call, and what was wrong with its answer as the rest of a sentence (None: nothing)."""

    @abstractmethod
    def _call(self, item: T, origin: Any) -> T: ...

    @abstractmethod
    async def _call_async(self, item: T, origin: Any) -> T: ...

    @abstractmethod
    def _on_done(self, items: list[T], origin: Any, spent_s: float) -> None: ...

    @abstractmethod
    def _new_batch(self, messages: list[MessageExt]) -> ListenerBatch[Any]: ...

    @abstractmethod
    def _check_timeouts(self, now_ms: int) -> int | None:
        """Act on the running calls that are over the consume timeout. Returns the next deadline, None if there is none."""

    @abstractmethod
    def _messages_of(self, item: T) -> Sequence[MessageExt]:
        """Those of the call that runs for ``item``."""

    # -- life ------------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        consumer = self._consumer
        workers, name, clock = consumer.settings.consume_thread_count, f"sprocketmq-{consumer.name}", self._clock
        if self._stream is not None:
            self._pool = DemandPool(self._stream, self._call_async, self._on_done, workers, name, clock)
        elif self._listener.is_async:
            self._pool = AsyncListenerPool(self._call_async, self._on_done, workers, name, clock)
        else:
            self._pool = ThreadListenerPool(self._call, self._on_done, workers, name, clock)
        watch(clock, self._pool)
        self._check_running()

    async def close(self, timeout_ms: float) -> bool:
        self._closing = self._listener.closing = True
        if self._timer is not None:
            self._timer.cancel()
        ended = await self._pool.close(timeout_ms)
        self.cut_off = [message for item in self._pool.late for message in self._messages_of(item)]
        await self._close_tasks(timeout_ms)
        return ended

    async def _close_tasks(self, timeout_ms: float) -> None:
        await self._tasks.close()

    @property
    def runs_caller(self) -> bool:  # type: ignore[override]
        return self._pool.runs_caller

    def resize(self, workers: int) -> None:
        self._pool.resize(workers)

    def running_since_ms(self) -> list[int]:
        return [running.started_ms for running in self._pool.running]

    async def consume_directly(self, messages: Sequence[MessageExt]) -> ListenerBatch[Any]:
        batch = self._new_batch(list(messages))
        direct = self._listener.without_hooks()
        if direct.is_async:
            await direct.run_async(batch)
        else:
            await run_in_own_thread(lambda: direct.run(batch), f"sprocketmq-{self._consumer.name}-direct")
        return batch

    def _keep(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.keep(work, self._clock)

    # -- consume timeout -------------------------------------------------------------------------------------------------------

    def set_consume_timeout_ms(self, limit_ms: int) -> None:
        self.consume_timeout_ms = limit_ms
        self._check_running()

    def _check_running(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        limit_ms = self.consume_timeout_ms
        if self._closing or limit_ms <= 0:
            return
        now_ms = self._clock.steady_ms()
        next_ms, latest_ms = self._check_timeouts(now_ms), now_ms + limit_ms
        delay_ms = max(1, min(latest_ms, latest_ms if next_ms is None else next_ms) - now_ms)
        self._timer = self._clock.call_later(delay_ms, self._check_running)

    def _report_stuck(self, batch: ListenerBatch[Any], messages: Sequence[MessageExt], item: Any, now_ms: int) -> None:
        """Once for each call: a log line with its stack, the callbacks of on_consume_timeout, statistics."""
        batch.stuck_reported = True
        consumer = self._consumer
        worker, stack = self._pool.stack_of(item)
        stuck = StuckListener(
            consumer.name,
            batch.context.message_queue,
            messages,
            self._clock.now_ms() - (now_ms - batch.began_ms),
            now_ms - batch.began_ms,
            self.consume_timeout_ms,
            worker,
            stack,
        )
        troubles = consumer.instance.cluster.outages.troubles
        log_line(stuck, self.if_stuck, troubles)
        consumer.statistics.timed_out(messages[0].topic, len(messages), self._clock.now_ms())
        for callback in consumer.stuck_callbacks:
            self._keep(partial(run_timeout_callback, callback, stuck, troubles))
