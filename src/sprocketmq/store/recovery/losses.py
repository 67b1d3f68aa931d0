# SPDX-License-Identifier: Apache-2.0
"""What of a store is missing, as the rest of its files says. Reads only; a start and ``store check`` ask the same.

    the log must reach    where it ended at our last clean stop, the durable record of the checkpoint, what the index has: each was written
                          after the log was on the disk, and the log only grows
      after a kill        what the last entries of the queues say: the page cache kept every write; a blank says that a next file existed.
                          Only a batch has its entries before its records.
      a Java broker's     what the queues say, if the checkpoint also knows a newer record than the log. One of the two may be stale:
                          Java truncates queues without clearing them, and counts a record for which the disk was full.
    the log must begin    where it began at last, unless a Java broker has deleted old files since
    every file of it      has its length, begins with a record of its place, and a queue knows that record
    a queue's files       have their length; the first entry of each is confirmed by its record; none is missing at either end

What is missing of the log is lost. What is missing of a queue is rebuilt from the log.
"""

from __future__ import annotations

import enum
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sprocketmq.core.quantities import counted
from sprocketmq.store.files import mapped_progress
from sprocketmq.store.files.checkpoint import Checkpoint, QueueTotals
from sprocketmq.store.files.mapped_file import StoreFile
from sprocketmq.store.log.commit_log import NO_LIMIT
from sprocketmq.store.log.log_walk import LogWalk
from sprocketmq.store.queue.consume_queue import ConsumeQueue
from sprocketmq.store.queue.consume_queue_table import ConsumeQueueTable
from sprocketmq.store.queue.unit import FILLER_SIZE, UNIT, UNIT_SIZE_BYTES, has_unit
from sprocketmq.store.recovery.entry_repair import confirmed_end, confirms, record_end
from sprocketmq.wire.records.record_layout import RECORD

if TYPE_CHECKING:
    from sprocketmq.store.message_store import MessageStore

_HEAD = RECORD.subset("size", "magic", "physical_offset")
_QUEUES_ASKED = 64  # about a file whose first record no queue knows

Key = tuple[str, int]


class Stop(enum.Enum):
    CLEAN = "clean"
    KILLED = "killed"  # and the machine was not restarted: the page cache has all its writes
    CRASHED = "crashed"  # or this is a copy or a snapshot of its directory: what was not synced may be missing


def stop_of(directory: str, checkpoint: Checkpoint) -> Stop:
    abort = os.path.join(directory, "abort")
    if not os.path.lexists(abort):
        # Our clean stop keeps the file under another name. If both are gone, something else removed them.
        removed = checkpoint.is_ours and not os.path.lexists(abort + ".spare")
        return Stop.CRASHED if removed else Stop.CLEAN
    try:
        with open(abort, encoding="ascii", errors="replace") as file:
            mark = mapped_progress.file_mark(file.fileno())
            same = mark is not None and file.read().partition("\n")[2] == mark.hex()
    except OSError:
        same = False
    return Stop.KILLED if same else Stop.CRASHED


@dataclass(frozen=True)
class Lost:
    begin: int
    end: int
    why: str
    messages: dict[Key, tuple[int, int]]  # of each queue, the first missing offset and the one after the last

    def __str__(self) -> str:
        return f"the log from {self.begin} to {self.end} is missing ({self.why}), with {messages_text(self.messages)}"


@dataclass
class Losses:
    """What is missing.

    Attributes:
        log_end: the log must reach this place.
        sound_until: before it the log is as it was written, except for flipped bits.
        lost: parts of the log that are missing.
        queues: queues to rebuild, and why.
        empty_folders: of queues that may have been lost.
        scan_from: queues may miss entries of records from here on, because a file may be missing behind their last one.
    """

    stop: Stop
    log_end: int = 0
    sound_until: int = NO_LIMIT
    lost: list[Lost] = field(default_factory=list)
    queues: dict[Key, str] = field(default_factory=dict)
    empty_folders: list[Key] = field(default_factory=list)
    scan_from: int | None = None

    @property
    def has_lost_queues(self) -> bool:
        return bool(self.queues or self.empty_folders)


def lost_messages(queues: ConsumeQueueTable, begin: int, end: int) -> dict[Key, tuple[int, int]]:
    """The entries that point between two places of the log: for each queue the first offset, and the one after the last."""
    found = {}
    for key, queue in sorted(queues.queues.items()):
        if queue.files.files:
            first, last = (queue.first_from(at, queue.first_offset) for at in (begin, end))
            if first < last:
                found[key] = first, last
    return found


