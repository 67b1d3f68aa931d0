# SPDX-License-Identifier: Apache-2.0
"""The interface between a broker and its store: append, read by queue or physical offset, search by time, flush. Java: MessageStore.

Two stores implement it: ``MemoryMessageStore`` (tests, temporary brokers) and ``DiskMessageStore`` (the directory format of
Apache RocketMQ). Both run the same code over the same record bytes; only where the bytes live differs, so the same tests run on both.

A store belongs to one thread, the broker's owner loop: no method takes a lock, every method returns at once, and a message can be read
as soon as ``append`` has returned. Durability is the one thing that takes time, so it is a future: ``when_durable``.
"""

from __future__ import annotations

import concurrent.futures
import enum
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from sprocketmq.core.retry.retry_schedule import DEFAULT_DELAY_LEVELS
from sprocketmq.errors import ConfigurationError, StoreNotWritable
from sprocketmq.store.damaged_bodies import DamagedBodies
from sprocketmq.store.queue.unit import UNIT_SIZE_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sprocketmq.wire.records.batch_elements import BatchElements

NO_TOPICS: Final[Mapping[str, int]] = MappingProxyType({})


class FlushDiskType(enum.Enum):
    """When an append counts as durable. Java: config.FlushDiskType."""

    ASYNC_FLUSH = "ASYNC_FLUSH"  # at once: survives kill -9, the disk follows within flush_interval_commit_log_ms
    SYNC_FLUSH = "SYNC_FLUSH"  # after fdatasync: survives power loss; many waiters share one fdatasync


class ReadStatus(enum.Enum):
    """Outcome of a read. Java: GetMessageStatus, the same names; the broker maps them to response codes.

    Three of Java's do not occur here: OFFSET_FOUND_NULL (a file of the queue is missing: such a store is not opened),
    MESSAGE_WAS_REMOVING (log and queues are cleaned in one step) and NO_MATCHED_LOGIC_QUEUE (Java creates the queue, too).
    """

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = (
        "NO_MATCHED_MESSAGE"  # the filter removed all, or the scan limit was reached: continue at next_offset
    )
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"  # beyond the end: next_offset = max_offset
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"  # exactly at the end: nothing new yet, the pull may be parked
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"  # before the first kept message: next_offset = min_offset
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"  # nothing was ever written to that queue: next_offset = 0


