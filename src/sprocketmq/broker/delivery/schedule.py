# SPDX-License-Identifier: Apache-2.0
"""Delay levels: a delayed message waits in the queue of its level until it is due (Java: ScheduleMessageService).

A message of level n waits in queue n-1 of SCHEDULE_TOPIC_XXXX: REAL_TOPIC and REAL_QID keep its destination, the tags code of its entry is
the delivery time. All messages of a level wait equally long, so only the head of its queue needs a timer (Java polls each level every 100
ms). Levels that are due take turns, a step each: to the last due message, or to a limit; a pause after it lets a stream of messages be
delivered in groups. Progress is in ``delayOffset.json``, after the copies are on the disk.

1. Progress follows the copies: each names its waiting message, so a start finds in the log what was delivered since.
2. A message is not delivered before its time: store time + delay of its level (but not later than now + delay if the clock went back).
3. Within a level, messages are delivered in the order in which they were stored.
4. A level has a timer or waits for its turn exactly if its queue has an entry at or after its progress.
5. A refused delivery holds its level: a full disk skips nothing. One that is refused for good is set aside (``undeliverable``).
6. A level that the configuration no longer has is still emptied, at the times with which its messages were stored.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.delivery.waiting_records import (
    FIRST_ENTRIES,
    LONGEST_SLEEP_MS,
    RETRY_MS,
    STEP_BYTES,
    WaitingRecords,
    copy_of,
    delivered_from,
    destination,
    has_grown,
)
from sprocketmq.broker.redirection import redirect
from sprocketmq.core.resource_names import SCHEDULE_TOPIC
from sprocketmq.core.retry.retry_schedule import DelayLevels, delay_level_of_queue, queue_of_delay_level
from sprocketmq.errors import RocketMQError
from sprocketmq.net.process.clock import Timer
from sprocketmq.store import StoredMessage, Unit
from sprocketmq.wire.bodies import DataVersion, DelayOffsetSerializeWrapper
from sprocketmq.wire.records import properties as props

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

_STEP_MESSAGES: Final = 128
_PAUSE_MS: Final = 5  # between two steps of a level that has delivered all that was due
_NEVER_MS: Final = 2**63 - 1


class ScheduleMessageService:
    def __init__(self, broker: Broker) -> None:
        self.levels = DelayLevels.parse(broker.config.message_delay_level)
        self.is_dirty = False
        self.data_version = DataVersion()
        self._troubles = broker.troubles
        self._clock, self._store, self._undeliverable = broker.clock, broker.store, broker.undeliverable
        self._progress: dict[int, int] = {}  # level -> next queue offset
        self._is_loaded = False
        self._copies_before: int | None = None  # of the progress that was saved last
        self._timers: dict[int, Timer] = {}
        self._turns: deque[int] = deque()  # levels that are due, in the order of their steps
        self._turn: Timer | None = None
        self._running = False

    # -- life ------------------------------------------------------------------------------------------------------------------

    def load(self, content: DelayOffsetSerializeWrapper) -> None:
        self._progress, self._copies_before = dict(content.offset_table), content.copies_before
        self._is_loaded = True
        if content.data_version is not None:  # 4.9 writes none
            self.data_version = content.data_version

    def clamp(self) -> None:
        """A loss was accepted: levels whose progress is beyond the end of their queue continue at that end."""
        for level, offset in self._progress.items():
            end = self._store.max_offset(SCHEDULE_TOPIC, queue_of_delay_level(level))
            if offset > end:
                log.warning("delay level %d was at offset %d of its queue, which now ends at %d", level, offset, end)
                self._progress[level] = end
                self.is_dirty = True

    def content(self) -> DelayOffsetSerializeWrapper:
        """For the file, which is written then."""
        self.is_dirty = False
        return self.snapshot()

    def snapshot(self) -> DelayOffsetSerializeWrapper:
        """For a slave."""
        self.data_version.next_version(self._clock.now_ms())
        self._copies_before = self._store.max_physical_offset
        return DelayOffsetSerializeWrapper(
            offset_table=dict(self._progress), data_version=self.data_version, copies_before=self._copies_before
        )

    def note_log_growth(self) -> None:
        if self._progress and has_grown(self._store, self._copies_before):
            self.is_dirty = True

    async def start(self) -> None:
        self._running = True
        if self._copies_before is not None or not self._is_loaded:  # copies of a Java broker name no message
            for record in delivered_from(self._store, SCHEDULE_TOPIC, self._copies_before):
                level, offset = delay_level_of_queue(record.queue_id), record.queue_offset + 1
                if offset > self._progress.get(level, 0):
                    self._note(level, offset)
        if self._copies_before is not None and self._copies_before > self._store.max_physical_offset:
            self.is_dirty = True  # the end of the log was lost, and that is accepted
        for topic, queue_id in self._store.queues():
            if topic == SCHEDULE_TOPIC:
                self._watch(delay_level_of_queue(queue_id))

    async def stop(self) -> None:
        self._running = False
        for timer in self._timers.values():
            timer.cancel()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._timers.clear()
        self._turns.clear()

    # -- waiting ---------------------------------------------------------------------------------------------------------------

    def let_wait(self, message: StoredMessage, level: int, now_ms: int) -> None:
        """Redirect ``message`` into the queue of its level; the caller then stores it as usual. Java: transformDelayLevelMessage."""
        raw = message.properties
        if level > self.levels.max_level:
            level = self.levels.max_level
            raw = props.set_property(raw, props.DELAY, str(level))
        redirect(message, raw, SCHEDULE_TOPIC, queue_of_delay_level(level))
        message.tags_code = self.levels.due_ms(level, now_ms)

    def stored(self, queue_id: int) -> None:
        """Note that the broker stored a message in SCHEDULE_TOPIC_XXXX."""
        level = delay_level_of_queue(queue_id)
        if self._running and level not in self._timers and level not in self._turns:
            self._watch(level)

    def waiting(self, level: int) -> int:
        queue_id = queue_of_delay_level(level)
        return self._store.max_offset(SCHEDULE_TOPIC, queue_id) - self.progress(level)

    # -- delivering ------------------------------------------------------------------------------------------------------------

    def progress(self, level: int) -> int:
        return self._store.nearest_offset(SCHEDULE_TOPIC, queue_of_delay_level(level), self._progress.get(level, 0))

    def _latest_due_ms(self, level: int, now_ms: int) -> int:
        """A delivery time after this counts as due now: the clock went back, or the level was longer."""
        return self.levels.latest_due_ms(level, now_ms) if level <= self.levels.max_level else _NEVER_MS  # rule 6

    def _watch(self, level: int, pause_ms: int = 0) -> None:
        queue_id = queue_of_delay_level(level)
        head = self._store.units(SCHEDULE_TOPIC, queue_id, self.progress(level), 1)
        if head:
            now_ms, due_ms = self._clock.now_ms(), head[0].tags_code
            sleep_ms = due_ms - now_ms if due_ms <= self._latest_due_ms(level, now_ms) else 0
            self._set_timer(level, max(min(sleep_ms, LONGEST_SLEEP_MS), pause_ms))

    def _set_timer(self, level: int, sleep_ms: int) -> None:
        self._timers[level] = self._clock.call_later(sleep_ms, lambda: self._is_due(level))

    def _is_due(self, level: int) -> None:
        self._timers.pop(level, None)
        if self._running and level not in self._turns:
            self._turns.append(level)
            self._resume_soon()

    def _resume_soon(self) -> None:
        """Schedule the next step as a timer that is due at once, so that the loop reads the sockets before it."""
        if self._turn is None:
            self._turn = self._clock.call_later(0, self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        if not self._running:
            return
        level = self._turns.popleft()
        before = self._progress.get(level)
        try:
            more = self._deliver_due(level)
        except RocketMQError as error:  # rule 5
            sentence = "messages of delay level %d are late, tried again every %d ms: %s"
            self._troubles.failed("delays", sentence, level, RETRY_MS, error, of=f"level {level}", level=logging.ERROR)
            self._set_timer(level, RETRY_MS)
        else:
            if more:
                self._turns.append(level)
            elif self._running and level not in self._timers:
                self._watch(level, _PAUSE_MS if self._progress.get(level) != before else 0)
        if self._turns:
            self._resume_soon()

    def _deliver_due(self, level: int) -> bool:
        """Do one step; returns whether the level has more due messages."""
        store, queue_id, position = self._store, queue_of_delay_level(level), self.progress(level)
        now_ms, records = self._clock.now_ms(), WaitingRecords(store)
        latest_ms = self._latest_due_ms(level, now_ms)
        count, left, left_bytes = FIRST_ENTRIES, _STEP_MESSAGES, STEP_BYTES
        while True:
            units = store.units(SCHEDULE_TOPIC, queue_id, position, min(count, left))
            for unit in units:
                if now_ms < unit.tags_code <= latest_ms:
                    return False
                self._deliver(records, unit, now_ms)
                position = unit.queue_offset + 1
                self._note(level, position)
                left -= 1
                left_bytes -= unit.size
                if left == 0 or left_bytes <= 0:
                    return True
            if not units:
                return False
            count *= 2

    def _deliver(self, records: WaitingRecords, unit: Unit, now_ms: int) -> None:
        """Store the message in its real topic. DELAY, REAL_TOPIC and REAL_QID stay in the properties, as in Java."""
        record = records.get(unit.physical_offset)
        if record is None:
            sentence = "the delayed message at commit log offset %d is gone"
            self._troubles.failed("gone", sentence, unit.physical_offset, level=logging.ERROR)
            return
        topic, queue_id = destination(record[2])
        self._undeliverable.deliver(copy_of(record, topic, queue_id, record[2]), now_ms)

    def _note(self, level: int, position: int) -> None:
        self._progress[level] = position
        self.is_dirty = True
