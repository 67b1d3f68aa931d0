"""Finding the true end of a store, and making log and queues agree again. Java: CommitLog.recoverNormally / recoverAbnormally.

    where to begin      after a clean stop (no ``abort`` file): behind the newest record that any queue knows
                        after a crash: at the checkpoint's durable offset; else at the newest file whose first record is older than the
                        checkpoint; else, or when the queues have a hole, at the first file
    forward             each valid record must have its queue entry: missing ones are added, wrong ones (torn) are rewritten
    the end             the first place where no valid record begins; a filler leads on to the next file
    cut                 everything behind the end becomes zero in the log, and entries that point there go from the queues

Laws afterwards are those of ``commit_log`` and ``consume_queue``; ``store.check`` proves them. Recovery may be killed at any point and
begins anew: it only writes what the records say, and it cuts the queues before the log's tail is ever written again.
"""

from __future__ import annotations

import logging

from sprocketmq.core.retry_schedule import DelayLevels
from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.store.checkpoint import Checkpoint
from sprocketmq.store.commit_log import CommitLog
from sprocketmq.store.consume_queue import FILLER_SIZE, UNIT, ConsumeQueue
from sprocketmq.store.consume_queue_table import ConsumeQueueTable
from sprocketmq.store.message_store import UNIT_SIZE_BYTES, StoreConfig
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.properties import DELAY, TAGS, get_property
from sprocketmq.wire.record import RecordView

__all__ = ["Recovery", "is_indexed", "tags_code_of_record"]

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
_TRANSACTION_MASK, _PREPARED, _ROLLBACK = 0xC, 0x4, 0xC
_LARGEST_QUEUE_OFFSET = (1 << 63) // UNIT_SIZE_BYTES - 1
# The log has no holes, so a queue can only miss what damaged records took with them: a few.
_LARGEST_GAP = 1_024
_log = logging.getLogger(__name__)


def is_indexed(sys_flag: int) -> bool:
    """Whether a record has a queue entry: all but prepared and rolled back transaction records."""
    return sys_flag & _TRANSACTION_MASK not in (_PREPARED, _ROLLBACK)


def tags_code_of_record(record: RecordView, topic: str, levels: DelayLevels) -> int:
    """What stands in the queue entry of a record. Java: CommitLog.checkMessageAndReturnSize."""
    properties = record.raw_properties
    if topic == SCHEDULE_TOPIC:
        level = get_property(properties, DELAY) or ""
        if level.isdigit() and int(level) > 0:
            return levels.due_ms(int(level), record.store_timestamp_ms)
    return tags_code(get_property(properties, TAGS))