@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """Sizes, intervals and limits of a store; names are Apache's MessageStoreConfig keys in snake_case, defaults are Apache's.

    Attributes:
        mapped_file_size_commit_log: bytes of one commit log file (1 GiB). A directory keeps the size it was made with.
        mapped_file_size_consume_queue: bytes of one consume queue file, a multiple of a unit's 20 (6,000,000).
        store_path_commit_log: folder of the commit log; None = ``commitlog`` inside the store directory.
        max_message_size: largest body in bytes (4 MiB).
        flush_disk_type: ASYNC_FLUSH or SYNC_FLUSH.
        flush_interval_commit_log_ms, flush_interval_consume_queue_ms: background flush (500 ms, 1,000 ms).
        max_filter_units: how many queue entries one filtered read looks at before it returns NO_MATCHED_MESSAGE (800).
        check_crc_on_recover: verify body checksums while recovering (True).
        accept_store_loss: start although files of the log or tables are missing, without the messages that were in them (False).
        message_delay_level: the broker's delay levels; recovery needs them to rebuild entries of SCHEDULE_TOPIC_XXXX.
        file_reserved_time: hours a full commit log file is kept (72); ``delete_when``: hours of the day for deleting, ";" separated.
        disk_max_used_space_ratio: from this use of the disk in percent, expired files go at any hour (75).
        disk_space_clean_forcibly_ratio: from this use unexpired files go, oldest first (85), if ``clean_file_forcibly_enable`` (True).
        disk_space_warning_level_ratio: from this use the store refuses appends (90).
        delete_file_batch_max: commit log files deleted in one retention round (10).
        max_mapped_queue_files: consume queue files kept mapped; None = from the process's limit on open files.
        message_index_enable: keep an index by key (True); ``max_hash_slot_num``, ``max_index_num``: slots and entries of one index file
            (5,000,000 and 20,000,000). A directory keeps the numbers it was made with.
        max_msgs_num_batch: most records that a query by key finds (64).
        enable_consume_queue_ext: also write the extension of each queue entry (False); ``mapped_file_size_consume_queue_ext``: bytes of
            one of its files (48 MiB).
    """

    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 300_000 * UNIT_SIZE_BYTES
    store_path_commit_log: str | None = None
    max_message_size: int = 4 << 20
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    flush_interval_commit_log_ms: int = 500
    flush_interval_consume_queue_ms: int = 1_000
    max_filter_units: int = 800
    check_crc_on_recover: bool = True
    accept_store_loss: bool = False
    message_delay_level: str = DEFAULT_DELAY_LEVELS
    file_reserved_time: int = 72
    delete_when: str = "04"
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    delete_file_batch_max: int = 10
    clean_file_forcibly_enable: bool = True
    max_mapped_queue_files: int | None = None
    message_index_enable: bool = True
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    max_msgs_num_batch: int = 64
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = 48 << 20

    def __post_init__(self) -> None:
        if self.mapped_file_size_consume_queue <= 0 or self.mapped_file_size_consume_queue % UNIT_SIZE_BYTES:
            raise ConfigurationError(
                f"mappedFileSizeConsumeQueue is {self.mapped_file_size_consume_queue}, a positive multiple of "
                f"{UNIT_SIZE_BYTES} is allowed; Apache's default is 6000000"
            )
        if not 128 <= self.mapped_file_size_commit_log <= 0x7FFFFFFF:
            raise ConfigurationError(
                f"mappedFileSizeCommitLog is {self.mapped_file_size_commit_log}, 128 to 2147483647 bytes are allowed; "
                "Apache's default is 1073741824"
            )
        for key, value, least, most in (
            ("maxHashSlotNum", self.max_hash_slot_num, 1, 100_000_000),
            ("maxIndexNum", self.max_index_num, 2, 85_000_000),
            ("maxMsgsNumBatch", self.max_msgs_num_batch, 1, 1_024),
            ("mappedFileSizeConsumeQueueExt", self.mapped_file_size_consume_queue_ext, 64, 0x7FFFFFFF),
            # Below 0 each full file has expired, and its messages go.
            ("fileReservedTime", self.file_reserved_time, 0, 0x7FFFFFFF),
            ("diskMaxUsedSpaceRatio", self.disk_max_used_space_ratio, 0, 100),
            ("diskSpaceCleanForciblyRatio", self.disk_space_clean_forcibly_ratio, 0, 100),
            ("diskSpaceWarningLevelRatio", self.disk_space_warning_level_ratio, 0, 100),
            ("deleteFileBatchMax", self.delete_file_batch_max, 1, 0x7FFFFFFF),
        ):
            if not least <= value <= most:
                raise ConfigurationError(f"{key} is {value}, {least} to {most} are allowed")
        parts = [part.strip() for part in self.delete_when.split(";")]
        # Above 23 an hour never comes (UtilAll.isItTimeToDo), which is how files are kept until the disk is full.
        if wrong := [part for part in parts if part and not part.isdecimal()]:
            raise ConfigurationError(
                f"deleteWhen has {wrong[0]!r}, hours of the day are allowed, separated by ';', or 99 for never"
            )


