# SPDX-License-Identifier: Apache-2.0
"""Frames that a new broker reads without a socket, the same on each machine: what it answers, and what it holds then."""

from __future__ import annotations

import asyncio
from typing import Any

from inproc.broker.written_to import WrittenTo
from sprocketmq.broker import Broker, BrokerConfig
from sprocketmq.broker.service import Interceptor
from sprocketmq.broker.tables.broker_identity import BrokerIdentity
from sprocketmq.net.process.clock import ManualClock

NOW_MS = 1_795_276_800_000
_TOPICS = {"plain": 4, "wide": 20, "locked": 1, "golden": 4, "golden-questions": 4}
_TURNS_OF_THE_LOOP = 20


def play(
    loop: asyncio.AbstractEventLoop, host: str, reads: list[bytes], interceptor: Interceptor | None = None
) -> tuple[list[bytes], list[str]]:
    """Let a new broker read ``reads``, each in one piece; what it wrote for each of them, and what it holds then.

    Args:
        interceptor: stands in front of every request.
    """

    async def take() -> tuple[list[bytes], list[str]]:
        broker = _new_broker()
        broker.intercept = interceptor
        peer, answers = WrittenTo(host), []
        connection = broker.ports.new_server()._new_connection()
        connection.connection_made(peer)  # type: ignore[arg-type]
        for data in reads:
            peer.written = b""
            if not peer.closed:
                connection.data_received(data)
                for _ in range(_TURNS_OF_THE_LOOP):  # a parked pull is woken at the end of a turn
                    await asyncio.sleep(0)
            answers.append(peer.written + b"closed" * peer.closed)
        broker.parked.connection_closed(connection)
        return answers, _held(broker)

    return loop.run_until_complete(take())


def _new_broker() -> Broker:
    # The recording has no notices to members.
    broker = Broker(clock=ManualClock(NOW_MS), config=BrokerConfig(notify_consumer_ids_changed_enable=False))
    broker.store.load()
    identity = BrokerIdentity(broker.config, "127.0.0.1", 10911)
    identity._unique_key_prefix = "7F0000010000"
    identity._month_start_ms, identity._next_month_ms = NOW_MS - 1, 1 << 62  # no month of the local time zone
    broker.identity = identity
    for topic, queues in _TOPICS.items():
        broker.topics.create_if_absent(topic, queues, NOW_MS)
    return broker


def _held(broker: Broker) -> list[str]:
    """Log and queues, and what the requests left in the tables, one line each."""
    store, counters, offsets = broker.store, broker.counters, broker.offsets
    held = [f"log {store.max_physical_offset}"]
    for topic, queue_id in sorted(store.queues()):
        for unit in store.units(topic, queue_id, 0, 1 << 20):
            record = bytes(store.record_at(unit.physical_offset) or b"")
            held.append(f"{topic} {queue_id} {unit.physical_offset} {unit.tags_code} {record.hex()}")
    tallies: dict[Any, Any] = {**counters.puts, **counters.gets}
    held += sorted(f"count {key} {tally.messages} {tally.bytes} {tally.requests}" for key, tally in tallies.items())
    held += sorted(f"progress {key} {sorted(value.items())}" for key, value in offsets._committed.items())
    held += sorted(f"pulled {key} {value}" for key, value in offsets._pulled.items())
    return held