def lost_entries(totals: QueueTotals, found: tuple[int, int]) -> str | None:
    """What the queues have fewer than the checkpoint says; None if it is all there. ``found``: queues with entries before
    ``totals.log_end``, and the sum of their ends."""
    if found[0] >= totals.queues and found[1] >= totals.sum_of_ends:
        return None

    def text(count: int, entries: int) -> str:
        return f"{counted(entries, 'entry', 'entries')} in {counted(count, 'queue')}"

    had = text(totals.queues, totals.sum_of_ends)
    return f"the queues had {had} before physical offset {totals.log_end} of the log, and have {text(*found)}"


def messages_text(messages: dict[Key, tuple[int, int]]) -> str:
    """Messages by topic: a count, and the offsets of each queue (of the first ones, if there are many)."""
    count = sum(last - first for first, last in messages.values())
    if not count:
        return "no message that a queue knows"
    parts = []
    for topic, keys in itertools.groupby(messages, key=lambda key: key[0]):
        ids = list(keys)
        texts = [f"queue {key[1]} offsets {messages[key][0]} to {messages[key][1] - 1}" for key in ids[:8]]
        total = sum(messages[key][1] - messages[key][0] for key in ids)
        parts.append(f"{total} of topic {topic} ({', '.join(texts + ['...'] * (len(ids) > 8))})")
    if len(parts) > 20:
        parts[20:] = [f"and of {len(parts) - 20} more topics"]
    return f"{counted(count, 'message')}: {'; '.join(parts)}"


def refusal_of(directory: str, losses: Losses) -> str:
    parts = "; ".join(map(str, losses.lost))
    return (
        f"the store {directory} is not as it was left: {parts}; mount or restore the files, or start once with --accept-store-loss "
        "(acceptStoreLoss=true), which continues without these messages"
    )


def find_losses(store: MessageStore, *, is_ours: bool) -> Losses:
    """For a store whose files are loaded. ``is_ours``: no Java broker has opened it since ours did."""
    return _Search(store, is_ours).run()