class StoredMessage(msgspec.Struct, gc=False):
    """A message as the broker gives it to ``append``: all parts of the record except its place and its store time.

    ``properties`` are the raw wire bytes, ``born_host`` and ``store_host`` are (4 or 16 address bytes, port); the sys_flag bits that
    tell IPv6 hosts apart are set by the store. ``prepared_transaction_offset`` is, of a committed message, the physical offset of its half
    message; of the copy of a message that waited for its time the bitwise complement of that one's (Java: 0). ``tags_code`` goes into the
    queue entry: ``tags_code(TAGS)``, or the delivery time for a delayed message. The broker decides about delay, retry and transaction
    topics; the store writes what it gets.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int = 0
    born_host: tuple[bytes, int] = (b"\x7f\x00\x00\x01", 0)
    store_host: tuple[bytes, int] = (b"\x7f\x00\x00\x01", 10911)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    tags_code: int = 0


class StoredBatch(msgspec.Struct, gc=False):
    """Messages that are stored together: what their records have in common, as in ``StoredMessage``, and what each has of its own.

    ``elements`` are their bodies, properties and flags; ``tags_codes`` has a number for each.
    """

    topic: str
    queue_id: int
    elements: BatchElements
    tags_codes: list[int]
    sys_flag: int = 0
    born_timestamp_ms: int = 0
    born_host: tuple[bytes, int] = (b"\x7f\x00\x00\x01", 0)
    store_host: tuple[bytes, int] = (b"\x7f\x00\x00\x01", 10911)
    reconsume_times: int = 0


class AppendResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message was stored. ``when_durable`` takes ``physical_offset + size``; ``size`` is in bytes."""

    physical_offset: int
    queue_offset: int
    store_timestamp: int
    size: int


class BatchAppendResult(AppendResult, frozen=True, gc=False):
    """Where the messages of a batch went: both offsets are the first one's, ``size`` is that of all together."""

    physical_offsets: NDArray[np.int64]


class ReadResult(msgspec.Struct, gc=False):
    """Outcome of ``read``.

    ``chunks`` are views of whole records, in order, ready for a socket. They stay valid after the file is deleted, but hold its memory:
    do not keep them. The next read begins at ``next_offset``. ``bytes`` and ``count`` are the sums over the chunks.
    """

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    chunks: list[memoryview] = []
    bytes: int = 0
    count: int = 0


class IndexHits(msgspec.Struct):
    """Places of the records with a key, ascending; and how far the index was: store time and place of its newest record."""

    physical_offsets: list[int] = []
    last_update_timestamp: int = 0
    last_update_physical_offset: int = 0


