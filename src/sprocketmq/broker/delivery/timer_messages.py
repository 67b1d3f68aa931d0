# SPDX-License-Identifier: Apache-2.0
"""Timer messages: delivered at any requested time, to the second (Java: TimerMessageStore, HookUtils).

    send with TIMER_*  --> rmq_sys_wheel_timer, queue 0     with REAL_TOPIC, REAL_QID and TIMER_OUT_MS for place and time
                             |  read in order: queue_offset
                             v
                           slot of its second (timer wheel, timer log)          a week late: delivered at once
                             |  one timer, for the nearest slot in use
                             v
                           in the order they were sent: - recalled (a unit of the slot names its key): dropped
                                                        - still far away: stored in rmq_sys_wheel_timer again (a roll)
                                                        - otherwise a new record in the real topic and queue

The slots in use are in a heap whose head has a timer (Java polls each second), so a broker without timer messages has neither files nor
work. Reading and delivering are done in steps of about 2 ms. Besides the rules of ``store.timer.timer_files``:

1. Never early: a slot is read when its second is over, which is at or after the requested time.
2. Progress is noted after the append, as done only when it is on the disk. Copies since then name their waiting message: none comes twice.
3. The messages of a slot are delivered in the order in which they were sent; slots in the order of their time.
4. A timer is set exactly when something waits and no slot is being delivered.
5. A message that is refused for good is set aside (``undeliverable``) and delays no other; one that is refused for now is tried again.
6. A message that was recalled before its slot was read is not delivered.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import logging
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct, field

from sprocketmq.broker.delivery.waiting_records import (
    FIRST_ENTRIES,
    LONGEST_SLEEP_MS,
    RETRY_MS,
    STEP_BYTES,
    WaitingRecord,
    WaitingRecords,
    copy_of,
    delivered_from,
    destination,
    has_grown,
)
from sprocketmq.broker.redirection import redirect
from sprocketmq.broker.tables.topics import DELIVERY_FORBIDDEN
from sprocketmq.core.timer_schedule import (
    TIMER_TOPIC,
    TimerRules,
    asked_deliver_ms,
    flow_control_refuses,
    java_long,
)
from sprocketmq.errors import ConfigurationError, RocketMQError, StoreError
from sprocketmq.net.process.clock import Timer
from sprocketmq.store import StoredMessage, Unit
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.store.timer.timer_check import TimerCheck
from sprocketmq.store.timer.timer_files import TimerFiles
from sprocketmq.store.timer.timer_log import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, TimerUnit
from sprocketmq.threads import ClaimedWork
from sprocketmq.wire.bodies import DataVersion, TimerMetric, TimerMetricsSerializeWrapper
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.hashing import java_hash
from sprocketmq.wire.records import properties as props

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

_STEP_MESSAGES: Final = 100  # deliveries or queue entries between two returns to the loop
_WALK: Final = 1_000  # links followed between two returns to the loop
_LATE_MS: Final = 7 * 24 * 3_600_000  # after a longer time the wheel may need the slot for another time
_NEVER_ENQUEUED: Final = 2**63 - 1  # Java's mark in TIMER_ENQUEUE_MS of a message that was due when it was read
# The extra length of a copy: TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS and TIMER_ROLL_TIMES, each with a Long.
_STAMPS_BYTES: Final = 3 * (len("TIMER_DEQUEUE_MS") + 1 + 20 + 1)
_COPIED: Final = (f"{props.TIMER_ENQUEUE_MS}\x01".encode(), f"{props.TIMER_DEQUEUE_MS}\x01".encode())
# The real topic of a recall, and the key that it names. Apache compares only the key, so a client that may send to one topic could recall
# the messages of any other; a recall (370) always goes to its message's own topic.
_Named = tuple[str, str]
_TOPIC_BYTES: Final = TIMER_TOPIC.encode()
_topic_hash = functools.lru_cache(maxsize=1024)(java_hash)


class TimerRefusal(Struct, frozen=True):
    code: int
    remark: str


class _SlotDelivery(Struct):
    """One slot that is being delivered: its list is followed backwards from ``position`` to ``until``, then delivered forwards."""

    slot_ms: int
    last: int
    position: int
    copies_before: int  # its copies are behind this place of the log
    until: int = -1
    units: list[TimerUnit] = field(default_factory=list)
    recalls: list[TimerUnit] = field(default_factory=list)
    keys: dict[_Named, bool] | None = None  # keys to recall -> whether they were found; None before the list's end
    at: int = 0


class _Done(NamedTuple):
    """A delivered slot that the wheel still has. Once its copies are on the disk it is emptied there; until the wheel is on the disk, too,
    a start has to find its copies."""

    slot_ms: int
    last: int
    copies_before: int


class TimerMessages:
    def __init__(self, broker: Broker) -> None:
        config, root = broker.config, broker.root
        self.enabled = config.timer_wheel_enable
        self.rules = TimerRules(
            config.timer_precision_ms, config.timer_roll_window_slot, config.timer_max_delay_sec * 1000
        )
        self.files = TimerFiles(
            None if root is None else str(root), self.rules.precision_ms, config.mapped_file_size_timer_log
        )
        self._broker, self._undeliverable = broker, broker.undeliverable
        self._clock, self._store = broker.clock, broker.store
        self.metrics: dict[str, TimerMetric] = {}
        self.data_version = DataVersion()
        self._metrics_file = ConfigFile(None if root is None else root / "config" / "timermetrics")
        self._due: list[int] = []  # heap of the slots in use
        self._delivery: _SlotDelivery | None = None
        self._timer: Timer | None = None
        self._armed_for = 0
        self._is_catching_up = True  # a recall may stand behind what is due
        self._reading = False  # the queue is being read, or a timer will start reading
        self._read_timer: Timer | None = None
        self._counts: Counter[str] = Counter()  # changes of the present step by topic
        # Physical offsets of messages that were delivered before the start, until the last slot that has one of them is done.
        self._delivered: set[int] = set()
        self._delivered_until_ms = 0
        self._copies_before = 0  # copies before this place of the log are of messages that the progress counts
        self._done: list[_Done] = []
        self._emptying: list[_Done] = []  # when the copies before the present snapshot are on the disk
        self._save_timer: Timer | None = None
        self._saving: asyncio.Future[None] | None = None
        self._flushed_position = 0
        self._running = False

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        if not self.enabled:
            return
        metrics = self._metrics_file.load(TimerMetricsSerializeWrapper.decode, key="timingCount")
        if metrics is not None:
            self.metrics, self.data_version = dict(metrics.timing_count), metrics.data_version
        store = self._store
        self.files.load(self._queue_offset_of, store.max_physical_offset, store.max_offset(TIMER_TOPIC, 0))
        check = self.files.check
        self._flushed_position = check.last_timer_log_flush_pos
        self._copies_before = check.copies_before or 0
        self._delivered_until_ms = self._clock.now_ms()
        if check.copies_before is not None or not check.counter:  # copies of a Java broker name no message
            found = delivered_from(store, TIMER_TOPIC, check.copies_before)
            self._delivered = {record.physical_offset for record in found}
            self._delivered_until_ms = max(self._delivered_until_ms, self.files.latest_slot_ms(self._delivered))
        self._done = [_Done(slot.time_ms, slot.last, self._copies_before) for slot in self.files.not_emptied]
        self.files.queue_offset = store.nearest_offset(TIMER_TOPIC, 0, self.files.queue_offset)
        self._due = sorted(self.files.wheel.slots)
        self._running = True
        self._read_queue()
        self._arm()

    async def stop(self) -> None:
        was_running, self._running = self._running, False
        for timer in (self._timer, self._read_timer, self._save_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._read_timer = self._save_timer = None
        if self._saving is not None:
            await asyncio.wait([self._saving])
        if was_running and self.files.root is not None and self._was_used():
            try:
                self._store.flush()
                self._begin_emptying()
                self._empty_done()
                self.files.sync(self._flushed_position, self._snapshot())
                self._metrics_file.save(self.content().encode())
            except StoreError as error:
                log.error("the timer's progress is not written: %s", error)
        self.files.close()

    def _was_used(self) -> bool:
        return self.files.queue_offset > 0 or self._store.max_offset(TIMER_TOPIC, 0) > 0

    # -- redirecting -----------------------------------------------------------------------------------------------------------

    def let_wait(self, message: StoredMessage, now_ms: int) -> TimerRefusal | None:
        """Redirect a message with a delivery time; the caller then stores it as usual. Java: transformTimerMessage."""
        if not self.enabled:
            return TimerRefusal(
                ResponseCode.SYSTEM_ERROR,
                "timer messages are switched off (timerWheelEnable is false); use a delay level",
            )
        raw = message.properties
        try:
            deliver_ms = asked_deliver_ms(raw, now_ms)
        except ConfigurationError as error:
            return TimerRefusal(ResponseCode.MESSAGE_ILLEGAL, str(error))
        if deliver_ms <= now_ms:
            if props.get_property(raw, props.TIMER_DEL_UNIQKEY) is not None:
                remark = "the time of the message to take back has passed; it is delivered, or about to be"
                return TimerRefusal(ResponseCode.MESSAGE_ILLEGAL, remark)
            return None
        if deliver_ms - now_ms > self.rules.max_delay_ms:
            remark = f"the delay is {deliver_ms - now_ms} ms, at most {self.rules.max_delay_ms} are allowed (timerMaxDelaySec)"
            return TimerRefusal(ResponseCode.MESSAGE_ILLEGAL, remark)
        out_ms = self.rules.slot_of(deliver_ms)
        limit = self._broker.config.timer_congest_num_each_slot
        if flow_control_refuses(self.files.wheel.number(out_ms), limit, random.randrange):
            remark = f"more than {limit} messages wait for that second (timerCongestNumEachSlot); choose another one"
            return TimerRefusal(ResponseCode.SYSTEM_ERROR, remark)
        raw = props.set_property(raw, props.TIMER_OUT_MS, str(out_ms))
        where = f"{props.REAL_TOPIC}\x01{message.topic}\x02{props.REAL_QID}\x01{message.queue_id}\x02"
        most_bytes = props.MAX_PROPERTIES_BYTES - len(where.encode()) - _STAMPS_BYTES
        if len(raw) > most_bytes:
            remark = f"the properties take {len(raw)} bytes, at most {most_bytes} are allowed: the broker adds its own when the time comes"
            return TimerRefusal(ResponseCode.MESSAGE_ILLEGAL, remark)
        redirect(message, raw, TIMER_TOPIC, 0)
        return None

    def direct_send_problem(self, topic: str, raw: bytes) -> str | None:
        """Why a message that a client sends to rmq_sys_wheel_timer itself, as Apache allows, could not be delivered: its destination is
        forbidden or missing, or it is too long. None if it could, or ``topic`` is another one. Without time and place it is skipped when
        it is read."""
        if topic != TIMER_TOPIC:
            return None
        real, queue_id = destination(raw)
        if not real or props.get_property(raw, props.TIMER_OUT_MS) is None:
            return None
        config = None if real in DELIVERY_FORBIDDEN else self._broker.topics.get(real)
        queues = 0 if config is None else max(config.write_queue_nums, config.read_queue_nums)
        if queue_id >= queues:
            return f"{props.REAL_TOPIC} is {real[:80]!r}, a topic with {queues} queues to send to, and {props.REAL_QID} is {queue_id}"
        most_bytes = props.MAX_PROPERTIES_BYTES - _STAMPS_BYTES
        if len(raw) > most_bytes:
            return f"the properties take {len(raw)} bytes, at most {most_bytes} are allowed for a timer message"
        return None

    def stored(self) -> None:
        """Note that the broker stored a message in rmq_sys_wheel_timer; it is read at the end of this turn of the loop."""
        if self._running and not self._reading:
            self._reading = True
            self._read_timer = asyncio.get_running_loop().call_soon(self._read_queue)

    # -- what is known ---------------------------------------------------------------------------------------------------------

    @property
    def read_ms(self) -> int:
        """The time before which all slots are delivered; the present slot if no message waits."""
        first_ms = self.rules.floor(self._clock.now_ms()) if self._delivery is None else self._delivery.slot_ms
        return min([first_ms, *self._due[:1]])

    @property
    def waiting(self) -> int:
        """Number of waiting messages without recalled ones."""
        return self.files.wheel.total()

    def checkpoint(self) -> bytes:
        return self._snapshot().encode()

    def _snapshot(self) -> TimerCheck:
        if self._delivery is None:
            if not self._reading and self.read_ms > self._delivered_until_ms:
                self._delivered.clear()
            self._count_copies()
        copies_before = min([self._copies_before, *(done.copies_before for done in self._done + self._emptying)])
        return self.files.snapshot(self.read_ms, self._clock.now_ms(), copies_before)

    def _count_copies(self) -> None:
        if not self._delivered:
            self._copies_before = self._store.max_physical_offset

    def note_log_growth(self) -> None:
        if self._was_used() and has_grown(self._store, self.files.check.copies_before):
            self._changed()

    def content(self) -> TimerMetricsSerializeWrapper:
        """Answer to GET_TIMER_METRICS, and ``config/timermetrics``."""
        return TimerMetricsSerializeWrapper(timing_count=dict(self.metrics), data_version=self.data_version)

    def forget_topic(self, topic: str) -> None:
        """Remove the count of a deleted topic. Its messages still wait, as in Apache; ``undeliverable`` handles them later."""
        self.metrics.pop(topic, None)

    def runtime_info(self) -> dict[str, str]:
        behind_ms = self._clock.now_ms() - self.read_ms if self.enabled else 0
        offset = self._store.max_offset(TIMER_TOPIC, 0) - self.files.queue_offset if self.enabled else 0
        return {
            "timerReadBehind": str(behind_ms // 1000),
            "timerOffsetBehind": str(offset),
            "timerCongestNum": str(self.waiting),
            "timerEnqueueTps": "0.0",
            "timerDequeueTps": "0.0",
        }

    def check_invariants(self) -> None:
        assert set(self._due) == set(self.files.wheel.slots), "heap and wheel know different slots"
        if self._running and self._due and not self._is_catching_up:
            assert self._timer is not None, "something waits and no timer is set"

    # -- reading the queue -----------------------------------------------------------------------------------------------------

    def _queue_offset_of(self, unit: TimerUnit) -> int | None:
        record = self._store.view_at(unit.physical_offset)
        return None if record is None or record.topic_bytes != _TOPIC_BYTES else record.queue_offset

    def _read_queue(self) -> None:
        """Link new entries of the queue, in steps; if the store refuses, retry later."""
        self._read_timer = None
        if not self._running:
            return
        self._reading, delay_ms, left = True, 0, _STEP_MESSAGES
        begin, now_ms = self.files.queue_offset, self._clock.now_ms()
        try:
            left = self._link_new(now_ms)
        except RocketMQError as error:
            self._is_late("timer messages wait", error)
            delay_ms = RETRY_MS
        finally:
            self._note_counts(now_ms)
        if self.files.queue_offset != begin:
            self._changed()
        if delay_ms or left <= 0:
            self._read_timer = self._clock.call_later(delay_ms, self._read_queue)
        else:
            self._reading = self._is_catching_up = False
            self.files.caught_up()
        self._arm()

    def _link_new(self, now_ms: int) -> int:
        """Do one step of reading. Returns the unused part of the step at the queue's end; 0 or less if the end was not reached."""
        files, records = self.files, WaitingRecords(self._store)
        write_ms, count = self.rules.floor(now_ms), FIRST_ENTRIES
        left, left_bytes = _STEP_MESSAGES, STEP_BYTES
        while left > 0 and left_bytes > 0:
            units = self._store.units(TIMER_TOPIC, 0, files.queue_offset, min(count, left))
            if not units:
                return left
            files.ensure_progress_file()
            for unit in units:
                left_bytes -= self._link(records, unit, write_ms, now_ms)
                files.record_progress(unit.queue_offset + 1, files.read_ms, files.done)
            left -= len(units)
            count *= 2
        return 0

    def _link(self, records: WaitingRecords, entry: Unit, write_ms: int, now_ms: int) -> int:
        """Link one queue entry into its slot, or deliver it if the slot is over; returns the stored bytes. Java: doEnqueue."""
        record = records.get(entry.physical_offset)
        if record is None or self.files.is_known(entry.physical_offset):
            return 0
        raw = record[2]
        out_ms = java_long(props.get_property(raw, props.TIMER_OUT_MS) or "")
        topic, _ = destination(raw)
        if out_ms is None or not topic:
            sentence = "the message at commit log offset %d of %s says not when or where to"
            self._failed("aimless", sentence, entry.physical_offset, TIMER_TOPIC)
            return 0
        offset, delivered_ms = self.files.skip_before
        if entry.queue_offset < offset and out_ms < delivered_ms:
            return 0
        deletes = props.get_property(raw, props.TIMER_DEL_UNIQKEY) is not None
        if out_ms < write_ms - _LATE_MS:
            if deletes:
                return 0
            if entry.physical_offset not in self._delivered:
                self._undeliverable.deliver(_copy(record, _NEVER_ENQUEUED, now_ms, rolls=False), now_ms)
            return entry.size
        slot_ms, rolls = self.rules.place(out_ms, write_ms)
        if entry.physical_offset in self._delivered:
            self._delivered_until_ms = max(self._delivered_until_ms, slot_ms)
        magic = MAGIC_DEFAULT | (MAGIC_ROLL if rolls else 0) | (MAGIC_DELETE if deletes else 0)
        is_new = self.files.wheel.get(slot_ms) is None
        unit = TimerUnit(-1, magic, write_ms, slot_ms - write_ms, entry.physical_offset, entry.size, _topic_hash(topic))
        self.files.add(slot_ms, unit)
        if is_new:
            heapq.heappush(self._due, slot_ms)
        self._counts[topic] += -1 if deletes else 1
        return 0

    # -- delivering ------------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        if not self._running or self._is_catching_up or self._delivery is not None or not self._due:
            return
        nearest = self._due[0]
        if self._timer is not None:
            if self._armed_for <= nearest:
                return
            self._timer.cancel()
        self._armed_for = nearest
        sleep_ms = self.rules.readable_ms(nearest) - self._clock.now_ms()
        self._timer = self._clock.call_later(min(max(sleep_ms, 0), LONGEST_SLEEP_MS), self._begin_delivery)

    def _begin_delivery(self) -> None:
        self._timer = None
        if not self._running or not self._due:
            return
        nearest = self._due[0]
        if self.rules.readable_ms(nearest) > self._clock.now_ms():
            self._arm()
            return
        slot = self.files.wheel.slots[nearest]
        if nearest != self.files.read_ms or not self.files.done:  # else a kill interrupted it
            self._count_copies()
        self._delivery = _SlotDelivery(nearest, slot.last, slot.last, self._copies_before)
        self._step()

    def _step(self) -> None:
        """Do a part of the round; continues with a timer that is due at once, so that the loop serves other requests in between."""
        self._timer, delivery = None, self._delivery
        if not self._running or delivery is None:
            return
        delay_ms = 0
        try:
            if delivery.keys is None:
                self._walk(delivery)
            elif delivery.at < len(delivery.units):
                self._deliver(delivery)
            else:
                self._finish(delivery)
                if self._delivery is None:
                    self._arm()
                    return
        except RocketMQError as error:
            self._is_late("timer messages are late", error)
            delay_ms = RETRY_MS
        finally:
            self._note_counts(self._clock.now_ms())
        self._timer = self._clock.call_later(delay_ms, self._step)

    def _walk(self, delivery: _SlotDelivery) -> None:
        for _ in range(_WALK):
            if delivery.position == delivery.until or delivery.position < 0:
                break
            unit = self.files.log.read(delivery.position)
            # Links lead backwards and stay in their slot. If not, a bit has flipped, and the list could be circular or deliver too early.
            if (
                unit is None
                or unit.previous >= delivery.position
                or self.rules.floor(unit.slot_ms) != self.rules.floor(delivery.slot_ms)
            ):
                sentence = "the timer log has no unit of slot %d at %d, its list ends there"
                self._failed("torn", sentence, delivery.slot_ms, delivery.position)
                delivery.position = delivery.until
                break
            (delivery.recalls if unit.deletes and not unit.rolls else delivery.units).append(unit)
            delivery.position = unit.previous
        else:
            return
        delivery.units.reverse()
        delivery.keys = {}
        for unit in delivery.recalls:
            record = self._store.view_at(unit.physical_offset)
            if record is not None:
                key = props.get_property(record.raw_properties, props.TIMER_DEL_UNIQKEY)
                if key is not None:
                    delivery.keys[destination(record.raw_properties)[0], key] = False
        if delivery.slot_ms == self.files.read_ms and delivery.until < 0:
            delivery.at = self.files.done  # a kill interrupted this slot

    def _deliver(self, delivery: _SlotDelivery) -> None:
        files, records, now_ms = self.files, WaitingRecords(self._store), self._clock.now_ms()
        files.ensure_progress_file()
        left_bytes = STEP_BYTES
        for unit in delivery.units[delivery.at : delivery.at + _STEP_MESSAGES]:
            record = records.get_of(_TOPIC_BYTES, unit.physical_offset, unit.size)
            if record is not None:
                self._deliver_one(record, unit, delivery.keys, now_ms)
            elif unit.physical_offset < 0 or unit.physical_offset >= self._store.min_physical_offset:
                sentence = "the timer log's unit for commit log offset %d, due at %d, has no whole record of %s there; it is skipped"
                self._failed("gone timer messages", sentence, unit.physical_offset, delivery.slot_ms, TIMER_TOPIC)
            delivery.at += 1
            is_first = self._due[0] == delivery.slot_ms  # else the clock went back, and an earlier slot is in use again
            files.record_progress(files.queue_offset, self._due[0], delivery.at if is_first else 0)
            left_bytes -= unit.size
            if left_bytes <= 0:
                return

    def _deliver_one(
        self, record: WaitingRecord, unit: TimerUnit, keys: dict[_Named, bool] | None, now_ms: int
    ) -> None:
        raw = record[2]
        if keys:
            unique_key, topic = props.get_property(raw, props.UNIQ_KEY) or "", destination(raw)[0]
            for key in (unique_key, f"{topic}+{unique_key}"):  # 5.4 names only the key, other versions also the topic
                if (topic, key) in keys:
                    keys[topic, key] = True  # found: its -1 stays when the slot is done
                    return
        enqueue_ms = _NEVER_ENQUEUED if unit.delayed_ms < 0 else unit.write_ms
        copy = _copy(record, enqueue_ms, now_ms, rolls=unit.rolls)
        if unit.physical_offset not in self._delivered:
            (self._undeliverable.wait_on if unit.rolls else self._undeliverable.deliver)(copy, now_ms)
        topic = destination(raw)[0] if unit.rolls else copy.topic
        self._counts[topic] += 1 if unit.deletes else -1

    def _finish(self, delivery: _SlotDelivery) -> None:
        for (topic, _), is_found in (delivery.keys or {}).items():
            if not is_found:  # it recalled nothing: Java also reverts its -1
                self._counts[topic] += 1
        slot = self.files.wheel.slots[delivery.slot_ms]
        if slot.last != delivery.last:  # the clock went back meanwhile, and a unit was linked behind this position
            copies_before = delivery.copies_before
            self._delivery = _SlotDelivery(slot.time_ms, slot.last, slot.last, copies_before, until=delivery.last)
            return
        self.files.wheel.forget(delivery.slot_ms)
        if self.files.root is not None:
            self._done.append(_Done(delivery.slot_ms, delivery.last, delivery.copies_before))
        if self._due[0] == delivery.slot_ms:
            heapq.heappop(self._due)
        else:  # the clock went back, and an earlier slot is in use again
            self._due.remove(delivery.slot_ms)
            heapq.heapify(self._due)
        self._delivery = None
        self.files.record_progress(self.files.queue_offset, self.read_ms, 0)
        self._changed()

    def _is_late(self, what: str, error: RocketMQError) -> None:
        self._failed("timer messages", "%s, tried again every %d ms: %s", what, RETRY_MS, error)

    def _failed(self, cause: str, sentence: str, *args: object) -> None:
        self._broker.troubles.failed(cause, sentence, *args, level=logging.ERROR)

    def _note_counts(self, now_ms: int) -> None:
        if not self._counts:
            return
        for topic, change in self._counts.items():
            metric = self.metrics.setdefault(topic, TimerMetric())
            metric.count += change
            metric.time_stamp = now_ms
        self._counts.clear()
        self.data_version.next_version(now_ms)

    # -- the disk --------------------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        if self._save_timer is None and self.files.root is not None and self._running:
            self._save_timer = self._clock.call_later(self._broker.config.timer_flush_interval_ms, self._save)

    def _save(self) -> None:
        self._save_timer = None
        if not self._running:
            return
        if self._saving is not None:
            self._changed()
            return
        end = self._store.max_physical_offset
        self._begin_emptying()
        check, metrics = self._snapshot(), self.content().encode()
        work = ClaimedWork(functools.partial(self._sync, end, check, metrics))
        try:
            asyncio.get_running_loop().run_in_executor(None, work)
        except RuntimeError as error:  # no thread can be started
            if work.claim() is not None:  # else another thread of the executor has just taken it
                self._failed("timer progress", "the timer's progress is not written yet: %s", error)
                self._changed()
                return
        self._saving = asyncio.wrap_future(work.outcome)
        self._saving.add_done_callback(self._saved)

    def _sync(self, end: int, check: TimerCheck, metrics: bytes) -> None:
        """Write on a thread, so that due messages do not wait: first the copies that progress refers to (rule 2), then our own files."""
        self._store.when_durable(end).result()
        self.files.sync(self._flushed_position, check)
        self._flushed_position = check.last_timer_log_flush_pos
        self._metrics_file.save(metrics)

    def _saved(self, saving: asyncio.Future[Any]) -> None:
        self._saving = None
        error = None if saving.cancelled() else saving.exception()
        if error is not None:
            self._failed("timer progress", "the timer's progress is not written: %s", error)
            return
        try:
            self._empty_done()
            self.files.log.delete_before(self._store.min_physical_offset)
        except StoreError as failure:
            self._failed("timer progress", "the files of delivered timer messages are not cleaned yet: %s", failure)

    def _begin_emptying(self) -> None:
        self._emptying += self._done
        self._done = []

    def _empty_done(self) -> None:
        while self._emptying:
            slot_ms, last, _ = self._emptying[0]
            if self.files.wheel.get(slot_ms) is None:  # else the clock went back, and it is in use again
                self.files.wheel.empty(slot_ms, last)
            del self._emptying[0]


