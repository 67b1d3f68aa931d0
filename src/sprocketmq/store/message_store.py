# SPDX-License-Identifier: Apache-2.0
"""The store of a broker's messages. Java: MessageStore.

``append`` first makes room for record and queue entry, then writes both. A kill between the two leaves what recovery mends.
"""

from __future__ import annotations

import concurrent.futures
import logging
import os
from collections.abc import Callable, Collection, Mapping, Set
from types import MappingProxyType
from typing import Final

from sprocketmq.core.retry.retry_schedule import DelayLevels
from sprocketmq.errors import ConfigurationError, StoreNotWritable
from sprocketmq.store.damaged_bodies import DamagedBodies
from sprocketmq.store.files.checkpoint import Checkpoint
from sprocketmq.store.files.mapped_file_queue import MappedFileQueue
from sprocketmq.store.index.index_files import IndexFiles, index_text
from sprocketmq.store.log.commit_log import CommitLog
from sprocketmq.store.log.log_walk import LogWalk
from sprocketmq.store.log.tags_code import tags_code_of_record
from sprocketmq.store.queue.consume_queue import ConsumeQueue
from sprocketmq.store.queue.consume_queue_ext import ConsumeQueueExtTable
from sprocketmq.store.queue.consume_queue_table import ConsumeQueueTable
from sprocketmq.store.queue.unit import FILLER_SIZE, UNIT, UNIT_SIZE_BYTES, has_unit, units_of
from sprocketmq.store.recovery.entry_repair import repaired_units
from sprocketmq.store.services.dispatch import Dispatcher
from sprocketmq.store.services.flush import CLOSED
from sprocketmq.store.services.retention import Retention
from sprocketmq.store.store_config import StoreConfig
from sprocketmq.store.stored_message import (
    AppendResult,
    BatchAppendResult,
    IndexHits,
    ReadResult,
    ReadStatus,
    StoredBatch,
    StoredMessage,
    Unit,
)
from sprocketmq.store.unfiltered_reads import read_at_once, read_one_by_one
from sprocketmq.troubles import Troubles
from sprocketmq.wire.records.properties import MAX_PROPERTIES_BYTES
from sprocketmq.wire.records.record import RecordView, encode_record, record_size, write_ipv4_record
from sprocketmq.wire.records.record_layout import (
    BLANK_BYTES,
    HOSTS_V6,
    IPV4_BYTES,
    IPV6_BYTES,
    PROPERTIES_LENGTH,
    RECORD,
)
from sprocketmq.wire.records.sys_flag import TRANSACTION_MASK

NO_TOPICS: Final[Mapping[str, int]] = MappingProxyType({})
_FIXED_BYTES = RECORD.size + PROPERTIES_LENGTH.size  # size of a record without topic, body and properties
_NEEDS_GENERAL_APPEND = TRANSACTION_MASK | HOSTS_V6
_FILLERS_AT_ONCE = 4_096
_SMALLEST_HASH = -(1 << 31)  # smaller numbers are addresses in the queue's extension
_iter_units = UNIT.iter_unpack
_pack_unit = UNIT.pack_into


