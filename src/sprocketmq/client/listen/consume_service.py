# SPDX-License-Identifier: Apache-2.0
"""What a running consumer asks of the service that gets its messages (Java: ConsumeMessageService)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.wire.records.message import MessageExt


class ConsumeService:
    """Takes the messages of one consumer; all methods belong to its loop. What is here is that of a service that calls no listener.
    ``runs_caller``: the caller is a listener that ``close`` waits for. ``cut_off``: the messages of calls that ``close`` left
    running."""

    orderly: ClassVar[bool] = False
    runs_caller = False
    consume_timeout_ms = 0
    cut_off: Sequence[MessageExt] = ()

    def start(self) -> None:
        """Before the first message."""

    def submit(self, process_queue: ProcessQueue) -> None:
        raise NotImplementedError

    def resize(self, workers: int) -> None:
        """Run so many listener calls at once."""

    def set_consume_timeout_ms(self, limit_ms: int) -> None:
        """From now on, also for running calls; 0 means none."""

    def record_ended(self) -> None:
        """Record the progress of the calls that have ended. Called before progress is written, and before a queue is dropped."""

    def running_since_ms(self) -> list[int]:
        """Of listener calls: when they began, by ``steady_ms``."""
        return []

    async def consume_directly(self, messages: Sequence[MessageExt]) -> Any:
        """Run the listener once, without an effect on progress and retries. Returns a ListenerBatch."""
        raise NotImplementedError

    async def close(self, timeout_ms: float) -> bool:
        """Start no more listener calls, and wait for those that run; False if ``timeout_ms`` was not enough."""
        raise NotImplementedError
