"""What a broker does by the clock: offsets to the disk, silent clients out, old files away (Java: ClientHousekeepingService and the
scheduled tasks of BrokerController and DefaultMessageStore).

    each 5 s   consumerOffset.json, if something was committed (flushConsumerOffsetInterval)
    each 10 s  delayOffset.json, if something was delivered (flushDelayOffsetInterval)
    each 10 s  a round: clients without a heartbeat, idle subscriptions and filters, expired locks, statistics, retention
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.chunked_work import in_chunks
from sprocketmq.broker.service import Periodic

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker
    from sprocketmq.broker.settings.config_store import ConfigStore

__all__ = ["Housekeeping"]

log = logging.getLogger("sprocketmq.broker")

_BELIEVED_JUMP_MS: Final = 3_600_000
_ROUND_INTERVAL_MS: Final = 10_000  # ClientHousekeepingService, and cleanResourceInterval


class Housekeeping:
    """The periodic tasks of one broker, a part of it."""

    def __init__(self, broker: Broker, config_store: ConfigStore) -> None:
        self._broker, self._config_store = broker, config_store
        self._periodic: list[Periodic] = []
        self._told_of_jump = False
        self._sampling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        clock, config, save = self._broker.clock, self._broker.config, self._config_store
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
        broker, config, now_ms = self._broker, self._broker.config, self._broker.clock.now_ms()
        steady_ms = broker.clock.steady_ms()  # of what has been silent too long: a clock that is set must not end it
        self._close_silent_clients(steady_ms)
        broker.consumers.forget_idle(now_ms, config.subscription_expired_timeout_ms)
        believed_ms = self.believed_ms()
        broker.filters.clean(believed_ms, config.filter_data_clean_time_span_ms)
        broker.locks.sweep(steady_ms)
        broker.counters.sample(now_ms)
        if self._sampling is None or self._sampling.done():
            self._sampling = asyncio.get_running_loop().create_task(self._sample(now_ms))
        broker.store.clean(believed_ms)
        self._config_store.retry()
        broker.request_modes.retry()

    async def _sample(self, now_ms: int) -> None:
        async for _ in in_chunks(self._broker.statistics.sampling(now_ms)):
            pass

    def believed_ms(self) -> int:
        """The time by which files, filters and half messages expire. A clock set forward by mistake would end all of them at once."""
        now_ms, steady_ms = self._broker.clock.now_ms(), self._broker.clock.steady_ms()
        if now_ms <= steady_ms + _BELIEVED_JUMP_MS:
            self._told_of_jump = False
            return now_ms
        if not self._told_of_jump:
            self._told_of_jump = True
            log.warning(
                "the clock was set forward by %d s: until a restart files and half messages expire as if it were not; "
                "deleteExpiredCommitLog (code 329) deletes by the new time",
                (now_ms - steady_ms) // 1_000,
            )
        return steady_ms

    def _close_silent_clients(self, steady_ms: int) -> None:
        broker, timeout_ms = self._broker, self._broker.config.channel_expired_timeout_ms
        for connection in {
            *broker.consumers.expired(steady_ms, timeout_ms),
            *broker.producers.expired(steady_ms, timeout_ms),
        }:
            log.warning(
                "%s sent no heartbeat for %d ms, its connection is closed", connection.remote_address, timeout_ms
            )
            connection.close()
            broker.connection_closed(connection)
