# SPDX-License-Identifier: Apache-2.0
"""A started producer: its parts, and how they start and stop (Java: DefaultMQProducerImpl)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.async_client import in_order
from sprocketmq.client.hooks import Hooks
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.client.remoting.sender import Sender
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.send_settings import SendSettings

if TYPE_CHECKING:
    from sprocketmq.client.observe.trace import MessageTrace
    from sprocketmq.client.produce.batch_accumulator import BatchAccumulator
    from sprocketmq.client.produce.transaction_checks import CheckCallback, TransactionChecks
    from sprocketmq.core.transactions.open_transactions import OpenTransactions

log = logging.getLogger("sprocketmq.client")

# LatencyFaultToleranceImpl.startDetector
_DETECT_ROUND_MS: Final = 3_000


class RunningProducer:
    """The parts of one started producer. Belongs to its loop. ``group`` is without the namespace; ``settings.group`` is the name at
    the brokers. ``begun`` has the sends of ``send_async``, for which no caller may be waiting; only a transactional producer has
    ``checks``."""

    def __init__(self, options: ClientOptions, settings: SendSettings, group: str, hooks: Hooks) -> None:
        self._options, self._settings, self._group, self._hooks = options, settings, group, hooks
        self.instance = ClientInstance.acquire(options, options.client_id())
        self.sender: Sender | None = None
        self.batches: BatchAccumulator | None = None  # None without auto_batch
        self.checks: TransactionChecks | None = None
        self.trace: MessageTrace | None = None
        self.begun: set[asyncio.Future[Any]] = set()
        self._detector: asyncio.Task[None] | None = None
        self._check: tuple[CheckCallback, OpenTransactions, int] | None = None

    def check_with(self, check: CheckCallback, transactions: OpenTransactions, workers: int) -> None:
        """Before ``start``: let ``check`` answer the brokers' checks, ``workers`` at once."""
        self._check = check, transactions, workers

    @property
    def runs_caller(self) -> bool:
        return self.checks is not None and self.checks.runs_caller

    async def start(self) -> None:
        instance, settings, hooks = self.instance, self._settings, self._hooks
        self.sender = sender = instance.add_sender(settings, self._options)
        sender.client_id = instance.client_id
        if self._options.enable_trace:
            from sprocketmq.client.observe.trace import MessageTrace  # imported only if messages are traced

            self.trace = MessageTrace(instance, self._options, self._group, "PRODUCE")
            hooks = hooks.with_hook(self.trace)
        sender.hooks = hooks if hooks else None
        if self._check is not None:
            from sprocketmq.client.produce.transaction_checks import TransactionChecks  # imported only for transactions

            self.checks = TransactionChecks(instance, settings.group, self._options.namespace, *self._check)
            self.checks.hooks = sender.hooks
        if settings.auto_batch:
            from sprocketmq.client.produce.batch_accumulator import BatchAccumulator  # imported only with auto_batch

            self.batches = BatchAccumulator(sender, instance)
        if settings.send_latency_fault_enable and settings.start_detector_enable:
            self._detector = instance.spawn(self._detect(sender))
        if settings.topics:
            # Failures are logged; the next try is in 30 s.
            await instance.cluster.routes.refresh_all(sender.queue_choice.topics)
            await instance.heartbeats.send_to_all()

    @property
    def unanswered_count(self) -> int:
        return len(self.begun) + (self.batches.unanswered_count if self.batches is not None else 0)

    async def flush(self) -> None:
        """Wait until every asynchronous send that began before this call is answered or has failed."""
        begun = set(self.begun)
        if self.batches is not None:
            await self.batches.flush()
        if begun:
            await asyncio.wait(begun)

    async def stop(self) -> None:
        if self.instance.is_inherited:
            return  # a forked child has nothing to stop: tasks and connections are the parent's
        await in_order(self._end_checks, self.flush, self._end_batches, self._end_trace, self._leave, self._release)

    async def _release(self) -> None:
        await self.instance.release(self._options)

    async def _end_checks(self) -> None:
        if self.checks is not None and not await self.checks.close():
            log.warning("group %s: a check still runs, the broker will ask again", self._group)

    async def _end_batches(self) -> None:
        if self._detector is not None:
            self._detector.cancel()
        if self.batches is not None:
            await self.batches.close()

    async def _end_trace(self) -> None:
        if self.trace is not None:
            await self.trace.close()

    async def _leave(self) -> None:
        if self.sender is not None:
            await self.instance.remove_sender(self._settings.group)

    async def _detect(self, sender: Sender) -> None:
        while True:
            await self._options.clock.sleep(_DETECT_ROUND_MS)
            await sender.queue_choice.detect()
