# SPDX-License-Identifier: Apache-2.0
"""Orderly consumption: one listener call at a time for each queue, in offset order (Java: ConsumeMessageOrderlyService).

``core.consume.orderly_turn`` decides; this file runs it. A *portion* is a sequence of batches that one worker gets at once, so that a
fast listener does not need a step of the loop for each message. Between two batches the worker checks the queue, its lock and the time.
After a batch that did not succeed it stops, and the batches behind it are put back.

Rules
1. Each queue has at most one portion with a worker, so at most one listener call runs (``ProcessQueue.consuming``). Rebalance unlocks a
   queue only when none runs.
2. No listener call begins after a drop, or without a valid lock (clustering).
3. Batches that succeeded before a failure in the same portion are committed before the failure is handled.
4. Progress is written only while no other member can have the lock, and only of messages that came under this tenure of it, or that the
   pull loop has compared with the progress of the members between. A result from before a restart of the queue (another member had
   consumed it) settles nothing.
5. While a dead letter is being stored, the queue counts as being consumed and is not dropped.
6. A call that has ended counts, even if a later one of its portion still runs: before progress is written or read, and before a queue is
   dropped, ``record_ended`` settles it. (Java settles after each call.)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.listen.listener_call import ListenerBatch
from sprocketmq.client.listen.listener_service import ListenerService
from sprocketmq.client.listen.message_stream import MessageStream
from sprocketmq.client.listener_signals import reason_of
from sprocketmq.client.results import ConsumeOrderlyContext
from sprocketmq.core.consume import orderly_turn
from sprocketmq.core.consume.orderly_turn import ConsumeOrderlyStatus, OrderlyTurn, read_orderly_answer
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.net.process.clock import Timer
from sprocketmq.wire.records.message import MessageExt

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer

log = logging.getLogger("sprocketmq.client")

# The limits of a portion. Progress changes at its end, and batches that were not consumed are put back if the lock is lost.
_PORTION_BATCHES: Final = 64
_PORTION_S: Final = 0.1


class Batch(ListenerBatch[ConsumeOrderlyStatus]):
    __slots__ = ()
    context: ConsumeOrderlyContext


class _Turn:
    """The turn of a queue, which is also the work item of the pool (one portion)."""

    __slots__ = ("batches", "calling", "ended", "machine", "process_queue", "settled", "timer")

    def __init__(self, process_queue: ProcessQueue, machine: OrderlyTurn) -> None:
        self.process_queue = process_queue
        self.machine = machine
        self.batches: list[Batch] = []
        self.calling: Batch | None = None  # noted by the worker
        self.ended = 0  # how many batches plainly succeeded; noted by the worker, each when its call is over
        self.settled = 0  # how many of these were settled while the portion went on
        self.timer: Timer | None = None


class OrderlyService(ListenerService[_Turn]):
    orderly = True
    failed = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
    read_answer = staticmethod(read_orderly_answer)
    consequence = "is delivered again, after a pause of its queue", "are delivered again, after a pause of their queue"
    if_stuck = "keep their queue waiting, because it is consumed in order"

    def __init__(
        self, consumer: RunningConsumer, listener: Callable[..., Any], batch_size: int, stream: MessageStream | None
    ) -> None:
        super().__init__(consumer, listener, batch_size, stream)
        # An iteration asks for one message at a time: other messages must not leave the process queue.
        self._portion_batches = _PORTION_BATCHES if stream is None else 1
        self._orderly_turn = consumer.recorded(OrderlyTurn)
        self._turns: dict[ProcessQueue, _Turn] = {}
        self._warned_of: set[ConsumeOrderlyStatus] = set()

    # -- life ------------------------------------------------------------------------------------------------------------------

    def _running_calls(self) -> list[tuple[_Turn, Batch]]:
        turns = [running.item for running in self._pool.running]
        calls = [(turn, turn.calling) for turn in turns if turn.calling is not None]
        return [(turn, batch) for turn, batch in calls if batch.status is None and batch.began_ms]

    def _check_timeouts(self, now_ms: int) -> int | None:
        """Report calls over the limit. Their messages are not sent back, because those after them must wait for them."""
        deadlines_ms: list[int] = []
        for turn, batch in self._running_calls():
            deadline_ms = batch.began_ms + self.consume_timeout_ms
            if batch.stuck_reported:
                continue
            if deadline_ms <= now_ms:
                self._report_stuck(batch, batch.messages, turn, now_ms)
            else:
                deadlines_ms.append(deadline_ms)
        return min(deadlines_ms, default=None)

    def record_ended(self) -> None:
        """Settle the calls of portions that still run (rule 6)."""
        for turn in self._turns.values():
            ended, batches = turn.ended, turn.batches
            if batches and ended > turn.settled and not turn.process_queue.dropped:
                turn.settled = ended
                running = batches[ended].messages[0].queue_offset if ended < len(batches) else None
                self._commit(turn, turn.machine.ended_before(running))

    def running_since_ms(self) -> list[int]:
        return [batch.began_ms for _, batch in self._running_calls()]

    async def close(self, timeout_ms: float) -> bool:
        for turn in self._turns.values():
            if turn.timer is not None:
                turn.timer.cancel()
        return await super().close(timeout_ms)

    def _messages_of(self, turn: _Turn) -> Sequence[MessageExt]:
        return [] if turn.calling is None else turn.calling.messages

    def submit(self, process_queue: ProcessQueue) -> None:
        if self._closing or process_queue in self._turns:
            return
        machine = self._orderly_turn(
            process_queue,
            clustering=self._consumer.clustering,
            batch_size=self._batch_size,
            max_reconsume_times=self._consumer.max_reconsume_times,
            suspend_ms=self._consumer.settings.suspend_current_queue_time_ms,
        )
        turn = self._turns[process_queue] = _Turn(process_queue, machine)
        self._next(turn)

    def _new_batch(self, messages: list[MessageExt]) -> Batch:
        return Batch(messages, ConsumeOrderlyContext(messages[0].message_queue))

    # -- the turn --------------------------------------------------------------------------------------------------------------

    def _next(self, turn: _Turn) -> None:
        if self._closing:
            return
        turn.timer = None
        queue = turn.process_queue.queue
        assert queue is not None
        batches: list[Batch] = []
        effect = turn.machine.next(self._clock.steady_ms())
        while isinstance(effect, orderly_turn.ConsumeBatch):
            batches.append(Batch(effect.messages, ConsumeOrderlyContext(queue)))
            if len(batches) == self._portion_batches or not turn.process_queue.pending_count:
                break
            effect = turn.machine.next(self._clock.steady_ms())
        if batches:
            turn.batches, turn.ended, turn.settled = batches, 0, 0
            turn.process_queue.consuming = True
            self._pool.submit([turn])
        elif isinstance(effect, orderly_turn.LockLater):
            self._later(turn, effect.delay_ms, self._lock)
        elif isinstance(effect, orderly_turn.TurnOver):
            self._later(turn, effect.delay_ms, self._again)
        else:
            self._end(turn)

    def _later(self, turn: _Turn, delay_ms: float, action: Callable[[_Turn], None]) -> None:
        turn.timer = self._clock.call_later(delay_ms, lambda: None if self._closing else action(turn))

    def _again(self, turn: _Turn) -> None:
        self._end(turn)
        self.submit(turn.process_queue)

    def _end(self, turn: _Turn) -> None:
        if self._turns.get(turn.process_queue) is turn:
            del self._turns[turn.process_queue]

    def _lock(self, turn: _Turn) -> None:
        self._keep(partial(self._lock_then_again, turn))

    async def _lock_then_again(self, turn: _Turn) -> None:
        if turn.process_queue.dropped:
            self._end(turn)
            return
        granted = await self._consumer.rebalancer.lock_one(turn.process_queue)
        self._later(
            turn, orderly_turn.RESUBMIT_DELAY_MS if granted else orderly_turn.LOCK_REFUSED_DELAY_MS, self._again
        )

    # -- in a worker -----------------------------------------------------------------------------------------------------------

    def _call(self, turn: _Turn, origin: None = None) -> _Turn:
        end_s = time.perf_counter() + _PORTION_S
        for batch in turn.batches:
            if not self._may_begin(turn, end_s):
                break
            turn.calling, batch.began_ms = batch, self._clock.steady_ms()
            self._listener.run(batch)
            if self._stops(batch):
                break
            turn.ended += 1
        return turn

    async def _call_async(self, turn: _Turn, origin: None = None) -> _Turn:
        end_s = time.perf_counter() + _PORTION_S
        for batch in turn.batches:
            if not self._may_begin(turn, end_s):
                break
            turn.calling, batch.began_ms = batch, self._clock.steady_ms()
            await self._listener.run_async(batch)
            if self._stops(batch):
                break
            turn.ended += 1
        return turn

    def _may_begin(self, turn: _Turn, end_s: float) -> bool:
        process_queue = turn.process_queue
        if process_queue.dropped or self._closing or time.perf_counter() > end_s:
            return False
        return not self._consumer.clustering or process_queue.lock.is_valid(self._clock.steady_ms())

    @staticmethod
    def _stops(batch: Batch) -> bool:
        return not batch.context.auto_commit or batch.status is ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

    # -- back on the loop ------------------------------------------------------------------------------------------------------

    def _on_done(self, turns: list[_Turn], origin: None, spent_s: float) -> None:
        for turn in turns:
            process_queue, batches = turn.process_queue, turn.batches[turn.settled :]
            process_queue.consuming = False
            self._measure([batch for batch in turn.batches if batch.status is not None])
            turn.batches = []
            turn.calling = None
            if not process_queue.dropped and not (batches and process_queue.is_in_flight(batches[0].messages[0])):
                self._next(turn)  # rule 4: the process queue was restarted meanwhile; or all was settled before
                continue
            called = [batch for batch in batches if batch.status is not None]
            last = called[-1] if called and self._stops(called[-1]) else None
            plain = called[:-1] if last is not None else called
            # Rule 3: commit() settles all that is in flight, so what must not be settled goes back to its place first.
            process_queue.put_back([message for batch in batches if batch not in plain for message in batch.messages])
            if plain and not process_queue.dropped:
                self._commit(turn, turn.machine.settle(plain[-1].messages, ConsumeOrderlyStatus.SUCCESS))
            if process_queue.dropped:
                self._end(turn)
            elif last is None:
                self._next(turn)
            else:
                self._settle_last(turn, last)

    def _settle_last(self, turn: _Turn, batch: Batch) -> None:
        assert batch.status is not None
        taken = turn.process_queue.take(len(batch.messages), self._clock.now_ms())
        effects = turn.machine.settle(
            taken,
            batch.status,
            auto_commit=batch.context.auto_commit,
            dead_letter=batch.context.dead_letter and self._consumer.clustering,
            suspend_ms=batch.context.suspend_current_queue_time_ms,
        )
        self._apply(turn, effects, reason_of(batch.failure))

    def _apply(self, turn: _Turn, effects: Sequence[orderly_turn.OrderlyEffect], reason: str = "") -> None:
        """Carry out what a settle asked for, then go on with the turn unless it is over. ``reason`` is kept with dead letters."""
        self._commit(turn, effects)
        pause = next((effect for effect in effects if isinstance(effect, orderly_turn.Suspended)), None)
        for effect in effects:
            if isinstance(effect, orderly_turn.DeadLetterNeeded):
                turn.process_queue.consuming = True  # rule 5
                self._keep(partial(self._dead_letter, turn, effect, reason))
                return
        if pause is not None:
            self._later(turn, pause.delay_ms, self._again)
        else:
            self._next(turn)

    def _commit(self, turn: _Turn, effects: Sequence[orderly_turn.OrderlyEffect]) -> None:
        process_queue = turn.process_queue
        queue = process_queue.queue
        for effect in effects:
            if isinstance(effect, orderly_turn.Commit) and queue is not None:
                if not self._consumer.clustering or self._may_write_progress(process_queue):
                    self._consumer.offset_store.progress.update(queue, effect.offset, increase_only=False)
                self._consumer.messages_left(process_queue)

    def _may_write_progress(self, process_queue: ProcessQueue) -> bool:
        """Whether no other member can have the lock, or has had it since these messages came (rule 4)."""
        lock = process_queue.lock
        return lock.is_ours(self._clock.steady_ms()) and not process_queue.awaits_offset

    async def _dead_letter(self, turn: _Turn, needed: orderly_turn.DeadLetterNeeded, reason: str) -> None:
        sent: list[MessageExt] = []
        failed: list[MessageExt] = []
        try:
            for message in needed.messages:
                if turn.process_queue.dropped:
                    self._end(turn)
                    return
                stored = await self._store_dead_letter(message, reason)
                (sent if stored else failed).append(message)
        finally:
            turn.process_queue.consuming = False
        self._apply(turn, turn.machine.dead_lettered(sent, failed))

    async def _store_dead_letter(self, message: MessageExt, reason: str) -> bool:
        try:
            return await self._consumer.send_back.dead_letter_orderly(message, reason)
        except Exception as error:  # noqa: BLE001 - it blocks its queue and is retried, like any that could not be stored
            sentence, name = "group %s: %s could not be dead-lettered: %s", self._consumer.name
            outages = self._consumer.instance.cluster.outages
            outages.failed("dead letters", error, sentence, name, message.message_id, error, of=name)
            return False

    def _measure(self, batches: Sequence[Batch]) -> None:
        now_ms = self._clock.now_ms()
        for batch in batches:
            failed = batch.status is not ConsumeOrderlyStatus.SUCCESS and self._is_delivered_again(batch)
            count = len(batch.messages)
            self._consumer.statistics.consumed(
                batch.messages[0].topic, 0 if failed else count, count if failed else 0, batch.spent_s * 1000, now_ms
            )

    def _is_delivered_again(self, batch: Batch) -> bool:
        """Whether a batch without SUCCESS is delivered again. With auto-commit, COMMIT and ROLLBACK count as SUCCESS, with a warning (Java
        warns each time, here each of the two is logged once)."""
        status = batch.status
        if not batch.context.auto_commit:
            return status is not ConsumeOrderlyStatus.COMMIT
        if status is ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT or status is None:
            return True
        if status not in self._warned_of:
            self._warned_of.add(status)
            log.warning(
                "group %s: the listener returned %s with auto-commit, which counts as SUCCESS (logged once); to commit and roll back "
                "yourself, set context.auto_commit = False",
                self._consumer.name,
                status.name,
            )
        return False