class MessageStore:
    """A commit log with its consume queues and its index by key, in memory or (``DiskMessageStore``) in a directory.

    It belongs to one thread, the broker's loop: no method takes a lock or blocks, and a message can be read as soon as ``append``
    has returned. Only durability takes time, so it is a future. ``offset`` counts messages of one queue, a physical offset bytes of
    the log. An unknown queue begins and ends at 0.

    Every append raises ConfigurationError (a limit is exceeded) or StoreNotWritable (no space, not open, or a flush failed), and
    then has written nothing. ``directory``: the store's root (``storePathRootDir``); None = in memory, where every message counts
    as durable at once. ``read_only``: nothing is created or repaired.
    """

    def __init__(self, config: StoreConfig, directory: str | None = None, *, read_only: bool = False) -> None:
        def path(name: str) -> str | None:
            return None if directory is None else os.path.join(directory, name)

        self.config, self.path = config, directory
        log_path = config.store_path_commit_log if directory is not None else None
        self.commit_log = CommitLog(
            MappedFileQueue(
                log_path or path("commitlog"),
                config.mapped_file_size_commit_log,
                "mappedFileSizeCommitLog",
                read_only=read_only,
            )
        )
        self.consume_queues = ConsumeQueueTable(path("consumequeue"), config, read_only=read_only)
        self.index = IndexFiles(path("index"), config, read_only=read_only)
        self.checkpoint = Checkpoint(path("checkpoint"))
        self.dispatcher = Dispatcher(self.commit_log, self.index, self.checkpoint)
        self.extension = ConsumeQueueExtTable(path("consumequeue_ext"), config.mapped_file_size_consume_queue_ext)
        self.troubles = Troubles(logging.getLogger("sprocketmq.store"))
        self.damaged_bodies = DamagedBodies(self.troubles)
        self.retention = Retention(self)
        self.has_lost_messages = False  # a loss was accepted at this start
        self._queues = self.consume_queues.queues
        self._levels = DelayLevels.parse(config.message_delay_level)
        self._frozen: StoreNotWritable | None = None
        # Why appends are refused; None if they are accepted.
        self.refusal: StoreNotWritable | None = StoreNotWritable("the store is not open; call load() first")

    def load_files(self) -> None:
        self.checkpoint.load()
        self.commit_log.files.load()
        self.consume_queues.load()

    def reconfigure(self, config: StoreConfig) -> None:
        """Change limits and retention. File sizes and what else ``load`` reads stay as they are."""
        self.config = config

    def load(self, deleted_topics: Mapping[str, int] = NO_TOPICS, known_topics: Collection[str] | None = None) -> None:
        """Open the store, and repair it after a crash. Call once, before anything else.

        ``deleted_topics``: the end of the log at the deletion of each topic; its records before that get no queue entries.
        ``known_topics``: those that exist, to distinguish topics that a Java broker has deleted from lost queues. Raises
        StoreLocked (another broker has the directory open), StoreNotWritable, StoreCorrupt (a file has a length or a name that the
        format does not allow).
        """
        self.refuse_appends(None)

    @property
    def flushed_offset(self) -> int:
        """A power cut loses nothing before this physical offset."""
        return self.max_physical_offset

    def when_durable(self, physical_offset: int) -> concurrent.futures.Future[None]:
        """Done once everything before ``physical_offset`` is on the disk, whatever ``flush_disk_type`` says; fails with
        StoreNotWritable when the disk reported an error. It completes on the flush thread."""
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        future.set_result(None)
        return future

    def flush(self) -> None:
        """Wait until everything is on the disk and in the index by key."""

    def close(self) -> None:
        """Does nothing if closed already; views that were returned stay readable."""
        self.refuse_appends(StoreNotWritable(CLOSED))

    def unmap(self) -> None:
        self.index.unmap()
        self.extension.unmap()
        self.consume_queues.unmap()
        self.commit_log.files.unmap()

    # -- writing ---------------------------------------------------------------------------------------------------------------

    def refuse_appends(self, reason: StoreNotWritable | None) -> None:
        """Let appends raise ``reason`` from now on; None accepts them again, unless the store is frozen."""
        self.refusal = reason or self._frozen

    def freeze(self, reason: StoreNotWritable | None) -> None:
        """For a handover: appends raise ``reason``, also when the disk would accept them again. None ends it."""
        if self.refusal is self._frozen:
            self.refusal = reason
        self._frozen = reason

    def append(self, message: StoredMessage, now_ms: int) -> AppendResult:
        if self.refusal is not None:
            # Without the traceback of the append before: it would grow, and keep the messages of all of them.
            raise self.refusal.with_traceback(None)
        queue = self._queues.get((message.topic, message.queue_id)) or self._open_queue(message)
        body, properties, sys_flag = message.body, message.properties, message.sys_flag
        born_host, store_host = message.born_host, message.store_host
        if (
            len(body) > self.config.max_message_size
            or len(properties) > MAX_PROPERTIES_BYTES
            or len(born_host[0]) != IPV4_BYTES
            or len(store_host[0]) != IPV4_BYTES
            or sys_flag & _NEEDS_GENERAL_APPEND
            or not queue.topic_part
        ):
            return self._append_general(queue, message, now_ms)
        size = len(queue.topic_part) + len(body) + len(properties) + _FIXED_BYTES
        if queue.at > queue.room:
            queue.make_room()
        log = self.commit_log
        if log.at + size > log.room:
            log.reserve(size)
        at, queue_offset = log.at, queue.max_offset
        physical_offset = log.start + at
        write_ipv4_record(
            log.view,
            at,
            size,
            queue.topic_part,
            body,
            properties,
            message.queue_id,
            message.flag,
            queue_offset,
            physical_offset,
            sys_flag,
            message.born_timestamp_ms,
            born_host,
            now_ms,
            store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
        )
        log.at = at + size
        log.last_store_timestamp_ms = now_ms
        unit_at = queue.at
        _pack_unit(queue.view, unit_at, physical_offset, size, message.tags_code)
        queue.at = unit_at + UNIT_SIZE_BYTES
        queue.max_offset = queue_offset + 1
        log.indexed_offset = physical_offset
        return AppendResult(physical_offset, queue_offset, now_ms, size)

    def make_room(self, message: StoredMessage, bytes_before: int) -> None:
        """Make room for a message behind so many bytes of records that come before it: the appends that follow at once lack no space,
        but if a file of the log is too small for all. Raises as ``append``."""
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)
        queue = self._queues.get((message.topic, message.queue_id)) or self._open_queue(message)
        if queue.at > queue.room:
            queue.make_room()
        size = bytes_before + self._checked_size(message, len(queue.topic_bytes))
        self.commit_log.reserve(min(size, self.commit_log.file_size_bytes - BLANK_BYTES))

    def append_again(self, message: StoredMessage, now_ms: int) -> AppendResult:
        """``append`` for a copy of a stored message: its body may exceed ``max_message_size``, which limits new messages."""
        if len(message.body) <= self.config.max_message_size:
            return self.append(message, now_ms)
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)
        queue = self._queues.get((message.topic, message.queue_id)) or self._open_queue(message)
        return self._append_general(queue, message, now_ms, most_bytes=len(message.body))

    def _append_general(
        self, queue: ConsumeQueue, message: StoredMessage, now_ms: int, *, most_bytes: int | None = None
    ) -> AppendResult:
        """Also for IPv6 hosts, long topics, transactions and queues with an extension; refuses what is too long. ``most_bytes``:
        limit of the body; default: max_message_size."""
        topic = queue.topic_bytes
        size = self._checked_size(message, len(topic), most_bytes)
        has_entry = has_unit(message.sys_flag)
        if has_entry and queue.at > queue.room:
            queue.make_room()
        log = self.commit_log
        physical_offset = log.reserve(size)
        queue_offset, tags_code = (queue.max_offset if has_entry else 0), message.tags_code
        if has_entry and self.consume_queues.are_extended:
            tags_code = self.extension.put(message.topic, message.queue_id, tags_code, now_ms)
        log.write(_record(message, topic, queue_offset, physical_offset, now_ms))
        log.last_store_timestamp_ms = now_ms
        if has_entry:
            _pack_unit(queue.view, queue.at, physical_offset, size, tags_code)
            queue.at += UNIT_SIZE_BYTES
            queue.max_offset = queue_offset + 1
        log.indexed_offset = physical_offset
        return AppendResult(physical_offset, queue_offset, now_ms, size)

    def append_batch(self, batch: StoredBatch, now_ms: int) -> BatchAppendResult:
        """``append`` for several messages of one queue: consecutive offsets; all are stored or none, also after a crash."""
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)
        if batch.sys_flag & TRANSACTION_MASK:
            raise ConfigurationError(
                f"a batch for topic {batch.topic!r}, queue {batch.queue_id} holds another topic, another queue or a transaction; "
                "send those on their own"
            )
        elements, log = batch.elements, self.commit_log
        # If the whole is within the limits, each message is.
        if len(elements.data) > self.config.max_message_size or len(elements.texts) > MAX_PROPERTIES_BYTES:
            self._check_sizes(batch.topic, elements.longest_body_bytes, elements.longest_properties_bytes)
        queue = self._queues.get((batch.topic, batch.queue_id)) or self._open_queue(batch)
        queue_offset = queue.max_offset
        record = encode_record(
            queue.topic_bytes,
            b"",
            b"",
            queue_id=batch.queue_id,
            queue_offset=0,
            physical_offset=0,
            born_timestamp_ms=batch.born_timestamp_ms,
            born_host=batch.born_host,
            store_timestamp_ms=now_ms,
            store_host=batch.store_host,
            sys_flag=batch.sys_flag,
            reconsume_times=batch.reconsume_times,
        )
        size = elements.records_bytes(record)
        at = log.reserve(size)
        places, sizes = elements.record_places(record, at)
        records = elements.records(record, queue_offset, places, sizes)
        assert len(records) == size, "the records do not have the reserved size"
        codes = batch.tags_codes
        if not queue.topic_part and self.consume_queues.are_extended:
            codes = [self.extension.put(batch.topic, batch.queue_id, code, now_ms) for code in codes]
        units = units_of(places, sizes, codes)
        queue.reserve(len(places))
        log.write(memoryview(records))
        queue.put_all(units)
        log.last_store_timestamp_ms = now_ms
        log.indexed_offset = int(places[-1])
        return BatchAppendResult(at, queue_offset, now_ms, size, places)

    def _open_queue(self, message: StoredMessage | StoredBatch) -> ConsumeQueue:
        return self.consume_queues.open(message.topic, message.queue_id)

    def _checked_size(self, message: StoredMessage, topic_bytes: int, most_bytes: int | None = None) -> int:
        body_bytes, properties_bytes = len(message.body), len(message.properties)
        self._check_sizes(message.topic, body_bytes, properties_bytes, most_bytes)
        return record_size(
            topic_bytes,
            body_bytes,
            properties_bytes,
            born_host_v6=len(message.born_host[0]) == IPV6_BYTES,
            store_host_v6=len(message.store_host[0]) == IPV6_BYTES,
        )

    def _check_sizes(self, topic: str, body_bytes: int, properties_bytes: int, most_bytes: int | None = None) -> None:
        if most_bytes is None:
            most_bytes = self.config.max_message_size
        if body_bytes > most_bytes or properties_bytes > MAX_PROPERTIES_BYTES:
            raise ConfigurationError(
                f"the message for topic {topic!r} has a body of {body_bytes} and properties of {properties_bytes} bytes, "
                f"{self.config.max_message_size} and {MAX_PROPERTIES_BYTES} are allowed; send less, or raise maxMessageSize"
            )

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        max_bytes: int = 256 * 1024,
        match: Callable[[int], bool] | None = None,
        match_record: Callable[[memoryview], bool | None] | None = None,
    ) -> ReadResult:
        """Records from ``offset`` on, whole and in order, up to both limits; the first one is returned whatever its size.

        ``match`` gets the tags code of an entry, then ``match_record`` the record (SQL92); if that returns None, the read ends
        before this record. A filtered read checks at most ``config.max_filter_units`` entries; then it returns NO_MATCHED_MESSAGE
        with an advanced ``next_offset``.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None or queue.max_offset == 0:
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if offset < low:
            return ReadResult(ReadStatus.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
        result = ReadResult(ReadStatus.FOUND, offset, low, high)
        if match is None and match_record is None:
            if not read_at_once(self.commit_log, queue, result, max_messages, max_bytes):
                read_one_by_one(self.commit_log, queue, result, max_messages, max_bytes, self._levels)
        else:
            self._collect_matching(queue, result, max_messages, max_bytes, match, match_record)
        if not result.count:
            result.status = ReadStatus.NO_MATCHED_MESSAGE
        elif offset < queue.written_from:
            self._compare_bodies(queue, offset, result, is_filtered=match is not None or match_record is not None)
        return result

    def _compare_bodies(self, queue: ConsumeQueue, offset: int, result: ReadResult, *, is_filtered: bool) -> None:
        """Log damaged bodies of messages that were on the disk at the start; what was compared before is not compared again."""
        begin, end = queue.compared
        if begin <= offset and result.next_offset <= end:
            return
        self.damaged_bodies.compare(result.chunks)
        if not is_filtered:
            queue.compared = (begin if begin <= offset <= end else offset), result.next_offset

    def _collect_matching(
        self,
        queue: ConsumeQueue,
        result: ReadResult,
        max_messages: int,
        max_bytes: int,
        match: Callable[[int], bool] | None,
        match_record: Callable[[memoryview], bool | None] | None,
    ) -> None:
        max_units = max(self.config.max_filter_units, max_messages)
        for physical_offset, size, tags_code in _iter_units(self._units(queue, result.next_offset, max_units)):
            if tags_code < _SMALLEST_HASH and size != FILLER_SIZE:
                tags_code = self._true_tags_code(physical_offset, tags_code)
            if size != FILLER_SIZE and (match is None or match(tags_code)):
                if result.count and (result.count >= max_messages or result.bytes + size > max_bytes):
                    return
                record = self.commit_log.slice(physical_offset, size)
                wanted = match_record is None or match_record(record)
                if wanted is None:
                    return
                if wanted:
                    result.chunks.append(record)
                    result.bytes += size
                    result.count += 1
            result.next_offset += 1

    def units(self, topic: str, queue_id: int, offset: int, max_units: int = 32) -> list[Unit]:
        """Queue entries from ``offset`` on, without those of messages that are lost or have expired. Empty only at the end."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return []
        offset = max(offset, queue.min_offset)  # an entry without a record would be taken for a damaged one
        found: list[Unit] = []
        count = max_units
        while not found and (raw := self._units(queue, offset, count)):
            found = [
                Unit(
                    offset + index,
                    physical_offset,
                    size,
                    tags_code if tags_code >= _SMALLEST_HASH else self._true_tags_code(physical_offset, tags_code),
                )
                for index, (physical_offset, size, tags_code) in enumerate(_iter_units(raw))
                if size != FILLER_SIZE
            ]
            offset += len(raw) // UNIT_SIZE_BYTES
            count = max(max_units, _FILLERS_AT_ONCE)
        return found[:max_units]

    def _units(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        if offset >= queue.written_from:
            return queue.unit_bytes(offset, count)
        return repaired_units(self.commit_log, queue, offset, count, self._levels)

    def _true_tags_code(self, physical_offset: int, address: int) -> int:
        """The tags code of a unit that has an address in the queue's extension instead."""
        record = self.commit_log.view_at(physical_offset)
        if record is None:
            return address
        topic = record.topic_bytes.decode("utf-8", "replace")
        return tags_code_of_record(record, topic, self._levels)

    def log_data(self, physical_offset: int, max_bytes: int) -> memoryview | None:
        """The log's bytes for a slave, at most to the end of a file; None if there are none."""
        return self.commit_log.data(physical_offset, max_bytes)

    def copied_from(self, physical_offset: int) -> list[int]:
        """The physical offsets of the waiting messages (delayed, or of a timer) whose copies are in the log from a place on."""
        log = self.commit_log
        end = log.max_offset
        walk = LogWalk(log, max(physical_offset, log.min_offset), end, sound_until=end, known_end=end)
        return [place for batch in walk.batches() for place in (~batch.prepared[batch.prepared < 0]).tolist()]

    def record_at(self, physical_offset: int) -> memoryview | None:
        """None if no record begins there (a client may have invented that offset)."""
        record = self.commit_log.view_at(physical_offset)
        if record is None:
            return None
        self.damaged_bodies.compare_one(record)
        return self.commit_log.slice(physical_offset, record.size)

    def view_at(self, physical_offset: int) -> RecordView | None:
        record = self.record_at(physical_offset)
        return None if record is None else RecordView(record)

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = self._queues.get((topic, queue_id))
        return queue.min_offset if queue else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset that the next append gets."""
        queue = self._queues.get((topic, queue_id))
        return queue.max_offset if queue else 0

    def nearest_offset(self, topic: str, queue_id: int, offset: int) -> int:
        """``offset``, moved into the queue's range: files may have expired, or recovery may have truncated the queue."""
        return min(max(offset, self.min_offset(topic, queue_id)), self.max_offset(topic, queue_id))

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, *, upper: bool = False) -> int:
        """First offset stored at or after ``timestamp_ms`` (max_offset if none); ``upper``: last offset stored at or before it."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return 0
        # The first offset stored at (lower) or after (upper) the time. Store times grow with the offset unless the clock was set back.
        low, high = queue.min_offset, queue.max_offset
        while low < high:
            middle = (low + high) // 2
            stored_ms = self._store_time(queue, middle)
            if stored_ms < timestamp_ms or (upper and stored_ms == timestamp_ms):
                low = middle + 1
            else:
                high = middle
        return max(queue.min_offset, low - 1) if upper else low

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """In ms, -1 if the message does not exist."""
        queue = self._queues.get((topic, queue_id))
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return -1
        return self._store_time(queue, offset)

    def _store_time(self, queue: ConsumeQueue, offset: int) -> int:
        physical_offset, size, _ = UNIT.unpack(self._units(queue, offset, 1))
        return -1 if size == FILLER_SIZE else self.commit_log.store_timestamp_at(physical_offset)

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """In ms, of the first kept message; -1 if there is none."""
        return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))

    def dispatch(self, max_records: int) -> int:
        """Add up to ``max_records`` records of the log to the index by key. Returns how many were read; 0 means that it is
        complete. A record with many keys or long properties counts as several, but at least one is read. Raises StoreNotWritable
        (no space for an index file): the next call tries the same records again."""
        return self.dispatcher.dispatch(max_records) if self.config.message_index_enable else 0

    @property
    def undispatched_bytes(self) -> int:
        return self.dispatcher.backlog_bytes if self.config.message_index_enable else 0

    def find_by_key(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, *, index_type: str = ""
    ) -> IndexHits:
        """The newest ``max_count`` records of ``topic`` with this key (``index_type`` "T": with these TAGS), stored between the two
        times. A hit may be of another key with the same hash, and may have expired."""
        return self.index.find(index_text(topic, key, index_type), max_count, begin_ms, end_ms)

    def queues(self) -> list[tuple[str, int]]:
        """(topic, queue_id) of every queue that was ever written, sorted."""
        return sorted(self._queues)

    def queue_ids(self, topic: str) -> Set[int]:
        return self.consume_queues.ids(topic)

    @property
    def min_physical_offset(self) -> int:
        return self.commit_log.min_offset

    @property
    def max_physical_offset(self) -> int:
        return self.commit_log.max_offset

    # -- life ------------------------------------------------------------------------------------------------------------------

    def delete_topic(self, topic: str) -> int:
        """Delete the queues of ``topic``; returns how many. Its records stay in the log until their file expires."""
        self.extension.delete_topic(topic)
        return self.consume_queues.delete_topic(topic)

    def clean(self, now_ms: int, *, any_hour: bool = False) -> int:
        """One retention round: delete expired log files and what pointed into them; returns how many log files went. ``any_hour``:
        not only in the hours of ``delete_when``."""
        return self.retention.clean(now_ms, any_hour=any_hour)


def _record(message: StoredMessage, topic: bytes, queue_offset: int, physical_offset: int, now_ms: int) -> bytes:
    return encode_record(
        topic,
        message.body,
        message.properties,
        queue_id=message.queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=message.born_host,
        store_timestamp_ms=now_ms,
        store_host=message.store_host,
        flag=message.flag,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
    )
