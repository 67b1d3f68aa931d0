"""What a broker does by the clock: offsets to the disk, silent clients out, old files away (Java: ClientHousekeepingService and the
scheduled tasks of BrokerController and DefaultMessageStore).

    each 5 s   consumerOffset.json, if something was committed (flushConsumerOffsetInterval)
    each 10 s  delayOffset.json, if something was delivered (flushDelayOffsetInterval)
    each 10 s  a round: clients without a heartbeat, idle subscriptions and filters, expired locks, statistics, retention
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.service import Periodic

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker
    from sprocketmq.broker.config_store import ConfigStore

__all__ = ["Housekeeping"]

log = logging.getLogger("sprocketmq.broker")

_ROUND_INTERVAL_MS: Final = 10_000  # ClientHousekeepingService, and cleanResourceInterval


class Housekeeping:
    """The periodic tasks of one broker, a part of it."""

    def __init__(self, broker: Broker, config_store: ConfigStore) -> None:
        self._broker, self._config_store = broker, config_store
        self._periodic: list[Periodic] = []

    async def start(self) -> None:
        clock, config, save = self._broker.clock, self._broker.config, self._config_store
        self._periodic = [
            Periodic(clock, config.flush_consumer_offset_interval_ms, lambda: save.save_offsets_beside(clock.now_ms())),
            Periodic(clock, config.flush_delay_offset_interval_ms, save.save_delay_offsets_beside),
            Periodic(clock, _ROUND_INTERVAL_MS, self._round),
        ]

    async def stop(self) -> None:
        for periodic in self._periodic:
            periodic.cancel()

    def _round(self) -> None:
        broker, config, now_ms = self._broker, self._broker.config, self._broker.clock.now_ms()
        self._close_silent_clients(now_ms)
        broker.consumers.forget_idle(now_ms, config.subscription_expired_timeout_ms)
        broker.filters.clean(now_ms, config.filter_data_clean_time_span_ms)
        broker.locks.sweep(now_ms)
        broker.counters.sample(now_ms)
        broker.statistics.sample(now_ms)
        broker.store.clean(now_ms)

    def _close_silent_clients(self, now_ms: int) -> None:
        broker, timeout_ms = self._broker, self._broker.config.channel_expired_timeout_ms
        for connection in {
            *broker.consumers.expired(now_ms, timeout_ms),
            *broker.producers.expired(now_ms, timeout_ms),
        }:
            log.warning(
                "%s sent no heartbeat for %d ms, its connection is closed", connection.remote_address, timeout_ms
            )
            connection.close()
            broker.connection_closed(connection)
