"""Delay levels: a delayed message waits in a queue of its level until it is due (Java: ScheduleMessageService).

    put(message, level n) --> SCHEDULE_TOPIC_XXXX, queue n-1, REAL_TOPIC and REAL_QID remember where to
                              tags code of the queue entry = delivery time
                                |  timer for the head of each queue
                                v
                              due: a new record in the real topic and queue; progress[n] = next queue offset

All messages of a level wait equally long, so each queue is sorted by delivery time and its head alone needs a timer. Java looks at every
level each 100 ms; one timer for the head gives the same deliveries, and an idle broker costs nothing.

Progress is kept twice. ``delayOffset.json`` is written each 10 s, once the copies it speaks of are on the disk: Apache reads it, and a
power cut goes back to it. ``delayOffset.live`` has each step (``store.live_progress``), so a kill goes back by one step at most.

Laws
1. Delivery is at least once: progress moves after the append, so a crash between the two delivers again, never skips.
2. A message is delivered at its time, not before: store time + delay of its level (not later than now + delay, if the clock went back).
3. Within a level, messages are delivered in the order they were stored.
4. A level has a timer exactly when its queue holds an entry at or after its progress.
5. A refused delivery holds its level up until the store takes it: nothing is skipped because a disk was full.
6. A level that the configuration no longer has is emptied all the same, at the times its messages were stored with.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from sprocketmq.core.retry_schedule import SCHEDULE_TOPIC, DelayLevels, delay_level_of_queue, queue_of_delay_level
from sprocketmq.errors import ProtocolError, RocketMQError, StoreError
from sprocketmq.net.clock import Clock, Timer
from sprocketmq.store.live_progress import LiveProgress
from sprocketmq.store.message_store import MessageStore, StoredMessage, Unit
from sprocketmq.wire import properties as props
from sprocketmq.wire.bodies import DataVersion, DelayOffsetSerializeWrapper
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.record import RecordView

__all__ = ["Schedule"]

log = logging.getLogger("sprocketmq.broker")

_BATCH: Final = 64  # deliveries between two returns to the loop
_RETRY_MS: Final = 1_000
_LONGEST_SLEEP_MS: Final = 10_000  # the loop's timers do not notice that the clock was set
_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"


class Schedule:
    """The deliverer of delayed messages. ``put(message, now_ms)`` is the broker's; ``start`` once the store is loaded.

    ``live`` keeps each step of the progress; by default nowhere.
    """

    def __init__(
        self,
        clock: Clock,
        store: MessageStore,
        levels: DelayLevels,
        put: Callable[[StoredMessage, int], object],
        live: LiveProgress | None = None,
    ) -> None:
        self.levels = levels
        self.is_dirty = False
        self.data_version = DataVersion()
        self._clock, self._store, self._put = clock, store, put
        self._progress: dict[int, int] = {}  # level -> next queue offset
        self._timers: dict[int, Timer] = {}
        self._live = live or LiveProgress(None)
        self._late: set[int] = set()  # levels whose delivery was refused, and that was said
        self._running = False

    # -- life ------------------------------------------------------------------------------------------------------------------

    def load(self, content: DelayOffsetSerializeWrapper) -> None:
        """Take over what ``delayOffset.json`` holds."""
        self._progress = dict(content.offset_table)
        if content.data_version is not None:  # 4.9 writes none
            self.data_version = content.data_version

    def content(self) -> DelayOffsetSerializeWrapper:
        self.is_dirty = False
        self.data_version.next_version(self._clock.now_ms())
        return DelayOffsetSerializeWrapper(offset_table=dict(self._progress), data_version=self.data_version)

    async def start(self) -> None:
        self._running = True
        for level, live in enumerate(self._live.load() or (), 1):
            if live > self._progress.get(level, 0):
                self._progress[level] = live
                self.is_dirty = True
        for topic, queue_id in self._store.queues():
            if topic == SCHEDULE_TOPIC:
                self._watch(delay_level_of_queue(queue_id))

    async def stop(self) -> None:
        was_running, self._running = self._running, False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._live.close()
        if was_running and self.is_dirty:
            try:
                self._store.flush()
            except StoreError as error:  # the copies may be lost, so the progress must not be written: they come again
                log.error("the progress of the delay levels is not written: %s", error)
                self.is_dirty = False

    def when_durable(self, write: Callable[[bytes], object]) -> None:
        """Hand the content of ``delayOffset.json`` to ``write`` once all copies it speaks of are on the disk; maybe at once."""
        content, end = self.content().encode(), self._store.max_physical_offset
        if not self._running or self._store.flushed_offset >= end:
            write(content)
            return
        loop, future = asyncio.get_running_loop(), self._store.when_durable(end)

        def done() -> None:
            if (
                self._running and future.exception() is None
            ):  # else the stop writes a newer one, or there is nothing to trust
                write(content)

        future.add_done_callback(lambda _: loop.call_soon_threadsafe(done))

    # -- parking ---------------------------------------------------------------------------------------------------------------

    def park(self, message: StoredMessage, level: int, now_ms: int) -> None:
        """Redirect ``message`` into the queue of its level; the caller then puts it as ever. Java: transformDelayLevelMessage."""
        raw = message.properties
        if level > self.levels.max_level:
            level = self.levels.max_level
            raw = props.set_property(raw, props.DELAY, str(level))
        raw = props.set_property(raw, props.REAL_TOPIC, message.topic)
        message.properties = props.set_property(raw, props.REAL_QID, str(message.queue_id))
        message.topic, message.queue_id = SCHEDULE_TOPIC, queue_of_delay_level(level)
        message.tags_code = self.levels.due_ms(level, now_ms)

    def stored(self, queue_id: int) -> None:
        """The broker put a message into SCHEDULE_TOPIC_XXXX."""
        level = delay_level_of_queue(queue_id)
        if self._running and level not in self._timers:
            self._watch(level)

    def waiting(self, level: int) -> int:
        """How many messages of ``level`` wait."""
        queue_id = queue_of_delay_level(level)
        return self._store.max_offset(SCHEDULE_TOPIC, queue_id) - self._position(level)

    def progress(self, level: int) -> int:
        """Queue offset of the level's next delivery."""
        return self._position(level)

    # -- delivering ------------------------------------------------------------------------------------------------------------

    def _position(self, level: int) -> int:
        """Progress, moved into the queue's range: files may have expired, or a queue may have been truncated by recovery."""
        queue_id = queue_of_delay_level(level)
        first, end = self._store.min_offset(SCHEDULE_TOPIC, queue_id), self._store.max_offset(SCHEDULE_TOPIC, queue_id)
        return min(max(self._progress.get(level, 0), first), end)

    def _due_ms(self, level: int, unit: Unit, now_ms: int) -> int:
        if level > self.levels.max_level:  # law 6
            return unit.tags_code
        return self.levels.corrected_due_ms(level, unit.tags_code, now_ms)

    def _watch(self, level: int) -> None:
        """Set the timer of a level's head, if the level has one (law 4)."""
        queue_id = queue_of_delay_level(level)
        head = self._store.units(SCHEDULE_TOPIC, queue_id, self._position(level), 1)
        if not head:
            return
        now_ms = self._clock.now_ms()
        sleep_ms = min(self._due_ms(level, head[0], now_ms) - now_ms, _LONGEST_SLEEP_MS)
        self._timers[level] = self._clock.call_later(sleep_ms, lambda: self._deliver(level))

    def _deliver(self, level: int) -> None:
        self._timers.pop(level, None)
        if not self._running:
            return
        try:
            self._deliver_due(level)
        except RocketMQError as error:  # law 5
            if level not in self._late:  # said once: a full disk must not fill itself with complaints
                self._late.add(level)
                log.error("messages of delay level %d are late, tried again each %d ms: %s", level, _RETRY_MS, error)
            self._timers[level] = self._clock.call_later(_RETRY_MS, lambda: self._deliver(level))
            return
        self._late.discard(level)
        # A full batch comes back through a timer that is due at once: the loop breathes in between.
        if self._running and level not in self._timers:
            self._watch(level)

    def _deliver_due(self, level: int) -> None:
        queue_id, position = queue_of_delay_level(level), self._position(level)
        for unit in self._store.units(SCHEDULE_TOPIC, queue_id, position, _BATCH):
            now_ms = self._clock.now_ms()
            if self._due_ms(level, unit, now_ms) > now_ms:
                return
            message = self._restored(unit)
            if message is not None:
                self._put(message, now_ms)
            self._progress[level] = unit.queue_offset + 1  # law 1: after the append
            self.is_dirty = True
            self._live.save([self._progress.get(number, 0) for number in range(1, max(self._progress) + 1)])

    def _restored(self, unit: Unit) -> StoredMessage | None:
        """The message for its real topic; None, and a complaint, when there is nothing to deliver."""
        chunk = self._store.record_at(unit.physical_offset)
        try:
            message = None if chunk is None else _restored(RecordView(chunk))
        except ProtocolError:
            message = None
        if message is None or message.topic == _HALF_TOPIC:
            log.error("the delayed message at commit log offset %d is gone, or says not where to", unit.physical_offset)
            return None
        return message


def _restored(record: RecordView) -> StoredMessage | None:
    """The message for its real topic. DELAY, REAL_TOPIC and REAL_QID stay in the properties, as Java leaves them."""
    raw = record.raw_properties
    topic = props.get_property(raw, props.REAL_TOPIC)
    if topic is None:
        return None
    queue_id = props.get_property(raw, props.REAL_QID) or "0"
    return StoredMessage(
        topic=topic,
        queue_id=int(queue_id) if queue_id.isdigit() else 0,
        body=bytes(record.body),
        properties=raw,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        tags_code=tags_code(props.get_property(raw, props.TAGS)),
    )
