# SPDX-License-Identifier: Apache-2.0
"""What the parts of one consumer share: who it is, its settings, its progress, its way back to the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from sprocketmq.client.group.offset_store import OffsetStore
from sprocketmq.client.group.send_back import SendBack
from sprocketmq.client.group.stuck_listener import StuckListenerCallback
from sprocketmq.client.hooks import Hooks
from sprocketmq.client.settings.namespace import unwrap
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.statistics import ConsumerStatistics
from sprocketmq.net.process.clock import Clock
from sprocketmq.wire.records.message import MessageExt

if TYPE_CHECKING:
    from sprocketmq.core.replay.decision_tape import Tape

__all__ = ["ConsumeService", "Group"]


class Group(msgspec.Struct):
    """Belongs to one consumer; its services, pull loops and rebalance all hold it."""

    name: str
    client_id: str
    settings: PushSettings
    clock: Clock
    offset_store: OffsetStore
    send_back: SendBack
    statistics: ConsumerStatistics
    lock_queue: Callable[[ProcessQueue], Awaitable[bool]]
    settled: Callable[[ProcessQueue], None]
    hooks: Hooks = msgspec.field(default_factory=Hooks)
    max_delay_level: int = 18
    namespace: str | None = None  # stands before the names of topics as brokers know them
    tape: Tape | None = None  # where decisions are recorded (record=): makes the machines, which then tell what they do
    stuck_callbacks: list[StuckListenerCallback] = msgspec.field(default_factory=list)
    last_failure: tuple[int, str] | None = None  # when a listener raised last, and what; told to administrators

    @property
    def own_name(self) -> str:
        """The name without the namespace, as its user knows it."""
        return unwrap(self.namespace, self.name)

    @property
    def clustering(self) -> bool:
        return self.settings.clustering


class ConsumeService(Protocol):
    """Concurrent or orderly consumption (Java: ConsumeMessageService). All methods belong to the loop."""

    @property
    def orderly(self) -> bool: ...

    @property
    def runs_caller(self) -> bool:
        """Whether the caller is a listener that ``close`` waits for."""
        ...

    def start(self) -> None: ...

    def submit(self, process_queue: ProcessQueue) -> None:
        """Messages are pending in ``process_queue``."""
        ...

    def resize(self, workers: int) -> None: ...

    def record_ended(self) -> None:
        """Record progress of the calls that have ended, also beside one that runs: it is about to be written or given up."""
        ...

    async def consume_directly(self, messages: Sequence[MessageExt]) -> Any:
        """Run the listener once, without any effect; the result has ``status``, ``failure`` and ``context``."""
        ...

    async def close(self, timeout_ms: float) -> bool:
        """Start no more listener calls and wait for those that run; False when some still ran after ``timeout_ms``."""
        ...
