# SPDX-License-Identifier: Apache-2.0
"""What the two services that call a listener have in common: its pool, and the tasks that finish what a call began.

rebalance, pull loops --submit--> ConcurrentService | OrderlyService --> pool: ListenerCall --> _on_done, on the loop again
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from sprocketmq.client.listen.async_listener_pool import AsyncListenerPool
from sprocketmq.client.listen.listener_call import ListenerBatch, ListenerCall
from sprocketmq.client.listen.listener_pool import ListenerPool, T, run_in_own_thread
from sprocketmq.client.listen.message_stream import DemandPool, MessageStream
from sprocketmq.client.listen.thread_listener_pool import ThreadListenerPool
from sprocketmq.net.process.clock import watch
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.wire.records.message import MessageExt

if TYPE_CHECKING:
    from sprocketmq.client.consume.group_member import GroupMember

log = logging.getLogger("sprocketmq.client")


class ListenerService(ABC, Generic[T]):
    """Feeds one listener. Belongs to the loop; only ``_call``, ``_call_async`` and what they call run in workers. ``T`` is an item
    of the pool. ``stream``: the iteration that gets the messages; None for a listener."""

    orderly: ClassVar[bool]

    def __init__(self, group: GroupMember, listener: ListenerCall[Any], stream: MessageStream | None) -> None:
        self._group, self._clock, self._listener, self._stream = group, group.clock, listener, stream
        self._tasks = Tasks(log, f"group {group.name}: settling a delivery")
        self._pool: ListenerPool[T]
        self._closing = False
        self.cut_off: list[MessageExt] = []

    @abstractmethod
    def _call(self, item: T, origin: Any) -> T: ...

    @abstractmethod
    async def _call_async(self, item: T, origin: Any) -> T: ...

    @abstractmethod
    def _on_done(self, items: list[T], origin: Any, spent_s: float) -> None: ...

    @abstractmethod
    def _batch_of(self, messages: list[MessageExt]) -> ListenerBatch[Any]: ...

    def start(self) -> None:
        group = self._group
        workers, name, now_ms = group.settings.consume_thread_count, f"sprocketmq-{group.name}", self._clock.now_ms
        if self._stream is not None:
            self._pool = DemandPool(self._stream, self._call_async, self._on_done, workers, name, now_ms)
        elif self._listener.is_async:
            self._pool = AsyncListenerPool(self._call_async, self._on_done, workers, name, now_ms)
        else:
            self._pool = ThreadListenerPool(self._call, self._on_done, workers, name, now_ms)
        watch(self._clock, self._pool)

    @property
    def runs_caller(self) -> bool:
        return self._pool.runs_caller

    def resize(self, workers: int) -> None:
        self._pool.resize(workers)

    async def consume_directly(self, messages: Sequence[MessageExt]) -> ListenerBatch[Any]:
        """CONSUME_MESSAGE_DIRECTLY: run the listener once, without any effect on progress or retries."""
        batch = self._batch_of(list(messages))
        direct = self._listener.without_hooks()
        if direct.is_async:
            await direct.run_async(batch)
        else:
            await run_in_own_thread(lambda: direct.run(batch), f"sprocketmq-{self._group.name}-direct")
        return batch

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.keep(work, self._clock)
