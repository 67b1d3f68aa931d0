# SPDX-License-Identifier: Apache-2.0
"""The calls of a running pull consumer to the part that hands out its messages by ``poll``; a push consumer has no watcher."""

from __future__ import annotations

from typing import Protocol

from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["QueueWatcher"]


class QueueWatcher(Protocol):
    """All methods are called on the consumer's loop and must not block."""

    def queue_added(self, process_queue: ProcessQueue, offset: int) -> None:
        """Pulling begins at ``offset``."""
        ...

    def skipped(self, process_queue: ProcessQueue, offset: int) -> None:
        """Nothing is cached and the filter left out everything before ``offset``; the watcher decides about progress."""
        ...

    def paused(self, queue: MessageQueue) -> bool:
        """Whether this queue is paused."""
        ...

    def full(self) -> bool:
        """Whether so many messages wait that pulling has to stop."""
        ...

    def changed(self, topic: str) -> None:
        """A rebalance changed this member's queues of ``topic``."""
        ...
