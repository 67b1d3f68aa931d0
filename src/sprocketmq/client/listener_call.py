"""One call of a listener, concurrent or orderly: hooks around it, its answer read, whatever it raises caught (Java: ConsumeRequest.run).

Runs where the listener runs, in a worker thread or as a task. It changes nothing but the batch it was given, so it needs no lock: the
batch goes back to the loop, and the loop decides.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from sprocketmq.client.group import Consumption, Group
from sprocketmq.client.listener_signals import ListenerSignal
from sprocketmq.client.results import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus, ConsumeOrderlyContext
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.message import MessageExt

__all__ = ["ListenerCall"]

log = logging.getLogger("sprocketmq.client")

S = TypeVar("S")


class _Batch(Protocol[S]):
    """What a call works on; ``status``, ``failure`` and ``spent_s`` are its outcome."""

    messages: list[MessageExt]
    context: Any
    status: S | None
    failure: BaseException | None
    spent_s: float


class ListenerCall(Generic[S]):
    """How a service calls its listener.

    Args:
        listener: ``(messages, context)``, plain or ``async def``.
        read: turns an answer into a status, and says whether that answer is allowed at all.
        failed: the status of a call that raised.
        allowed, consequence: for the log: what a listener may answer, and what becomes of messages otherwise.
    """

    def __init__(
        self,
        group: Group,
        listener: Callable[[Sequence[MessageExt], Any], Any],
        *,
        read: Callable[[object], tuple[S, bool]],
        failed: S,
        allowed: str,
        consequence: str,
    ) -> None:
        self._group, self._listener = group, listener
        self._read, self._failed = read, failed
        self._allowed, self._consequence = allowed, consequence
        self._complained = False
        self.is_async = inspect.iscoroutinefunction(listener)
        self.closing = False

    def run(self, batch: _Batch[S]) -> None:
        """Call a plain listener."""
        consumption = self._begin(batch)
        started_s = time.perf_counter()
        try:
            batch.status = self._status(self._listener(batch.messages, batch.context))
        except BaseException as error:  # noqa: BLE001 - even SystemExit in a worker must not lose the batch
            batch.failure = error
        self._end(batch, consumption, started_s)

    async def run_async(self, batch: _Batch[S]) -> None:
        """Call an ``async def`` listener. Only the consumer's own end cancels it for good; any other cancellation is a failure."""
        consumption = self._begin(batch)
        started_s = time.perf_counter()
        try:
            batch.status = self._status(await self._listener(batch.messages, batch.context))
        except asyncio.CancelledError as error:
            if self.closing:
                raise
            batch.failure = error
        except BaseException as error:  # noqa: BLE001 - as above
            batch.failure = error
        self._end(batch, consumption, started_s)

    def _begin(self, batch: _Batch[S]) -> Consumption | None:
        if not self._group.hooks:
            return None
        context: ConsumeConcurrentlyContext | ConsumeOrderlyContext = batch.context
        started_ms = self._group.clock.now_ms()
        consumption = Consumption(self._group.name, context.message_queue, batch.messages, started_ms)
        for hook in self._group.hooks:
            _guarded(hook.before_consume, consumption)
        return consumption

    def _status(self, answer: object) -> S:
        status, allowed = self._read(answer)
        if not allowed and not self._complained:
            self._complained = True
            log.error(
                "group %s: the listener returned %r; %s is allowed, so %s (this is said once)",
                self._group.name, answer, self._allowed, self._consequence,
            )  # fmt: skip
        return status

    def _end(self, batch: _Batch[S], consumption: Consumption | None, started_s: float) -> None:
        batch.spent_s = time.perf_counter() - started_s
        if isinstance(batch.failure, ListenerSignal):
            batch.status = self._failed
            batch.context.follow(batch.failure)
            log.info("group %s: the listener raised %r", self._group.name, batch.failure)
        elif batch.failure is not None:
            batch.status = self._failed
            log.warning(
                "group %s: the listener raised %s: %s; of %d message(s) from %s, %s",
                self._group.name,
                type(batch.failure).__name__,
                batch.failure,
                len(batch.messages),
                batch.context.message_queue,
                self._consequence,
                exc_info=batch.failure if log.isEnabledFor(logging.DEBUG) else None,
            )
        if consumption is not None:
            consumption.status, consumption.failure = batch.status, batch.failure
            for hook in reversed(self._group.hooks):
                _guarded(hook.after_consume, consumption)


def _guarded(hook: Callable[[Consumption], None], consumption: Consumption) -> None:
    try:
        hook(consumption)
    except Exception:
        log.exception("a consume hook failed")
