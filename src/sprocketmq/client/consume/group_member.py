# SPDX-License-Identifier: Apache-2.0
"""One consumer as a member of its group: what its parts share, such as names, settings, progress, and sending messages back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from sprocketmq.client.consume.offset_store import OffsetStore
from sprocketmq.client.consume.send_back import SendBack
from sprocketmq.client.hooks import Hooks
from sprocketmq.client.listen.stuck_listener import StuckListenerCallback
from sprocketmq.client.settings.namespace import unwrap
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.statistics import ConsumerStatistics
from sprocketmq.net.process.clock import Clock
from sprocketmq.wire.records.message import MessageExt

if TYPE_CHECKING:
    from sprocketmq.core.replay.decision_tape import Tape

C = TypeVar("C", bound=Callable[..., Any])


class GroupMember(msgspec.Struct):
    """Shared by the services, pull loops and rebalancer of one consumer.

    Attributes:
        lock_queue: asks the broker for the lock of a queue again; whether it was granted.
        settled: called when messages of a queue have left its process queue.
        max_delay_level: the highest delay level of the brokers.
        namespace: the prefix of names of topics and groups at the brokers; None without.
        tape: records decisions (option ``record``).
        last_failure: time and text of the last exception of a listener, for administrators.
    """

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
    namespace: str | None = None
    tape: Tape | None = None
    stuck_callbacks: list[StuckListenerCallback] = msgspec.field(default_factory=list)
    last_failure: tuple[int, str] | None = None

    @property
    def own_name(self) -> str:
        """The name of the group without the namespace."""
        return unwrap(self.namespace, self.name)

    @property
    def clustering(self) -> bool:
        return self.settings.clustering

    def recorded(self, decides: C) -> C:
        """``decides``, a class of machines of ``core`` or a pure decision, as the parts of this consumer use it."""
        return decides if self.tape is None else self.tape.recorded(decides)


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
        """Take up the pending messages of ``process_queue``."""
        ...

    def resize(self, workers: int) -> None: ...

    def record_ended(self) -> None:
        """Record the progress of the calls that have ended. Called before progress is written, and before a queue is dropped."""
        ...

    def running_since_ms(self) -> list[int]:
        """When each listener call that runs began, milliseconds of the clock."""
        ...

    async def consume_directly(self, messages: Sequence[MessageExt]) -> Any:
        """Run the listener once, without an effect on progress and retries. The result has ``status``, ``failure`` and ``context``."""
        ...

    cut_off: list[MessageExt]
    """The messages of the listener calls that still ran at the end of ``close``."""

    async def close(self, timeout_ms: float) -> bool:
        """Start no more listener calls and wait for those that run; False if some still run after ``timeout_ms``."""
        ...
