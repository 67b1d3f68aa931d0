# SPDX-License-Identifier: Apache-2.0
"""Recovery: find the true end of a store, then make log and queues consistent. Java: CommitLog.recoverNormally / recoverAbnormally.

    where to begin      after a clean stop (no ``abort`` file): after the newest record that a queue knows; at the first file if the queue
                        totals of the checkpoint say that queues are lost
                        after a crash: at the durable offset of the checkpoint; without one (a checkpoint of Apache), in the newest file
                        whose first record is older than the checkpoint, after the records stored more than a minute before it;
                        otherwise, or if a queue has a hole, at the first file
    forward             each valid record needs its queue entry: missing entries are added, wrong (torn) entries are rewritten
    the end             the first place where no valid record begins; a blank leads to the next file
    truncate            every byte after the end becomes zero in the log, and queue entries that point there are removed

It may be killed at any point and starts again: it writes only what the records say, and it truncates the queues before anything is
written to the end of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from sprocketmq.core.resource_names import SCHEDULE_TOPIC
from sprocketmq.core.retry.retry_schedule import DelayLevels
from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.store.files.checkpoint import QueueTotals
from sprocketmq.store.log.commit_log import NO_LIMIT
from sprocketmq.store.log.log_walk import LogWalk
from sprocketmq.store.log.tags_code import tags_code_of_record
from sprocketmq.store.queue.consume_queue import ConsumeQueue
from sprocketmq.store.queue.consume_queue_ext import is_extension_address
from sprocketmq.store.queue.unit import FILLER_SIZE, UNIT, UNIT_SIZE_BYTES, has_unit, units_of
from sprocketmq.store.recovery.entry_repair import confirmed_end, confirms, find_record, record_end, repair_entry
from sprocketmq.store.recovery.losses import Losses, Stop, lost_entries, lost_messages, messages_text
from sprocketmq.wire.records.properties import TAGS
from sprocketmq.wire.records.record import RecordView
from sprocketmq.wire.records.sys_flag import TRANSACTION_PREPARED_TYPE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sprocketmq.store.log.record_batch import RecordBatch
    from sprocketmq.store.message_store import MessageStore

    Ints = NDArray[np.int64]

_LARGEST_QUEUE_OFFSET = (1 << 63) // UNIT_SIZE_BYTES - 1
# The log has no holes, so a queue can miss only the few entries of damaged records.
_LARGEST_GAP = 1_024
_THOROUGH_INTERVAL_MS = 63_000  # flushConsumeQueueThoroughInterval, plus the time of one round
_MANY_QUEUES = 2_048
_log = logging.getLogger("sprocketmq.store")


class Recovery:
    """The recovery of a store whose files are loaded.

    Queues of ``losses`` are built anew from the whole log; what it says is lost of the log has been accepted: the entries that
    point there become fillers, so that their offsets are not used again. Records of ``deleted_topics`` that are before the log's
    end at the deletion get no entry. ``known_topics``: those that exist. A Java broker notes no deletion: records from before its end
    get no entry in a lost queue of another topic.

    After ``run``: ``begin`` (where the scan began), ``record_count`` (how many records it read), and the ``walk``, which has the damages of
    the log.
    """

    def __init__(
        self,
        store: MessageStore,
        losses: Losses,
        deleted_topics: Mapping[str, int],
        known_topics: Collection[str] | None,
    ) -> None:
        self._losses, self._deleted_topics, self._known_topics = losses, deleted_topics, known_topics or ()
        self._is_clean = losses.stop is Stop.CLEAN
        self._log, self._queues, self._checkpoint = store.commit_log, store.consume_queues, store.checkpoint
        # Where a Java broker ended, if it is known which topics exist.
        self._javas_end = None if known_topics is None else store.checkpoint.javas_end
        self._extension = store.extension
        self.walk = LogWalk(self._log, 0)
        self._check_crc = store.config.check_crc_on_recover
        self._levels = DelayLevels.parse(store.config.message_delay_level)
        self._kept_by_java: set[tuple[str, int]] = set()
        self.begin = self.record_count = 0

    def run(self) -> None:
        log = self._log
        self._kept_by_java = self._find_kept_by_java()
        self._fill_lost_entries()
        self._delete_broken_queues()
        if not log.files.files:
            self._end_without_log()
            return
        self._delete_resurrected_queues()
        self.begin = self._where_to_begin()
        if not (self._scan() and self._has_all_entries()) and self.begin > log.min_offset:
            _log.warning(
                "queue entries before physical offset %d are missing; rebuilding them from the whole log", self.begin
            )
            self.begin = log.min_offset
            self._scan()
        if self._losses.stop is Stop.CRASHED:
            self._log_what_did_not_reach_the_disk()
        if not self._is_clean:
            self._drop_unconfirmed_tails()
        self._cut()
        if not self._is_clean:
            _log.info(
                "the last stop was not clean; the log was checked from physical offset %d to its end at %d",
                self.begin,
                log.max_offset,
            )
        self._log_damages()

    def _end_without_log(self) -> None:
        if self._losses.stop is Stop.CRASHED and not self._losses.lost:
            self._log_what_did_not_reach_the_disk()
        # Apache does the same: without a log the entries point nowhere. Fillers keep the offsets of messages that were given up.
        self._queues.delete_queues(
            [
                key
                for key, queue in self._queues.queues.items()
                if not queue.max_offset or queue.unit(queue.max_offset - 1)[1] != FILLER_SIZE
            ]
        )
        self._log.end_at(0)

    def _fill_lost_entries(self) -> None:
        for lost in self._losses.lost:
            if lost.end <= self._log.min_offset and self._log.files.files:
                continue  # lost at the front: its entries count as expired
            for key, (first, end) in lost.messages.items():
                queue = self._queues.queues[key]
                before = queue.unit(first - 1)[0] if first > queue.first_offset else 0
                for offset in range(first, end):
                    queue.put_at(offset, before, FILLER_SIZE, 0)
                if not self._log.files.files:
                    queue.min_offset = queue.max_offset

    def _delete_broken_queues(self) -> None:
        if self._losses.has_lost_queues and self._log.files.files:
            # If this start fails midway (a disk that fails), the next one finds no queue where one was, and must not take it for new,
            # nor begin by the times of a checkpoint of Java's.
            self._checkpoint.durable_offset = self._log.min_offset
            self._checkpoint.save()
        for (topic, queue_id), why in self._losses.queues.items():
            _log.warning("%s: topic %s, queue %d is built anew from the log", why, topic, queue_id)
        self._queues.delete_queues(self._losses.queues)
        self._queues.delete_empty_folders()
        for queue in self._queues.queues.values():
            queue.files.repair()

    def _delete_resurrected_queues(self) -> None:
        """Queues of deleted topics are there again if a power cut undid the removal of their files. One that has an entry of the
        topic that was created again is kept; the scan corrects it."""
        gone = []
        for (topic, queue_id), queue in self._queues.queues.items():
            end = self._deleted_topics.get(topic)
            if end is None:
                continue
            newest = max(queue.min_offset, confirmed_end(self._log, queue, None) - 1)
            # Do not truncate here: an entry of the recreated topic may be damaged. _drop_unconfirmed_tails then reads the log again.
            if all(queue.unit(offset)[0] < end for offset in range(newest, queue.max_offset)):
                _log.info("topic %s was deleted; its queue %d was found again and is removed", topic, queue_id)
                gone.append((topic, queue_id))
        self._queues.delete_queues(gone)

    # -- where to begin --------------------------------------------------------------------------------------------------------

    def _where_to_begin(self) -> int:
        begin = self._begin_after_clean_stop() if self._is_clean else self._begin_after_crash()
        if self._losses.has_lost_queues:
            return self._log.min_offset
        return begin if self._losses.scan_from is None else min(begin, self._losses.scan_from)

    def _begin_after_clean_stop(self) -> int:
        newest = max((self._last_end(queue) for queue in self._queues.queues.values()), default=self._log.min_offset)
        totals = self._checkpoint.queue_totals
        if (
            totals is not None
            and newest <= totals.log_end <= self._log.files.end
            and self._queues.totals() == (totals.queues, totals.sum_of_ends)
        ):
            # The last records have no entries: half messages, or those of a topic that was deleted.
            newest = totals.log_end
        return max(newest, self._log.min_offset)

    def _last_end(self, queue: ConsumeQueue, log_end: int | None = None) -> int:
        """Of the record of the last entry. Entries that their record does not confirm are dropped first (Apache truncates a
        queue without zeroing), but one with a flipped bit is repaired, and those after it stay."""
        end = confirmed_end(self._log, queue, log_end)
        while end < queue.max_offset and self._is_damaged(queue, end, log_end):
            repair_entry(self._log, queue, end, self._levels)
            end = confirmed_end(self._log, queue, log_end)
        if end < queue.max_offset:
            queue.truncate_to(end)
        return record_end(queue, end)

    def _is_damaged(self, queue: ConsumeQueue, offset: int, log_end: int | None) -> bool:
        """Whether the entry differs in one bit from what its record says."""
        record = find_record(self._log, queue, offset, one_bit_only=True)
        return record is not None and (log_end is None or record.physical_offset < log_end)

    def _begin_after_crash(self) -> int:
        log, durable = self._log, self._checkpoint.durable_offset
        if not self._queues.queues:
            return log.min_offset
        if durable == log.min_offset:
            return durable
        if durable is not None and durable > log.min_offset and log.view_at(durable, check_crc=True, limit=NO_LIMIT):
            return durable
        for file in reversed(log.files.files):
            first = log.view_at(file.start, check_crc=True, limit=NO_LIMIT)
            if first is not None and 0 < first.store_timestamp_ms <= self._checkpoint.min_timestamp_ms:
                return max(file.start, self._begin_by_time(file.start))
        return log.min_offset

    def _begin_by_time(self, file_start: int) -> int:
        """The first record in a file that was stored within a minute of the checkpoint, as the queues know it; else the file's
        start. Apache syncs all its queues once a minute, so the entries of older records are on the disk."""
        since_ms = self._checkpoint.min_timestamp_ms - _THOROUGH_INTERVAL_MS
        queues = list(self._queues.queues.values())
        if len(queues) > _MANY_QUEUES:
            return file_start
        begin = None
        for queue in queues:
            low, high = queue.first_from(file_start), queue.max_offset
            while low < high:
                middle = (low + high) // 2
                place, size_bytes, _ = queue.unit(middle)
                record = self._log.view_at(place, limit=NO_LIMIT)
                if size_bytes == FILLER_SIZE or record is None or record.queue_offset != middle:
                    return file_start  # anything unusual is read record by record
                if record.store_timestamp_ms < since_ms:
                    low = middle + 1
                else:
                    high = middle
            if low < queue.max_offset:
                place = queue.unit(low)[0]
                begin = place if begin is None else min(begin, place)
        return file_start if begin is None else begin

    # -- forward ---------------------------------------------------------------------------------------------------------------

    def _scan(self) -> bool:
        """Add missing entries; False if a queue has a hole that only an earlier begin can fill."""
        log = self._log
        from_first = self.begin <= log.min_offset
        walk = self.walk = LogWalk(
            log,
            self.begin,
            check_crc=self._check_crc,
            sound_until=self._losses.sound_until,
            known_end=self._losses.log_end,
        )
        for piece in walk:
            if isinstance(piece, RecordView):
                self.record_count += 1
                log.last_store_timestamp_ms = piece.store_timestamp_ms
                is_complete = not has_unit(piece.sys_flag) or self._add_entry(piece, from_first)
            else:
                self.record_count += len(piece)
                log.last_store_timestamp_ms = int(piece.store_timestamp[-1])
                is_complete = self._add_entries(piece, from_first)
            if not is_complete:
                return False
        log.end_at(walk.at)
        return True

    def _add_entries(self, batch: RecordBatch, from_first: bool) -> bool:
        import numpy as np

        with_entry = np.flatnonzero((batch.sys_flag & TRANSACTION_PREPARED_TYPE) == 0)
        tags = _tags_codes(batch)
        for key, indexes in _by_queue(batch, with_entry):
            if key is not None and (deleted_at := self._deletion_of(*key)):
                indexes = indexes[batch.physical_offset[indexes] >= deleted_at]
                if not len(indexes):
                    continue
            queue = None if key is None else self._queues.queues.get(key)
            left = indexes
            if queue is not None and queue.files.files:
                left = self._add_run(batch, queue, indexes, tags)
            for index in left.tolist():
                if not self._add_entry(RecordView(batch.data, int(batch.starts[index])), from_first):
                    return False
        return True

    def _add_run(self, batch: RecordBatch, queue: ConsumeQueue, indexes: Ints, tags: Ints) -> Ints:
        """Add the missing entries of records of one queue, if they follow on those that are there. Returns the records to add one by
        one: none, or all."""
        import numpy as np

        offsets = batch.queue_offset[indexes]
        first, count = int(offsets[0]), len(indexes)
        if not (offsets == np.arange(first, first + count)).all() or not (
            queue.first_offset <= first <= queue.max_offset
        ):
            return indexes
        wanted = units_of(batch.physical_offset[indexes], batch.size[indexes], tags[indexes])
        present = queue.unit_bytes(first, count)
        if not wanted.startswith(present) or first + len(present) // UNIT_SIZE_BYTES != min(
            first + count, queue.max_offset
        ):
            return indexes
        queue.min_offset = min(queue.min_offset, first)
        missing = wanted[len(present) :]
        queue.put_all(missing)
        return indexes[:0]

    def _add_entry(self, record: RecordView, from_first: bool) -> bool:
        try:
            topic = record.topic
            if record.physical_offset < self._deletion_of(topic, record.queue_id):
                return True
            queue = self._queues.open(topic, record.queue_id)
        except (ProtocolError, ConfigurationError) as error:
            return self._skip(record, str(error))
        offset = record.queue_offset
        if not queue.files.files and offset and not from_first:
            return False  # this queue had entries, and its files are gone
        if not from_first and queue.max_offset + _LARGEST_GAP < offset <= _LARGEST_QUEUE_OFFSET and queue.files.files:
            return False  # damaged records do not explain so many missing entries: entries that the checkpoint calls durable are lost
        if not self._is_possible(queue, record):
            return self._skip(record, f"offset {offset} cannot follow on {queue.max_offset}")
        present = queue.unit_bytes(offset, 1)
        if present:
            physical_offset, size_bytes, tags = UNIT.unpack(present)
            if (
                (physical_offset, size_bytes) == (record.physical_offset, record.size)
                and is_extension_address(tags)
                and self._extension.exists(topic, record.queue_id)
            ):
                return True
            if physical_offset != record.physical_offset and confirms(
                self._log, queue, offset, physical_offset, size_bytes
            ):
                if physical_offset > record.physical_offset:
                    return True  # a record from before the topic was deleted and created again
                if offset:
                    return self._skip(record, f"another record, at {physical_offset}, has its offset")
                queue.restart()  # the first record of the new topic
        return self._put(queue, record, topic, from_first)

    @staticmethod
    def _is_possible(queue: ConsumeQueue, record: RecordView) -> bool:
        offset = record.queue_offset
        if not 0 <= offset <= _LARGEST_QUEUE_OFFSET:
            return False
        if not queue.files.files or offset <= queue.max_offset:
            return True
        if offset > queue.max_offset + _LARGEST_GAP:
            return False
        known = queue.unit_bytes(queue.first_from(record.physical_offset), 1)
        # If they are equal, the queue has this record at another offset.
        return not known or UNIT.unpack(known)[0] != record.physical_offset

    def _put(self, queue: ConsumeQueue, record: RecordView, topic: str, from_first: bool) -> bool:
        place = record.physical_offset, record.size, tags_code_of_record(record, topic, self._levels)
        if not queue.put_at(record.queue_offset, *place):
            if not from_first:
                return False
            queue.fill_gap(record.queue_offset)
            queue.put_at(record.queue_offset, *place)
        return True

    def _skip(self, record: RecordView, reason: str) -> bool:
        # Neither lengths nor checksum cover these fields, so damage on the disk can get this far. The queue loses one record; truncating
        # the log here would lose all following records.
        _log.error(
            "the record at physical offset %d is damaged and gets no queue entry: %s", record.physical_offset, reason
        )
        return True

    def _deletion_of(self, topic: str, queue_id: int) -> int:
        """Records of this queue before this physical offset get no entry."""
        deleted_at, javas_end = self._deleted_topics.get(topic, 0), self._javas_end
        if javas_end is None or topic in self._known_topics or (topic, queue_id) in self._kept_by_java:
            return deleted_at
        return max(deleted_at, javas_end)

    def _find_kept_by_java(self) -> set[tuple[str, int]]:
        """Queues that a Java broker has not deleted, of topics that are not known: each has an entry from before its end, or is damaged."""
        end = self._javas_end
        if end is None:
            return set()

        def has_older_entry(queue: ConsumeQueue) -> bool:
            return queue.max_offset > queue.first_offset and queue.unit(queue.first_offset)[0] < end

        return {
            key
            for key, queue in self._queues.queues.items()
            if key[0] not in self._known_topics and (key in self._losses.queues or has_older_entry(queue))
        }

    # -- cut -------------------------------------------------------------------------------------------------------------------

    def _drop_unconfirmed_tails(self) -> None:
        """Entries after the newest one that its record confirms are what a crash leaves. But if that one is older than the scan,
        the entry after it may be damaged, and more may follow: then the log is read from there."""
        begin = self.begin
        totals = self._checkpoint.queue_totals
        known_end = totals.log_end if totals is not None else 0
        ends: list[int] = []  # before it
        for queue in self._queues.queues.values():
            before = queue.max_offset
            end = self._last_end(queue, self._log.max_offset)
            ends.append(queue.max_offset if end <= known_end else queue.first_from(known_end))
            if queue.max_offset < before and end < self.begin:
                _log.warning(
                    "entries of topic %s, queue %d from offset %d on are not confirmed by the log; it is read again from %d on",
                    queue.topic,
                    queue.queue_id,
                    queue.max_offset,
                    max(end, self._log.min_offset),
                )
                begin = min(begin, max(end, self._log.min_offset))
        # Queues that were counted may have been deleted since, also with no record in between.
        can_compare = all(deleted_at < known_end for deleted_at in self._deleted_topics.values())
        if totals is not None and can_compare and self._has_lost_entries(totals, (sum(map(bool, ends)), sum(ends))):
            begin = self._log.min_offset
        if begin < self.begin:
            scanned_to, self.begin = self._log.max_offset, begin
            if not self._scan():
                self.begin = self._log.min_offset
                self._scan()
            assert self._log.max_offset == scanned_to

    def _has_all_entries(self) -> bool:
        """After a clean stop. With another end of the log Apache has written since."""
        totals = self._checkpoint.queue_totals
        if not self._is_clean or totals is None or totals.log_end != self._log.max_offset:
            return True
        return not self._has_lost_entries(totals, self._queues.totals())

    def _has_lost_entries(self, totals: QueueTotals, found: tuple[int, int]) -> bool:
        lost = lost_entries(totals, found)
        if lost is None:
            return False
        if self._javas_end is None:
            _log.error("%s; rebuilding them from the whole log", lost)
        else:
            _log.warning("%s; rebuilding those of topics that still exist from the whole log", lost)
        return True

    def _cut(self) -> None:
        log = self._log
        for queue in self._queues.queues.values():
            if not self._is_clean:
                self._cut_queue(queue)
            queue.clean(log.min_offset)
            self._restore_first_entry(queue)
        if log.has_data_after_end() or not self._is_clean:
            log.truncate_to_end()
        if not self._is_clean:
            log.files.new_files = True  # the names may also be in the page cache only
        if log.last_store_timestamp_ms == 0:
            log.last_store_timestamp_ms = self._checkpoint.physic_msg_timestamp

    def _restore_first_entry(self, queue: ConsumeQueue) -> None:
        """It may only have looked expired because of a flipped bit."""
        before = queue.min_offset - 1
        if before >= queue.first_offset and queue.files.files and self._is_damaged(queue, before, None):
            repair_entry(self._log, queue, before, self._levels)
            queue.min_offset = before

    def _cut_queue(self, queue: ConsumeQueue) -> None:
        queue.truncate_to(queue.max_offset)
        if queue.max_offset > queue.min_offset and queue.unit(queue.max_offset - 1)[0] < self.begin:
            return
        # What a killed process wrote is in the page cache only: the file where the scan began, and those behind it, are not flushed.
        for file in reversed(queue.files.files):
            queue.flushed_offset = min(queue.flushed_offset, file.start // UNIT_SIZE_BYTES)
            if UNIT.unpack(file.read(0, UNIT_SIZE_BYTES))[0] < self.begin:
                break
        queue.files.new_files = True

    def _log_what_did_not_reach_the_disk(self) -> None:
        end = self._log.max_offset
        if cut := lost_messages(self._queues, end, NO_LIMIT):
            _log.warning(
                "the log had not reached the disk as a whole: it ends at physical offset %d, and the queues have entries "
                "behind it of %s",
                end,
                messages_text(cut),
            )

    def _log_damages(self) -> None:
        for begin, end in self.walk.damages.items():
            _log.error(
                "the commit log is damaged from physical offset %d to %d: the records there are lost, those behind it are kept; it had %s",
                begin,
                end,
                messages_text(lost_messages(self._queues, begin, end)),
            )


def _tags_codes(batch: RecordBatch) -> Ints:
    import numpy as np

    from sprocketmq.store.log.property_columns import PropertyTexts

    codes, nothing_before = np.zeros(len(batch), np.int64), np.zeros(len(batch), np.uint32)
    for columns in PropertyTexts(batch).columns(len(batch)):
        tags = columns.values(TAGS)
        codes[tags.records] = columns.hashes(tags.begins, tags.ends, nothing_before[tags.records]).view(np.int32)
    return codes


def _by_queue(batch: RecordBatch, indexes: Ints) -> Iterator[tuple[tuple[str, int] | None, Ints]]:
    """(topic, queue id) and its records, for each queue in a batch; None = records to take one by one."""
    import numpy as np

    from sprocketmq.store.log.record_batch import groups, rows

    for length, same_length in groups(batch.topic_bytes, indexes):
        octets = rows(batch.data, batch.topic_at[same_length], length)
        # One number per topic: equal topics have equal numbers. Different topics with the same number are rare and separated below.
        numbers = octets.astype(np.uint64) @ _weights(length)
        numbers = numbers * np.uint64(0x9E3779B97F4A7C15) + batch.queue_id[same_length].astype(np.uint64)
        for _, places in groups(numbers.view(np.int64)):
            topic, queue_id = octets[places[0]], int(batch.queue_id[same_length[places[0]]])
            alike = (octets[places] == topic).all() and (batch.queue_id[same_length[places]] == queue_id).all()
            text = topic.tobytes()
            is_plain = bool(alike) and text.isascii() and text.decode() != SCHEDULE_TOPIC
            yield (text.decode(), queue_id) if is_plain else None, same_length[places]


def _weights(count: int) -> NDArray[np.uint64]:
    import numpy as np

    return np.array([pow(1_000_003, power, 1 << 64) for power in range(count)], np.uint64)
