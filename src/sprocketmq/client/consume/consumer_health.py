# SPDX-License-Identifier: Apache-2.0
"""The health of a push consumer, for the health check of a container, a service or a load balancer.

Only what a restart can repair is a problem. For a broker that is down, a lag, or failing listeners a restart would not help, and all
members would restart at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer


class ConsumerHealth(msgspec.Struct, frozen=True):
    """Whether a consumer works, as far as its own process can tell. ``problems``: a sentence each, for what a restart repairs.
    ``warnings``: what it does not: brokers that do not know the group, queues that they refuse, a client id that two members have.
    ``state``: "not started", "starting", "running", "stopping" or "shut down"."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    state: str = "running"

    @property
    def is_healthy(self) -> bool:
        """Whether it is running and has no problem."""
        return self.state == "running" and not self.problems


def health_of(consumer: RunningConsumer) -> ConsumerHealth:
    problems, steady_ms = [], consumer.clock.steady_ms()
    queues, consume_timeout_ms = consumer.rebalancer.table.active().values(), consumer.service.consume_timeout_ms
    silent = [] if consumer.paused else [queue for queue in queues if queue.is_pull_expired(steady_ms)]
    if silent:
        waited_s = (steady_ms - min(queue.last_pull_ms for queue in silent)) // 1000
        problems.append(
            f"{len(silent)} of {len(queues)} queues were not pulled for up to {waited_s} s, {silent[0].queue} for one"
        )
    if consume_timeout_ms > 0:
        began_ms = [at_ms for at_ms in consumer.service.running_since_ms() if steady_ms - at_ms >= consume_timeout_ms]
        if began_ms:
            longest_s = (steady_ms - min(began_ms)) // 1000
            problems.append(
                f"{len(began_ms)} listener calls run longer than the consume timeout of {consume_timeout_ms} ms, for up to {longest_s} s"
            )
    return ConsumerHealth(tuple(problems), tuple(consumer.warnings()))