class Recovery:
    """One start of a store whose files are loaded.

    After ``run``: ``begin`` (physical offset where the scan began), ``record_count`` scanned, ``entry_count`` added to the queues,
    ``damaged_count`` left without an entry because topic, queue or offset cannot be true.
    """

    def __init__(self, log: CommitLog, queues: ConsumeQueueTable, checkpoint: Checkpoint, config: StoreConfig) -> None:
        self._log, self._queues, self._checkpoint = log, queues, checkpoint
        self._check_crc = config.check_crc_on_recover
        self._levels = DelayLevels.parse(config.message_delay_level)
        self.begin = self.record_count = self.entry_count = self.damaged_count = 0

    def run(self, *, clean_stop: bool) -> None:
        log = self._log
        if not log.files.files:
            # Apache does the same: without a log the queues point nowhere.
            self._queues.delete_all()
            log.end_at(0)
            return
        self.begin = self._after_newest_entry() if clean_stop else self._safe_begin()
        if not self._scan() and self.begin > log.min_offset:
            _log.warning(
                "queue entries before physical offset %d are missing; rebuilding them from the whole log", self.begin
            )
            self.begin = log.min_offset
            self._scan()
        self._cut(clean_stop)

    # -- where to begin --------------------------------------------------------------------------------------------------------

    def _after_newest_entry(self) -> int:
        newest = max((self._newest_end(queue) for queue in self._queues.queues.values()), default=self._log.min_offset)
        return max(newest, self._log.min_offset)

    def _newest_end(self, queue: ConsumeQueue) -> int:
        """Where the record of the last entry ends; entries that their record does not confirm are dropped first.

        Apache cuts a queue without zeroing, so stale entries may follow the true end.
        """
        max_offset, cut = queue.max_offset, False
        while max_offset > queue.min_offset:
            physical_offset, size_bytes, _ = queue.unit(max_offset - 1)
            expired = size_bytes > 0 and physical_offset < self._log.min_offset
            if (
                size_bytes == FILLER_SIZE
                or expired
                or self._confirms(queue, max_offset - 1, physical_offset, size_bytes)
            ):
                break
            # Whatever points behind the last file goes in one step, the rest one by one.
            last = self._log.files.files[-1]
            max_offset = max_offset - 1 if cut else min(queue.first_from(last.start + last.size_bytes), max_offset - 1)
            cut = True
        if max_offset < queue.max_offset:
            queue.truncate_to(max_offset)
        if max_offset == queue.min_offset:
            return 0
        physical_offset, size_bytes, _ = queue.unit(max_offset - 1)
        return 0 if size_bytes == FILLER_SIZE else physical_offset + size_bytes

    def _confirms(self, queue: ConsumeQueue, offset: int, physical_offset: int, size_bytes: int) -> bool:
        record = self._log.view_at(physical_offset, check_crc=False, limit=1 << 63)
        return (
            record is not None
            and record.size == size_bytes
            and record.queue_offset == offset
            and record.queue_id == queue.queue_id
            and record.topic_bytes == queue.topic_bytes
        )

    def _safe_begin(self) -> int:
        log, durable = self._log, self._checkpoint.durable_offset
        if not self._queues.queues:
            return log.min_offset
        if durable is not None and durable >= log.min_offset and log.view_at(durable, limit=1 << 63) is not None:
            return durable
        for file in reversed(log.files.files):
            first = log.view_at(file.start, limit=1 << 63)
            if first is not None and 0 < first.store_timestamp_ms <= self._checkpoint.min_timestamp_ms:
                return file.start
        return log.min_offset

    # -- forward ---------------------------------------------------------------------------------------------------------------

    def _scan(self) -> bool:
        """Index what is not; False when a queue has a hole that only an earlier begin can fill."""
        from_first = self.begin <= self._log.min_offset
        for record in self._log.scan(self.begin, check_crc=self._check_crc):
            self.record_count += 1
            if is_indexed(record.sys_flag) and not self._index(record, from_first):
                return False
        return True

    def _index(self, record: RecordView, from_first: bool) -> bool:
        try:
            topic = record.topic
            queue = self._queues.open(topic, record.queue_id)
        except (ProtocolError, ConfigurationError) as error:
            return self._skip(record, str(error))
        offset = record.queue_offset
        if not queue.files.files and offset and not from_first:
            return False  # this queue had entries, and its files are gone
        if not self._is_possible(queue, record):
            return self._skip(record, f"offset {offset} cannot follow on {queue.max_offset}")
        present = queue.unit_bytes(offset, 1)
        if present:
            physical_offset, size_bytes, _ = UNIT.unpack(present)
            if physical_offset != record.physical_offset and self._confirms(queue, offset, physical_offset, size_bytes):
                if physical_offset > record.physical_offset:
                    return True  # of the first life of a topic that was deleted and made anew
                if offset:
                    return self._skip(record, f"another record, at {physical_offset}, has its offset")
                queue.restart()  # the second life begins
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
        return (
            not known or UNIT.unpack(known)[0] != record.physical_offset
        )  # the queue knows this record by another offset

    def _put(self, queue: ConsumeQueue, record: RecordView, topic: str, from_first: bool) -> bool:
        before = queue.max_offset
        place = record.physical_offset, record.size, tags_code_of_record(record, topic, self._levels)
        if not queue.put_at(record.queue_offset, *place):
            if not from_first:
                return False
            queue.fill_gap(record.queue_offset)
            queue.put_at(record.queue_offset, *place)
        self.entry_count += queue.max_offset > before
        return True

    def _skip(self, record: RecordView, reason: str) -> bool:
        # Neither lengths nor checksum cover these fields, so a damaged disk can get this far. One record is lost to its queue; cutting
        # the log here would lose all that follow.
        self.damaged_count += 1
        _log.error(
            "the record at physical offset %d is damaged and gets no queue entry: %s", record.physical_offset, reason
        )
        return True

    # -- cut -------------------------------------------------------------------------------------------------------------------

    def _cut(self, clean_stop: bool) -> None:
        log, end = self._log, self._log.max_offset
        for queue in self._queues.queues.values():
            if not clean_stop:
                self._cut_queue(queue, end)
            queue.clean(log.min_offset)
        if log.has_data_behind_end() or not clean_stop:
            log.truncate_to_end()
        if log.last_store_timestamp_ms == 0:
            log.last_store_timestamp_ms = self._checkpoint.physic_msg_timestamp

    def _cut_queue(self, queue: ConsumeQueue, end: int) -> None:
        queue.truncate_to(queue.first_from(end))
        self._newest_end(queue)
        # What a killed process wrote is in the page cache only: count the newest two files as not flushed.
        files = queue.files.files
        queue.flushed_offset = files[-2 if len(files) > 1 else -1].start // UNIT_SIZE_BYTES if files else 0