class _Search:
    def __init__(self, store: MessageStore, is_ours: bool) -> None:
        self._log, self._queues, self._checkpoint = store.commit_log, store.consume_queues, store.checkpoint
        self._is_ours = is_ours and store.checkpoint.is_ours
        self._stop = stop_of(store.path or "", store.checkpoint)
        self._losses = Losses(self._stop)
        self._last: dict[ConsumeQueue, tuple[int, int, int]] = {}

    def run(self) -> Losses:
        losses = self._losses
        found_end = self._end_of_log()
        losses.log_end, evidence = self._expected_end(found_end)
        if self._stop is Stop.CRASHED:
            losses.sound_until = max(losses.log_end, self._checkpoint.durable_offset or 0)
        self._check_begin()
        reached = self._follow_to(found_end, losses.log_end, evidence)
        if self._stop is Stop.KILLED:  # zeros in front of a record were one, also if nothing was ever flushed
            losses.log_end = max(losses.log_end, reached)
        # After a power cut only what was synced must be there.
        self._check_files(min(reached, losses.log_end) if self._stop is Stop.CRASHED else reached)
        losses.lost.sort(key=lambda lost: lost.begin)
        self._check_queues(found_end)
        for file in self._log.files.files:
            file.unmap()
        return losses

    # -- the end of the log ----------------------------------------------------------------------------------------------------

    def _end_of_log(self) -> int:
        """The first place behind the newest known record at which no record begins."""
        log, durable = self._log, self._checkpoint.durable_offset
        if not log.files.files:
            return 0
        if durable is not None and durable >= log.min_offset and log.view_at(durable, limit=NO_LIMIT):
            return self._scanned(durable)
        ends = (record_end(queue, confirmed_end(log, queue, None)) for queue in self._queues.queues.values())
        return self._scanned(max((log.min_offset, *ends)))

    def _scanned(self, at: int) -> int:
        walk = LogWalk(self._log, at)
        for _ in walk:
            pass
        following = self._log.offset_after_blank(walk.at)  # also if the next file is missing
        return walk.at if following is None else following

    def _expected_end(self, found: int) -> tuple[int, str]:
        checkpoint, log = self._checkpoint, self._log
        floors: list[tuple[int, str]] = []
        if checkpoint.queue_totals is not None:
            floors.append((checkpoint.queue_totals.log_end, "it reached {} when the checkpoint was written"))
        if checkpoint.durable_offset is not None and (checkpoint.durable_offset > 0 or not log.files.files):
            floors.append((checkpoint.durable_offset + 1, "the checkpoint knows a record before {}"))
        if checkpoint.index_mark is not None:
            floors.append((checkpoint.index_mark.offset, "the index by key has all records before {}"))
        if not log.files.files:
            # After a power cut they may have reached the disk before the log's first file, unless a record was synced.
            if self._stop is not Stop.CRASHED or checkpoint.physic_msg_timestamp > 0:
                floors.append((self._end_of_entries(0)[0], "queues have entries that point before {}"))
        elif self._stop is Stop.KILLED:
            end, only_queue = self._end_of_entries(found)
            if end > found and not (only_queue and self._may_be_unwritten(found)):
                floors.append((end, "queues have entries that point before {}"))
            if found > log.min_offset and log.files.file_at(found) is None:
                floors.append((found + 1, "the file before {} says that another one follows"))
        elif checkpoint.queue_totals is None or not self._is_ours:
            end, _ = self._end_of_entries(found)
            if end > found and not self._has_newest_record(found):
                floors.append((end, "queues have entries that point before {}"))
        expected, evidence = max(floors, default=(0, ""))
        return expected, evidence.format(expected)

    def _end_of_entries(self, at: int) -> tuple[int, bool]:
        """The end of the newest record that a queue knows, and whether only one queue knows records from ``at`` on."""
        newest, count = 0, 0
        for queue in self._queues.queues.values():
            offset = queue.max_offset - 1
            if offset < queue.first_offset:
                continue
            place, size_bytes, _ = self._last_unit(queue)
            if size_bytes != FILLER_SIZE and place >= at:
                count += 1
                newest = max(newest, place + size_bytes)
        return newest, count == 1

    def _last_unit(self, queue: ConsumeQueue) -> tuple[int, int, int]:
        """Read once: with ten thousand queues, reading their last entries is a large part of a start."""
        if queue not in self._last:
            self._last[queue] = queue.unit(queue.max_offset - 1)
        return self._last[queue]

    def _may_be_unwritten(self, at: int) -> bool:
        """Earlier versions wrote the entries of a batch before its records: after a kill between them those are still zero."""
        file = self._log.files.file_at(at)
        return file is not None and file.start not in self._log.files.faults and not any(file.read(at - file.start, 8))

    def _has_newest_record(self, found: int) -> bool:
        wanted_ms, log = self._checkpoint.physic_msg_timestamp, self._log
        return not wanted_ms or any(
            record.store_timestamp_ms >= wanted_ms
            for file in reversed(log.files.files)
            for record in LogWalk(log, file.start, min(found, file.end)).records()
        )

    def _follow_to(self, found: int, expected: int, evidence: str) -> int:
        """Where the log really ends: behind damage in front of the expected end. What is missing there at last is lost."""
        while found < expected:
            following = self._log.offset_after_damage(found, check_crc=False, over_zeros=True)
            if following is None or following >= expected:
                self._add_tail(found, expected, evidence)
                break
            found = self._scanned(following)
        return found

    def _add_tail(self, found: int, expected: int, evidence: str) -> None:
        faults = [what for start, what in self._log.files.faults.items() if start + self._log.file_size_bytes > found]
        directory = self._log.files.directory
        if not self._log.files.files:
            faults = [f"{directory} is empty"]
        elif self._log.files.file_at(found) is None:
            faults = [f"{os.path.join(directory or '', f'{found:020d}')} is missing"]
        elif not faults:
            faults = [f"no record begins at {found}"]
        self._add(found, expected, "; ".join([*faults[:5], evidence]))

    def _add(self, begin: int, end: int, why: str) -> None:
        self._losses.lost.append(Lost(begin, end, why, lost_messages(self._queues, begin, end)))

    # -- the files of the log --------------------------------------------------------------------------------------------------

    def _check_begin(self) -> None:
        begin, log = self._checkpoint.log_begin, self._log
        if self._is_ours and begin is not None and log.files.files and begin < log.min_offset:
            what = f"{os.path.join(log.files.directory or '', f'{begin:020d}')} is missing; the broker has deleted no file from {begin} on"
            self._add(begin, log.min_offset, what)

    def _check_files(self, end: int) -> None:
        log = self._log
        for file in log.files.files:
            file_end = min(file.end, end)
            if file.start >= end:
                return
            fault = log.files.faults.get(file.start)
            if fault is None:
                fault = self._wrong_file(file)
            if fault is None:
                continue
            at = self._scanned(file.start) if file.start in log.files.faults else file.start
            if at < file_end:
                self._add(at, file_end, fault)

    def _wrong_file(self, file: StoreFile) -> str | None:
        """Why a file is not the one that belongs at its place; None if it may be."""
        size_bytes, _, place = _HEAD.unpack(file.read(0, _HEAD.size))
        record = self._log.view_at(file.start, limit=NO_LIMIT)
        if record is None:
            if self._log.next_record_in(file, 0, check_crc=False) is not None:
                return None  # only its first records are damaged
            if size_bytes and place % file.size_bytes == 0 and 0 <= place != file.start:
                return f"{file.path} has the records of the file {place:020d}"
            return f"{file.path} has no record of its place"
        durable = self._checkpoint.durable_offset
        if self._stop is Stop.CRASHED and (durable is None or durable <= file.start):
            return None  # the entries of its records may not have reached the disk, or be wrong ones that a failed start has deleted
        known = self._queues.queues.get((record.topic_bytes.decode("utf-8", "replace"), record.queue_id))
        if has_unit(record.sys_flag) and known is not None:
            entry = known.unit_bytes(record.queue_offset, 1)
            if entry and UNIT.unpack(entry)[:2] == (file.start, record.size):
                return None
        asked = list(itertools.islice(self._known_records(file), _QUEUES_ASKED))
        if not asked or any(asked):
            return None
        return f"{file.path} has records that no queue knows: it belongs to another store"

    def _known_records(self, file: StoreFile) -> Iterator[bool]:
        for queue in self._queues.queues.values():
            if not queue.files.files or queue.files.faults:
                continue
            offset = queue.first_from(file.start, queue.first_offset)
            if offset < queue.max_offset:
                place, size_bytes, _ = queue.unit(offset)
                if size_bytes != FILLER_SIZE and place < file.end:
                    yield confirms(self._log, queue, offset, place, size_bytes)

    # -- queues ----------------------------------------------------------------------------------------------------------------

    def _check_queues(self, log_end: int) -> None:
        """One whose messages have all expired is not rebuilt: it would begin at 0 again."""
        losses, checkpoint, queues = self._losses, self._checkpoint, self._queues
        exact = (
            self._stop is Stop.CLEAN
            and self._is_ours
            and checkpoint.queue_totals == (log_end, *queues.totals())
            and checkpoint.sum_of_queue_begins == queues.sum_of_begins()
        )
        for key, queue in queues.queues.items():
            why = self._queue_fault(queue, exact)
            if why is not None:
                losses.queues[key] = why
        if not exact:
            losses.empty_folders = list(queues.empty_folders)

    def _queue_fault(self, queue: ConsumeQueue, exact: bool) -> str | None:
        files, log_begin = queue.files, self._log.min_offset
        first, last = queue.first_offset, queue.max_offset - 1
        last_place, last_size_bytes, _ = self._last_unit(queue) if last >= first else (-1, 0, 0)
        if 0 <= last_place < log_begin and last_size_bytes != FILLER_SIZE:
            return None
        if files.faults:
            return next(iter(files.faults.values()))
        for file in files.files[:-1]:
            offset = file.start // UNIT_SIZE_BYTES
            if offset > last:
                break  # files that were made in advance
            place, size_bytes, _ = queue.unit(offset)
            is_kept = size_bytes != FILLER_SIZE and place >= log_begin
            if is_kept and not self._is_entry(queue, offset, place, size_bytes):
                return f"{file.path} has entries of other messages"
        if exact:
            return None
        if last < first and not self._is_ours:  # of ours the totals of the checkpoint tell
            return f"{files.files[0].path} has no entry"
        if files.start and last >= first:
            place, size_bytes, _ = queue.unit(first)
            if place > log_begin and size_bytes != FILLER_SIZE:
                return f"a file before {files.files[0].path} may be missing"
        if (last + 1) * UNIT_SIZE_BYTES == files.end:
            place = max(last_place, log_begin)
            self._losses.scan_from = min(place, self._losses.scan_from or place)
        return None

    def _is_entry(self, queue: ConsumeQueue, offset: int, place: int, size_bytes: int) -> bool:
        if any(lost.begin <= place < lost.end for lost in self._losses.lost):
            return True  # its record is missing, not the entry
        files = self._log.files
        return not files.files or place > files.end or confirms(self._log, queue, offset, place, size_bytes)
