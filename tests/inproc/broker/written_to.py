# SPDX-License-Identifier: Apache-2.0
"""A connection without a socket, and a broker behind one: what it writes and stores can be looked at."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from sprocketmq.broker import Broker
from sprocketmq.broker.tables.broker_identity import BrokerIdentity
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.wire.frames.command import Command, decode_command

NOW_MS = 1_795_276_800_000


class WrittenTo:
    """A connection's transport: keeps what was written to it, and reads nothing."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.written = b""
        self.closed = False
        self.host = host

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": (self.host, 45678), "sockname": ("127.0.0.1", 10911)}.get(name, default)

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def write(self, data: bytes) -> None:
        self.written += bytes(data)

    def writelines(self, chunks: list[bytes]) -> None:
        self.written += b"".join(chunks)

    def answers(self) -> list[Command]:
        found, at = [], 0
        while at < len(self.written):
            (length,) = struct.unpack_from(">i", self.written, at)
            found.append(decode_command(memoryview(self.written)[at + 4 : at + 4 + length]))
            at += 4 + length
        return found


class Side:
    """A broker in memory, with one connection to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.peer, self.broker = loop, WrittenTo(), Broker(clock=ManualClock(NOW_MS))
        self.broker.store.load()
        self.broker.identity = BrokerIdentity(self.broker.config, "127.0.0.1", 10911)
        self.broker.topics.create_if_absent("plain", 4, NOW_MS)
        self.connection = self.broker.ports.new_server()._new_connection()
        self._on_loop(self.connection.connection_made, self.peer)

    def _on_loop(self, call: Any, *given: Any) -> None:
        async def run() -> None:
            call(*given)
            for _ in range(3):
                await asyncio.sleep(0)

        self.loop.run_until_complete(run())

    def feed(self, data: bytes) -> WrittenTo:
        self._on_loop(self.connection.data_received, data)
        return self.peer

    def stored(self) -> list[Any]:
        """Queue, entry and record of each message."""
        store = self.broker.store
        return [
            (topic, queue_id, unit, bytes(store.record_at(unit.physical_offset) or b""))
            for topic, queue_id in store.queues()
            for unit in store.units(topic, queue_id, 0, 1 << 20)
        ]

    def tallies(self) -> dict[str, tuple[int, int]]:
        """How much was stored, by topic."""
        return {topic: (tally.messages, tally.bytes) for topic, tally in self.broker.counters.puts.items()}
