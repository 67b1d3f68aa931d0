# SPDX-License-Identifier: Apache-2.0
"""Retention: deleting old files. Java: DefaultMessageStore.CleanCommitLogService, CleanConsumeQueueService.

A commit log file has expired if its youngest message (about: the first of the next file) is older than ``file_reserved_time``
hours. The file that is being written is never deleted. Expired files go in the hours of ``delete_when``, or at any hour if the disk
is fuller than ``disk_max_used_space_ratio``; above ``disk_space_clean_forcibly_ratio`` the oldest file goes even if it has not
expired; above ``disk_space_warning_level_ratio`` the store refuses appends. Queue and index files that point only before the first
kept record go too, except the last file of each.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import logging
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sprocketmq.core.quantities import counted
from sprocketmq.errors import StoreNotWritable
from sprocketmq.store.queue.unit import UNIT

if TYPE_CHECKING:
    from sprocketmq.store.message_store import MessageStore

log = logging.getLogger("sprocketmq.store")


class Retention:
    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._disk_full: StoreNotWritable | None = None
        self._has_left = False  # files that the disk did not delete

    @property
    def disk_full(self) -> bool:
        """Whether appends are refused only because the disk is nearly full."""
        return self._disk_full is not None and self._store.refusal is self._disk_full

    def disk_used_percent(self) -> float:
        """Of the commit log's or the queues' disk, whichever is fuller; 0 for a store in memory."""
        store = self._store
        directories = {store.commit_log.files.directory, store.consume_queues.directory}
        return max(
            (_used_percent(path) for path in directories if path is not None and os.path.isdir(path)), default=0.0
        )

    def clean(self, now_ms: int, *, any_hour: bool = False) -> int:
        config, files = self._store.config, self._store.commit_log.files
        used = self.disk_used_percent()
        hour = datetime.datetime.fromtimestamp(now_ms / 1000).astimezone().hour
        any_hour = any_hour or used > config.disk_max_used_space_ratio
        forced = config.clean_file_forcibly_enable and used > config.disk_space_clean_forcibly_ratio
        may_expire = any_hour or hour in _hours(config.delete_when)
        deleted = expired = 0
        while deleted < config.delete_file_batch_max and len(files.files) > 1:
            if not (forced or (may_expire and self._first_is_expired(now_ms))):
                break
            if files.files[1].start > self._store.commit_log.start:
                break
            if not self._note_begin(files.files[1].start):
                break
            expired += may_expire and self._first_is_expired(now_ms)
            with self._said():
                if files.delete_first():
                    deleted += 1
                    continue
            break
        if deleted > expired:
            self._store.troubles.failed(
                "forced",
                "%s deleted that had not expired, because the disk is %.0f%% full (diskSpaceCleanForciblyRatio: %d); the log begins at %d",
                counted(deleted - expired, "commit log file was", "commit log files were"),
                used,
                config.disk_space_clean_forcibly_ratio,
                files.start,
            )
        elif deleted:
            log.info("%s deleted, which had expired", counted(deleted, "commit log file was", "commit log files were"))
        if deleted or self._has_left:
            self._has_left = False
            for queue in self._store.consume_queues.queues.values():
                with self._said():
                    queue.clean(files.start)
                    first = queue.unit_bytes(queue.min_offset, 1)
                    if first:
                        self._store.extension.clean(queue.topic, queue.queue_id, UNIT.unpack(first)[2])
            with self._said():
                self._store.index.clean(files.start)
        self._watch_disk(self.disk_used_percent() if forced else used)
        return deleted

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """A file that the disk does not delete: the next round tries again, and the other files go."""
        try:
            yield
        except StoreNotWritable as error:
            self._has_left = True
            self._store.troubles.failed("old files", "%s", error)

    def _note_begin(self, physical_offset: int) -> bool:
        """Before files are deleted, or a start after a crash would miss them. False: they must stay."""
        checkpoint = self._store.checkpoint
        checkpoint.log_begin = physical_offset
        try:
            checkpoint.save()
        except StoreNotWritable as error:
            self._store.troubles.failed("checkpoint", "%s", error)
            # A full disk, on which no file can be written in place, must not keep retention from making room.
            return isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)
        return True

    def _first_is_expired(self, now_ms: int) -> bool:
        commit_log = self._store.commit_log
        following = commit_log.files.files[1]
        if following.start == commit_log.start and commit_log.at == 0:
            return False  # created in advance, no record yet
        youngest_ms = commit_log.store_timestamp_at(following.start)
        return youngest_ms + self._store.config.file_reserved_time * 3_600_000 < now_ms

    def _watch_disk(self, used: float) -> None:
        limit = self._store.config.disk_space_warning_level_ratio
        if used > limit and (self._store.refusal is None or self.disk_full):
            directory = self._store.commit_log.files.directory
            self._disk_full = StoreNotWritable(
                f"the disk of {directory} is {used:.0f}% full, appends are accepted up to {limit}%; "
                "free some space, lower fileReservedTime or raise diskSpaceWarningLevelRatio"
            )
            self._store.refuse_appends(self._disk_full)
            self._store.troubles.failed("disk", "sends are refused, pulls go on: %s", self._disk_full, lasts=True)
        elif used <= limit and self._disk_full is not None:
            if self._store.refusal is self._disk_full:
                self._store.refuse_appends(None)
                self._store.troubles.over("disk", "the disk is %.0f%% full: sends are taken again", used)
            self._disk_full = None


def _used_percent(path: str) -> float:
    usage = shutil.disk_usage(path)
    # Relative to the space for ordinary users: some is reserved for root. Java: UtilAll.getDiskPartitionSpaceUsedPercent.
    return 100.0 * usage.used / max(1, usage.used + usage.free)


def _hours(delete_when: str) -> set[int]:
    return {int(part) for part in delete_when.split(";") if part.strip().isdigit()}