def _copy(record: WaitingRecord, enqueue_ms: int, now_ms: int, *, rolls: bool) -> StoredMessage:
    """The message for its real topic, or for another time of waiting. Java: convert, convertMessage; REAL_TOPIC and REAL_QID stay."""
    raw = record[2]
    topic, queue_id = (TIMER_TOPIC, 0) if rolls else destination(raw)
    if not rolls and raw[-1:] == b"\x02" and _COPIED[0] not in raw and _COPIED[1] not in raw:
        return copy_of(record, topic, queue_id, raw + _stamps(enqueue_ms, now_ms))
    raw = props.set_property(raw, props.TIMER_ENQUEUE_MS, str(enqueue_ms))
    if rolls:
        times = java_long(props.get_property(raw, props.TIMER_ROLL_TIMES) or "") or 0
        raw = props.set_property(raw, props.TIMER_ROLL_TIMES, str(times + 1))
    return copy_of(record, topic, queue_id, props.set_property(raw, props.TIMER_DEQUEUE_MS, str(now_ms)))


@functools.lru_cache(maxsize=64)
def _stamps(enqueue_ms: int, now_ms: int) -> bytes:
    return props.set_property(
        props.set_property(b"", props.TIMER_ENQUEUE_MS, str(enqueue_ms)), props.TIMER_DEQUEUE_MS, str(now_ms)
    )
