# SPDX-License-Identifier: Apache-2.0
"""A message store without a disk, for tests and temporary brokers: the same code and the same record bytes, in anonymous memory."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Collection, Mapping

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store.message_store import NO_TOPICS, StoreConfig
from sprocketmq.store.queue.unit import UNIT_SIZE_BYTES
from sprocketmq.store.queue_log_store import QueueLogStore

_CONFIG = StoreConfig(mapped_file_size_commit_log=64 << 20, mapped_file_size_consume_queue=3_000 * UNIT_SIZE_BYTES)


class MemoryMessageStore(QueueLogStore):
    """See ``message_store.MessageStore``. Every message counts as durable at once; ``close`` deletes all.

    Args:
        config: default: 64 MiB log files, small queue files; memory is taken as it is written.
    """

    def __init__(self, config: StoreConfig | None = None) -> None:
        super().__init__(config or _CONFIG, None, None)

    def load(self, deleted_topics: Mapping[str, int] = NO_TOPICS, known_topics: Collection[str] | None = None) -> None:
        self.refuse_appends(None)

    @property
    def flushed_offset(self) -> int:
        return self.max_physical_offset

    def when_durable(self, physical_offset: int) -> concurrent.futures.Future[None]:
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        future.set_result(None)
        return future

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.refuse_appends(StoreNotWritable("the store is closed; start the broker again"))
