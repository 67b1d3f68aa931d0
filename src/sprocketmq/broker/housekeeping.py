# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks of a broker: write progress, and in rounds of 10 s remove silent clients and old files (Java: ClientHousekeepingService,
scheduled tasks of BrokerController and DefaultMessageStore)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.chunked_work import in_chunks
from sprocketmq.broker.service import Periodic

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker


_ROUND_INTERVAL_MS: Final = 10_000  # ClientHousekeepingService, and cleanResourceInterval


class Housekeeping:
    def __init__(self, broker: Broker) -> None:
        self._broker, self._clock = broker, broker.clock
        self._periodic: list[Periodic] = []
        self._sampling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        clock, config, save = self._clock, self._broker.config, self._broker.config_store
        self._periodic = [
            Periodic(clock, config.flush_consumer_offset_interval_ms, save.save_offsets),
            Periodic(clock, config.flush_delay_offset_interval_ms, save.save_delay_offsets),
            Periodic(clock, _ROUND_INTERVAL_MS, self._round),
        ]

    async def stop(self) -> None:
        for periodic in self._periodic:
            periodic.cancel()
        if self._sampling is not None:
            self._sampling.cancel()

    def _round(self) -> None:
        broker, config, now_ms = self._broker, self._broker.config, self._clock.now_ms()
        steady_ms = self._clock.steady_ms()  # for silence: setting the clock must not expire anything
        self._close_silent_clients(steady_ms)
        broker.consumers.forget_idle(now_ms, config.subscription_expired_timeout_ms)
        expiry_ms = broker.expiry_clock.now_ms()
        broker.filters.clean(expiry_ms, config.filter_data_clean_time_span_ms)
        broker.locks.sweep(steady_ms)
        broker.counters.sample(now_ms)
        if self._sampling is None or self._sampling.done():
            self._sampling = asyncio.get_running_loop().create_task(self._sample(now_ms))
        broker.store.clean(expiry_ms)
        broker.timers.note_log_growth()
        broker.config_store.retry()
        broker.request_modes.file.retry()
        broker.troubles.sweep()
        broker.store.troubles.sweep()

    async def _sample(self, now_ms: int) -> None:
        async for _ in in_chunks(self._broker.statistics.sampling(now_ms)):
            pass

    def _close_silent_clients(self, steady_ms: int) -> None:
        broker, timeout_ms = self._broker, self._broker.config.channel_expired_timeout_ms
        silent = [
            *broker.consumers.expired(steady_ms, timeout_ms),
            *broker.producers.expired(steady_ms, timeout_ms),
        ]
        for connection in dict.fromkeys(silent):
            address, sentence = connection.remote_address, "%s sent no heartbeat for %d ms, its connection is closed"
            broker.troubles.failed("silent clients", sentence, address, timeout_ms, of=address)
            connection.close()
            broker.connection_closed(connection)
