# SPDX-License-Identifier: Apache-2.0
"""All consume queues of a store, in ``consumequeue/TOPIC/QUEUE_ID/``. Java: queue.ConsumeQueueStore."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Set

from sprocketmq.core.descriptor_budget import MAPPING_TAKES_ONE, descriptor_shares
from sprocketmq.errors import ConfigurationError, StoreCorrupt
from sprocketmq.store.files.mapped_file import sync_directory, sync_file_system
from sprocketmq.store.files.mapped_file_queue import MappedFileQueue
from sprocketmq.store.files.paths import is_folder_name, path_below, remove_below
from sprocketmq.store.queue.consume_queue import ConsumeQueue, MappedBudget
from sprocketmq.store.store_config import StoreConfig

_log = logging.getLogger("sprocketmq.store")

_MANY_QUEUES = 256  # from here on one syncfs is cheaper than a sync for each queue
_ENOUGH_MAPPINGS = 16_384  # Linux allows 65,530 mappings to a process by default


class ConsumeQueueTable:
    """A queue is created with its first record. The append path reads ``queues`` directly. ``directory=None``: in memory."""

    def __init__(self, directory: str | None, config: StoreConfig, *, read_only: bool = False) -> None:
        self.directory, self.read_only = directory, read_only
        self.file_size_bytes = config.mapped_file_size_consume_queue
        self.are_extended = config.enable_consume_queue_ext
        limit = config.max_mapped_queue_files
        self.budget = MappedBudget(_mapping_limit() if limit is None else limit)
        self.queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._ids: dict[str, set[int]] = {}  # by topic
        self.empty_folders: list[tuple[str, int]] = []  # found by ``load``

    def open(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Created if it does not exist. Raises ConfigurationError: the topic cannot be the name of a folder."""
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            if not is_folder_name(topic) or queue_id < 0:
                raise ConfigurationError(
                    f"topic {topic!r}, queue {queue_id} cannot be stored; a topic has 1 to 127 characters out of "
                    "% | a-z A-Z 0-9 _ -, a queue id is not negative"
                )
            queue = self._add(topic, queue_id, self._named(topic, queue_id))
        return queue

    def _add(self, topic: str, queue_id: int, queue: ConsumeQueue) -> ConsumeQueue:
        self.queues[topic, queue_id] = queue
        self._ids.setdefault(topic, set()).add(queue_id)
        return queue

    def ids(self, topic: str) -> Set[int]:
        return self._ids.get(topic, frozenset())

    def _named(self, topic: str, queue_id: int) -> ConsumeQueue:
        folder = None if self.directory is None else path_below(self.directory, topic, str(queue_id))
        files = MappedFileQueue(
            folder,
            self.file_size_bytes,
            "mappedFileSizeConsumeQueue",
            folders_above=3,  # topic, consumequeue, and the store directory, which holds the name of consumequeue
            read_only=self.read_only,
        )
        queue = ConsumeQueue(topic, queue_id, files, self.budget)
        if self.are_extended:
            queue.topic_part = b""  # each append takes the general way, which writes the extension
        return queue

    def load(self) -> None:
        if self.directory is None or not os.path.isdir(self.directory):
            return
        for topic in sorted(os.listdir(self.directory)):
            folder = os.path.join(self.directory, topic)
            if not os.path.isdir(folder):
                continue
            if not is_folder_name(topic):
                _log.warning("%r is not a valid topic name: the folder is left alone", folder)
                continue
            for queue_id in os.listdir(folder):
                if queue_id.isdigit():
                    queue = self._named(topic, int(queue_id))
                    try:
                        queue.load()
                    except StoreCorrupt as error:
                        raise StoreCorrupt(
                            f"{error}; or move {self.directory} away: all queues are rebuilt from the log"
                        ) from error
                    if queue.files.files:
                        self._add(topic, int(queue_id), queue)
                    else:
                        self.empty_folders.append((topic, int(queue_id)))

    def delete_topic(self, topic: str) -> int:
        keys = [(topic, queue_id) for queue_id in self.ids(topic)]
        self.delete_queues(keys)
        return len(keys)

    def delete_queues(self, keys: Collection[tuple[str, int]]) -> None:
        """The folder of a topic is deleted with its last queue."""
        if not keys:
            return
        for key in keys:
            self.queues[key].delete()  # if the disk refuses, the queue stays, and this can be tried again
            del self.queues[key]
            self._ids[key[0]].discard(key[1])
        for topic in {topic for topic, _ in keys}:
            if not self._ids[topic]:
                del self._ids[topic]
                if self.directory is not None:
                    remove_below(self.directory, topic)

    def delete_empty_folders(self) -> None:
        """Recovery: folders of queues that have no file; one with a foreign file stays."""
        for topic, queue_id in self.empty_folders:
            if self.directory is not None:
                with contextlib.suppress(OSError):
                    os.rmdir(path_below(self.directory, topic, str(queue_id)))
        self.empty_folders = []

    def totals(self) -> tuple[int, int]:
        """(queues with entries, sum of their ends), for ``QueueTotals``. Any thread may call it."""
        ends = [queue.max_offset for queue in list(self.queues.values()) if queue.max_offset]
        return len(ends), sum(ends)

    def totals_before(self, log_end: int) -> tuple[int, int]:
        ends = []
        for queue in self.queues.values():
            end, first = queue.max_offset, queue.first_offset
            if end > first and queue.unit(end - 1)[0] >= log_end:
                end = queue.first_from(log_end, first)
            if end:
                ends.append(end)
        return len(ends), sum(ends)

    def sum_of_begins(self) -> int:
        return sum(queue.files.start for queue in self.queues.values() if queue.max_offset)

    def dirty(self) -> list[ConsumeQueue]:
        return [queue for queue in list(self.queues.values()) if queue.max_offset != queue.flushed_offset]

    def sync(self, queues: list[ConsumeQueue] | None = None) -> None:
        """Flush thread: write the units so far of ``queues`` (default: all) to the disk."""
        dirty = [(queue, queue.max_offset) for queue in (self.dirty() if queues is None else queues)]
        if len(dirty) > _MANY_QUEUES and self.directory is not None and sync_file_system(self.directory):
            for queue, end in dirty:
                queue.flushed_offset = end
            return
        directories: dict[str, None] = {}
        try:
            for queue, _ in dirty:
                directories.update(dict.fromkeys(queue.files.take_new_directories()))
                queue.sync()
            for directory in directories:
                sync_directory(directory)
        except OSError:
            for queue, _ in dirty:
                queue.files.new_files = True  # the names of their files may not be on the disk yet
            raise

    def unmap(self) -> None:
        for queue in self.queues.values():
            queue.unmap()


def _mapping_limit() -> int:
    if not MAPPING_TAKES_ONE:
        return _ENOUGH_MAPPINGS
    try:
        import resource
    except ImportError:  # Windows has enough handles
        return _ENOUGH_MAPPINGS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _ENOUGH_MAPPINGS
    # An eighth as many for files that are read, see MappedBudget.
    return max(1, min(_ENOUGH_MAPPINGS, descriptor_shares(soft).mapped_files * 8 // 9))
