# SPDX-License-Identifier: Apache-2.0
"""Settings of a store. Java: config.MessageStoreConfig."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from sprocketmq.core.retry.retry_schedule import DEFAULT_DELAY_LEVELS
from sprocketmq.errors import ConfigurationError
from sprocketmq.store.queue.unit import UNIT_SIZE_BYTES


class FlushDiskType(enum.Enum):
    """When an append counts as durable. Java: config.FlushDiskType."""

    ASYNC_FLUSH = "ASYNC_FLUSH"  # at once: survives kill -9, the disk follows within flush_interval_commit_log_ms
    SYNC_FLUSH = "SYNC_FLUSH"  # after fdatasync: survives power loss; many waiters share one fdatasync


@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """Names are Apache's MessageStoreConfig keys in snake_case, defaults are Apache's.

    Attributes:
        mapped_file_size_commit_log: bytes. A directory keeps the size it was made with.
        mapped_file_size_consume_queue: bytes, a multiple of a unit's 20.
        store_path_commit_log: folder of the commit log; None = ``commitlog`` inside the store directory.
        max_message_size: largest body in bytes.
        accept_store_loss: start although files of the log or tables are missing, without the messages that were in them.
        message_delay_level: the broker's delay levels; recovery needs them to rebuild entries of SCHEDULE_TOPIC_XXXX.
        file_reserved_time: hours a full commit log file is kept; ``delete_when``: hours of the day for deleting, ";" separated.
        disk_max_used_space_ratio: from this use of the disk in percent, expired files go at any hour.
        disk_space_clean_forcibly_ratio: from this use unexpired files go, oldest first, if ``clean_file_forcibly_enable``.
        disk_space_warning_level_ratio: from this use the store refuses appends.
        max_mapped_queue_files: consume queue files kept mapped; None = from the process's limit on open files.
        max_hash_slot_num, max_index_num: slots and entries of one file of the index by key. A directory keeps the numbers it was made with.
        max_msgs_num_batch: most records that a query by key finds.
        enable_consume_queue_ext: also write the extension of each queue entry.
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
