# SPDX-License-Identifier: Apache-2.0
"""Wheel, log and checkpoint of the timer messages together: the waiting messages, and the progress of reading and delivering.

    timerwheel, timerlog/    in the page cache: a kill loses nothing of them
    config/timercheck        written when log and wheel are on the disk: where to begin after a power cut, and what Apache reads
                             (what was delivered since then is found in the commit log)
    timercheck, from 2048    queue_offset, read_ms, done: to the last step, while the machine runs (``mapped_progress``), and the
                             counter of the checkpoint beside which they are

1. Every queue entry before ``queue_offset`` is delivered, or in the log and linked from its slot.
2. Every slot before ``read_ms`` is delivered; of the slot at ``read_ms`` the first ``done`` units are. If the clock is set back,
   ``read_ms`` goes back to the first slot that is used then. Of the slots behind it, those that are delivered are empty in the wheel,
   or their copies are behind ``copies_before`` in the commit log.
3. Progress that is read back after a kill is never ahead of what was done: at worst a step is done twice.
4. Each lost file is rebuilt from the others, or from the queue.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from sprocketmq.core.quantities import counted
from sprocketmq.store.files.mapped_file import not_writable
from sprocketmq.store.files.mapped_progress import MappedProgress
from sprocketmq.store.timer.timer_check import TimerCheck, load_timer_check, save_timer_check
from sprocketmq.store.timer.timer_log import MAGIC_DELETE, TimerLog, TimerUnit, slot_times_ms
from sprocketmq.store.timer.timer_wheel import Slot, TimerWheel

log = logging.getLogger("sprocketmq.store")

_LIVE_AT: Final = 2048
_QUEUE_OFFSET, _READ_MS, _DONE, _COUNTER = _LIVE_NUMBERS = range(4)
_EVERYTHING: Final = (1 << 63) - 1


class TimerFiles:
    """Belongs to the broker's loop; only ``sync`` runs on another thread. ``root``: the store directory; None = in memory.

    ``queue_offset``, ``read_ms`` and ``done`` are as in the rules. ``skip_before`` is (queue offset, ms): if the log was lost,
    entries before that offset whose slot is before that time have been delivered.
    """

    def __init__(self, root: str | None, precision_ms: int, file_size_bytes: int) -> None:
        self.root = root
        self.wheel = TimerWheel(self._path("timerwheel"), precision_ms)
        self.log = TimerLog(self._path("timerlog"), file_size_bytes)
        self._check_path = self._path("config", "timercheck")
        self.check = TimerCheck()
        self._progress = MappedProgress(self._check_path, _LIVE_AT)
        self.queue_offset = self.read_ms = self.done = 0
        self.skip_before = (0, 0)
        self.not_emptied: list[Slot] = []  # found at the start: before ``read_ms``, and not yet emptied in the wheel
        self._known: Any = None  # sorted physical offsets of units at or behind queue_offset
        self._is_named = False

    def _path(self, *names: str) -> str | None:
        return None if self.root is None else os.path.join(self.root, *names)

    def load(
        self,
        queue_offset_of: Callable[[TimerUnit], int | None],
        log_end: int = _EVERYTHING,
        queue_end: int = _EVERYTHING,
    ) -> None:
        """Read the files and repair them. ``queue_offset_of``: the offset in the timer queue of the record to which a unit points;
        None if that record is gone. ``log_end``, ``queue_end``: of the commit log, and of the timer queue. Raises StoreCorrupt
        (a file has a length or name that the format does not allow), StoreNotWritable."""
        try:
            self._load(queue_offset_of, log_end, queue_end)
        except OSError as error:
            raise not_writable(error.filename or str(self.root), error) from error

    def _load(self, queue_offset_of: Callable[[TimerUnit], int | None], log_end: int, queue_end: int) -> None:
        check, live = load_timer_check(self._check_path), self._progress.load()
        if check is not None and not 0 <= check.last_timer_queue_offset <= queue_end:
            log.warning("%s does not fit the queue of the timer messages, and is not used", self._check_path)
            check = live = None
        self.check = check or TimerCheck()
        self.read_ms = self.check.last_read_time_ms
        if live is not None and (len(live) != len(_LIVE_NUMBERS) or live[_COUNTER] < self.check.counter):
            live = None  # a Java broker has run since
        is_ours_after_power_cut = live is None and self.check.copies_before is not None
        known_queue_offset = self.check.last_timer_queue_offset
        if live is not None:
            self.read_ms, self.done = live[_READ_MS], 0 if self._progress.differs else live[_DONE]
            known_queue_offset = max(known_queue_offset, live[_QUEUE_OFFSET])
        synced = self.check.last_timer_log_flush_pos
        self.log.load()
        # Which slots the wheel has of what came since our checkpoint, nothing says: it is read again from its queue.
        self.log.recover(synced, 0 if is_ours_after_power_cut else log_end)
        if self.log.end < synced:
            self._start_over(f"ends at {self.log.end}, it had {synced} bytes")
        newest = self.log.last_unit()
        begin = None if newest is None else self._load_wheel(live is not None, is_ours_after_power_cut)
        if newest is None or begin is None:
            self.wheel.delete()  # what it says points into a log that is empty
            self.skip_before = (known_queue_offset, self.read_ms)
            return
        self._link_again()
        self._find_queue_offset(queue_offset_of(newest), live, begin)

    def _load_wheel(self, is_after_kill: bool, is_ours_after_power_cut: bool) -> int | None:
        """Returns from where on the log may have units of entries that are read again; None: messages are lost, and it starts over."""
        wheel_exists = self.wheel.exists
        if is_ours_after_power_cut:
            self._empty_delivered()
        self.wheel.load(min(self.read_ms, self.check.last_read_time_ms))
        self.not_emptied = [slot for slot in self.wheel.slots.values() if slot.time_ms < self.read_ms]
        for slot in self.not_emptied:
            self.wheel.forget(slot.time_ms)
        broken = {slot.time_ms for slot in self.wheel.slots.values() if slot.last >= self.log.end}
        damaged = None if broken else self._damaged_slot()
        if damaged is not None or (broken and is_after_kill):  # the page cache has all that a killed process wrote
            at = min(broken) if damaged is None else damaged
            self._start_over(f"does not have the messages of the slot {at}, as {self.wheel.path} says")
            return None
        if broken:
            log.warning(
                "%d slots of %s point behind the timer log, they are linked again", len(broken), self.wheel.path
            )
            for time_ms in broken:
                # Units before its first one are delivered.
                done = min(self.wheel.slots[time_ms].first, self.log.end) - 1
                self.wheel.empty(time_ms, done)
                self.wheel.emptied[time_ms] = done
        return self.check.last_timer_log_flush_pos if wheel_exists and not broken else self.log.files.start

    def _empty_delivered(self) -> None:
        """Slots that were delivered before our checkpoint, with their copies on the disk, and whose end a power cut took: if the clock
        is set back, their messages must not come again."""
        self.wheel.load(0)
        for slot in list(self.wheel.slots.values()):
            if slot.time_ms < self.read_ms:
                self.wheel.empty(slot.time_ms, min(slot.last, self.log.end - 1))

    def _damaged_slot(self) -> int | None:
        precision_ms = self.wheel.precision_ms
        for slot in self.wheel.slots.values():
            for position in (slot.first, slot.last):
                unit = self.log.read(position)
                if unit is None or unit.slot_ms // precision_ms != slot.time_ms // precision_ms:
                    return slot.time_ms
        return None

    def _start_over(self, why: str) -> None:
        """Parts of the log are lost: all waiting messages are read again from their queue (rule 4)."""
        log.error(
            "the timer log in %s %s; the waiting messages are read again from their queue", self._path("timerlog"), why
        )
        self.log.files.delete_all()
        self.log.end = 0
        self.check = msgspec.structs.replace(self.check, last_timer_log_flush_pos=0)

    def _find_queue_offset(self, newest: int | None, live: tuple[int, ...] | None, begin: int) -> None:
        """Where our checkpoint says: the log has all units before it. An entry that was late has none: it was delivered when it was read.
        For Java's, its own rule (TimerMessageStore.recover): one behind the newest unit, but not beyond the checkpoint. A unit may have
        been written before an older entry was delivered. An entry that is read twice is recognized by its place."""
        check = self.check
        if newest is None or check.copies_before is not None:
            self.queue_offset = min(check.last_timer_queue_offset, check.master_timer_queue_offset)
        else:
            self.queue_offset = min(newest + 1, check.master_timer_queue_offset)
        if live is not None:
            self.queue_offset = max(self.queue_offset, live[_QUEUE_OFFSET])
        places = [units["physical"] for _, units in self.log.scan(self.log.align(begin))]
        if places:
            import numpy as np

            self._known = np.sort(np.concatenate(places))

    def _link_again(self) -> None:
        """The units hold the links, only the ends of the slots may be missing in the wheel."""
        lost = 0
        for first_position, units in self.log.scan(self.log.files.start):
            import numpy as np

            times = slot_times_ms(units)
            waiting = np.flatnonzero(times >= self.read_ms)[::-1]
            slots, newest = np.unique(times[waiting], return_index=True)
            ends = first_position + waiting[newest] * units.dtype.itemsize
            behind = [
                time_ms
                for time_ms, end in zip(slots.tolist(), ends.tolist(), strict=True)
                if self._last_linked(time_ms) < end
            ]
            for index in waiting[np.isin(times[waiting], behind)][::-1].tolist() if behind else []:
                position, time_ms = first_position + index * units.dtype.itemsize, int(times[index])
                if self._last_linked(time_ms) < position:
                    self._link(time_ms, position, deletes=bool(units["magic"][index] & MAGIC_DELETE))
                    lost += position < self.check.last_timer_log_flush_pos
        if lost:  # they were synced with the wheel
            log.error(
                "%s lacked %s, which are linked again from the timer log",
                self.wheel.path,
                counted(lost, "waiting message"),
            )

    def _last_linked(self, time_ms: int) -> int:
        slot = self.wheel.get(time_ms)
        return self.wheel.emptied.get(time_ms, -1) if slot is None else slot.last

    def latest_slot_ms(self, physical_offsets: Collection[int]) -> int:
        """The time of the last slot that has a unit for one of these records; 0 if none has."""
        latest_ms, wanted = 0, list(physical_offsets)
        for _, units in self.log.scan(self.log.files.start):
            import numpy as np

            times = slot_times_ms(units[np.isin(units["physical"], wanted)])
            latest_ms = max(latest_ms, int(times.max(initial=0)))
        return latest_ms

    def _link(self, time_ms: int, position: int, *, deletes: bool) -> None:
        """As the last unit of its slot."""
        slot, change = self.wheel.get(time_ms), -1 if deletes else 1
        if slot is None:
            self.wheel.put(Slot(time_ms, position, position, change))
        else:
            self.wheel.put(Slot(time_ms, slot.first, position, slot.number + change, slot.magic))

    def is_known(self, physical_offset: int) -> bool:
        """Whether the entry of this record is already in the log; used while catching up after a start."""
        if self._known is None:
            return False
        import numpy as np

        at = int(np.searchsorted(self._known, physical_offset))
        return at < len(self._known) and int(self._known[at]) == physical_offset

    def caught_up(self) -> None:
        self._known = None

    def add(self, slot_ms: int, unit: TimerUnit) -> None:
        """Append ``unit`` and link it as the last one of its slot. Raises StoreNotWritable; nothing waits that did not before."""
        if slot_ms < self.read_ms:  # the clock was set back
            self.record_progress(self.queue_offset, slot_ms, 0)
        slot = self.wheel.get(slot_ms)
        position = self.log.append(unit._replace(previous=-1 if slot is None else slot.last))
        try:
            self._link(slot_ms, position, deletes=unit.deletes)
        except BaseException:
            self.log.end = position  # the next unit overwrites this one
            raise

    def ensure_progress_file(self) -> None:
        """Before a step: a full disk might have space for the step but not for its progress, and the step would be repeated. Raises
        StoreNotWritable."""
        if not self._progress.count:
            self._progress.save((self.queue_offset, self.read_ms, self.done, self.check.counter))

    def record_progress(self, queue_offset: int, read_ms: int, done: int) -> None:
        self.ensure_progress_file()
        if queue_offset != self.queue_offset:
            self._progress.change(_QUEUE_OFFSET, queue_offset)
        self.queue_offset = queue_offset
        self._record_read(read_ms, done)

    def _record_read(self, read_ms: int, done: int) -> None:
        live = self._progress
        if read_ms != self.read_ms:
            live.change(_DONE, 0)  # rule 3: the count of one slot must never stand next to another slot
            live.change(_READ_MS, read_ms)
        live.change(_DONE, done)
        self.read_ms, self.done = read_ms, done

    def snapshot(self, read_ms: int, now_ms: int, copies_before: int | None = None) -> TimerCheck:
        """The checkpoint for the time when everything written so far is on the disk; for ``sync``."""
        check = self.check
        if (read_ms, self.queue_offset) != (check.last_read_time_ms, check.master_timer_queue_offset):
            queue_offset, counter = self.queue_offset, check.counter + 1
            self.check = TimerCheck(
                read_ms, self.log.end, queue_offset, queue_offset, 0, now_ms, counter, copies_before
            )
            if read_ms != self.read_ms:
                self._record_read(read_ms, 0)
            self._progress.change(_COUNTER, counter)
        return self.check

    def sync(self, flushed_position: int, check: TimerCheck) -> None:
        """Write the log (from ``flushed_position`` on), the wheel and then the checkpoint to the disk; blocks. Raises
        StoreNotWritable."""
        self.log.sync(flushed_position)
        self.wheel.sync()
        save_timer_check(self._check_path, check, is_named=self._is_named)
        self._is_named = True

    def close(self) -> None:
        self._progress.close()
        self.wheel.close()
        self.log.close()
