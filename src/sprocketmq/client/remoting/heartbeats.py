# SPDX-License-Identifier: Apache-2.0
"""Heartbeats to the brokers, each independent of the others (Java: MQClientInstance.sendHeartbeatToAllBrokerWithLock,
sendHeartbeatToBroker).

Rules
1. One heartbeat at a time to a broker: two that overtake each other would leave it with the older subscription.
2. A call is followed by a heartbeat that begins after it, with the data of that moment. Calls during one heartbeat share the next.
3. A broker that does not answer does not delay heartbeats to others. Each has the timeout of one request.
4. A member that leaves waits for the heartbeat under way (``wait_for``) before it unregisters: that heartbeat still names the member and
   would register it again. Later ones do not name it.
5. ``soon`` begins at most one round a second, also when 256 pulls fail at once because a broker has forgotten this client.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.client.remoting.coalesced_work import CoalescedWork
from sprocketmq.errors import NetworkError, RemoteError, RequestTimeout
from sprocketmq.wire.requests.consumers import HEART_BEAT

if TYPE_CHECKING:
    from sprocketmq.client.remoting.instance import ClientInstance

_MIN_INTERVAL_MS: Final = 1_000


class _BrokerHeartbeats(msgspec.Struct):
    under_way: asyncio.Task[None]
    following: asyncio.Task[None] | None = None


class Heartbeats:
    """The heartbeats of one client instance. Belongs to its loop."""

    def __init__(self, instance: ClientInstance) -> None:
        self._cluster, self._spawn = instance.cluster, instance.spawn
        self._targets, self._data = instance.heartbeat_targets, instance.heartbeat_data
        self._by_broker: dict[str, _BrokerHeartbeats] = {}
        self._silent: set[str] = set()
        self._soon = CoalescedWork(instance.clock, _MIN_INTERVAL_MS, self._begin_all, instance.spawn)

    def soon(self) -> None:
        self._soon.soon()

    def close(self) -> None:
        self._soon.close()

    async def send_to_all(self) -> None:
        """Wait until each broker has answered or failed. Consecutive failures of a broker are logged once."""
        if begun := [self.begin(address) for address in self._targets()]:
            await asyncio.wait(begun)

    async def send_to(self, address: str) -> None:
        await asyncio.wait([self.begin(address)])

    def begin(self, address: str) -> asyncio.Task[None]:
        """The next heartbeat to one broker that has not begun yet; its task never fails."""
        broker = self._by_broker.get(address)
        if broker is None or (broker.under_way.done() and (broker.following is None or broker.following.done())):
            task = self._spawn(self._send(address))
            self._by_broker[address] = _BrokerHeartbeats(task)
            return task
        if broker.following is None or broker.following.done():  # done: cancelled by other code before it began
            broker.following = self._spawn(self._send_after(address, broker))
        return broker.following

    def reached(self) -> list[str]:
        """The brokers whose last heartbeat was answered, or has not been sent yet."""
        return [address for address in self._targets() if address not in self._silent]

    @property
    def under_way(self) -> set[str]:
        return set(self._by_broker)

    async def wait_for(self, address: str) -> None:
        broker = self._by_broker.get(address)
        if broker is not None:
            await asyncio.wait([broker.under_way])

    async def _begin_all(self) -> None:
        for address in self._targets():
            self.begin(address)

    async def _send_after(self, address: str, broker: _BrokerHeartbeats) -> None:
        await asyncio.wait([broker.under_way])
        if broker.following is not None:
            broker.under_way, broker.following = broker.following, None
        await self._send(address)

    async def _send(self, address: str) -> None:
        try:
            await self._cluster.ask(HEART_BEAT, at=address, body=self._data().encode())
            self._silent.discard(address)
        except (NetworkError, RemoteError, RequestTimeout) as error:
            self._silent.add(address)
            self._cluster.outages.failed("heartbeats", error, "heartbeat to %s failed: %s", address, error)
        finally:
            broker = self._by_broker.get(address)
            if broker is not None and broker.following is None:
                del self._by_broker[address]