class Unit(msgspec.Struct, frozen=True, gc=False):
    """One consume queue entry: the record's place, and its tags code (delivery time in SCHEDULE_TOPIC_XXXX)."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int


class MessageStore(Protocol):
    """See the module's head. Every offset named ``offset`` counts messages of one queue; ``physical`` offsets count bytes of the log."""

    @property
    def config(self) -> StoreConfig: ...

    def reconfigure(self, config: StoreConfig) -> None:
        """From now on these limits and times of retention count. What the files are made by counts from the next ``load`` on."""
        ...

    def load(self, deleted_topics: Mapping[str, int] = NO_TOPICS, known_topics: Collection[str] | None = None) -> None:
        """Open (and, after a crash, repair) the store. Call once, before anything else.

        ``deleted_topics``: the end of the log at the deletion of each topic. No queue entries are added for its records before
        that. ``known_topics``: those that exist, by which topics that a Java broker has deleted are told from lost queues.

        Raises StoreLocked (another broker has the directory open), StoreNotWritable (the directory cannot be written), StoreCorrupt (a
        file has a length or a name that the format does not allow).
        """
        ...

    def append(self, message: StoredMessage, now_ms: int) -> AppendResult:
        """Write one record and its queue entry; the message is readable when this returns.

        Raises ConfigurationError: body, topic or properties are over the limit; nothing was written. StoreNotWritable: no space,
        shut down, or an earlier flush failed; nothing was written.
        """
        ...

    def append_again(self, message: StoredMessage, now_ms: int) -> AppendResult:
        """``append`` for a copy of a stored message: its body may exceed ``max_message_size``, which limits new messages."""
        ...

    def append_batch(self, batch: StoredBatch, now_ms: int) -> BatchAppendResult:
        """``append`` for several messages of one topic and queue: consecutive offsets; all are stored or none, also after a crash."""
        ...

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

        ``match`` gets the tags code of an entry, then ``match_record`` the record (SQL92). If ``match_record`` returns None, the read ends
        before this record, and the next read begins with it. A filtered read looks at no more than
        ``config.max_filter_units`` entries; then it returns NO_MATCHED_MESSAGE with an advanced ``next_offset``.
        """
        ...

    def units(self, topic: str, queue_id: int, offset: int, max_units: int = 32) -> list[Unit]:
        """Queue entries from ``offset`` on; the schedule service reads delivery times from them. Those of lost messages are left out,
        so the first one may be behind ``offset``. Empty only at the end."""
        ...

    def log_data(self, physical_offset: int, max_bytes: int) -> memoryview | None:
        """The raw bytes of the log from a place on, for a slave: at most ``max_bytes``, and not beyond a file; None if there are none."""
        ...

    def copied_from(self, physical_offset: int) -> list[int]:
        """The physical offsets of the waiting messages (of a delay level or a timer) whose copies are in the log from a place on."""
        ...

    def freeze(self, reason: StoreNotWritable | None) -> None:
        """Let every append raise ``reason`` from now on, whatever the state of the disk; None allows appends again. Reads continue."""
        ...

    def record_at(self, physical_offset: int) -> memoryview | None:
        """The record that begins at ``physical_offset``; None if none begins there (a client may have invented that offset)."""
        ...

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First kept offset; 0 for an unknown queue."""
        ...

    def max_offset(self, topic: str, queue_id: int) -> int:
        """One past the last offset, the offset the next append gets; 0 for an unknown queue."""
        ...

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, *, upper: bool = False) -> int:
        """First offset stored at or after ``timestamp_ms`` (max_offset if none); ``upper``: last offset stored at or before it."""
        ...

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Store timestamp (ms) of one message, -1 if it does not exist."""
        ...

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """Store timestamp (ms) of the first kept message, -1 if there is none."""
        ...

    def dispatch(self, max_records: int) -> int:
        """Add up to ``max_records`` records of the log to the index by key. Returns how many were read; 0 means that it is
        complete.

        A record with many keys, or with long properties, counts as several, so fewer may be read, but at least one. Raises
        StoreNotWritable: no space for an index file; the same records are tried again next time.
        """
        ...

    @property
    def undispatched_bytes(self) -> int:
        """How many bytes the index by key is behind the log; 0 without an index."""
        ...

    def find_by_key(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, *, index_type: str = ""
    ) -> IndexHits:
        """Records of ``topic`` whose UNIQ_KEY or one of whose KEYS is ``key`` (or, with ``index_type`` "T", whose TAGS are ``key``),
        stored between the two times; the newest ``max_count``.

        Keys are found by their hash: a hit may be of another key, and its record may have expired.
        """
        ...

    def queues(self) -> list[tuple[str, int]]:
        """(topic, queue_id) of every queue that was ever written, sorted."""
        ...

    def queue_ids(self, topic: str) -> Set[int]:
        """The ids of the queues of ``topic`` that were ever written."""
        ...

    def delete_topic(self, topic: str) -> int:
        """Delete the queues of ``topic`` and their files; returns how many. The records stay in the log until their file expires."""
        ...

    def clean(self, now_ms: int, *, any_hour: bool = False) -> int:
        """One retention round: delete expired commit log files and what pointed into them; returns how many log files were deleted.
        ``any_hour``: not only in the hours of ``delete_when``; for a request of an administrator."""
        ...

    damaged_bodies: DamagedBodies
    """Where bodies with a wrong checksum are reported."""

    has_lost_messages: bool
    """Whether the start accepted a loss of messages."""

    @property
    def min_physical_offset(self) -> int: ...

    @property
    def max_physical_offset(self) -> int: ...

    @property
    def flushed_offset(self) -> int:
        """Physical offset up to which everything is on the disk, so a power cut loses nothing before it."""
        ...

    def when_durable(self, physical_offset: int) -> concurrent.futures.Future[None]:
        """A future that is done once everything before ``physical_offset`` is on the disk, whatever ``flush_disk_type`` says. It
        fails with StoreNotWritable when the disk reported an error. It completes on the flush thread."""
        ...

    def flush(self) -> None:
        """Write everything to the disk now; blocks."""
        ...

    def close(self) -> None:
        """Flush and release. Does nothing if closed already; views that were returned stay readable."""
        ...
