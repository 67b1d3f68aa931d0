"""Heartbeats to the brokers, each independent of the others (Java: MQClientInstance.sendHeartbeatToAllBrokerWithLock,
sendHeartbeatToBroker).

    send_to_all, send_to --+            +--> broker-a: one under way, one behind it for all later calls
    soon ------ pace ------+--> lanes --+--> broker-b: the same, independent of broker-a

Laws
1. One heartbeat at a time to a broker: two that overtake each other would leave it with the older subscription.
2. A call is followed by a heartbeat that begins after it, with the data of that moment. Calls during one heartbeat share the next.
3. A broker that does not answer does not delay heartbeats to others. Each has the timeout of one request.
4. A member that leaves waits for the heartbeat under way (``wait_for``) before it unregisters: that heartbeat still names the member and
   would register it again. Later ones do not name it.
5. ``soon`` begins at most one round a second, also when 256 pulls fail at once because a broker has forgotten this client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

import msgspec

from sprocketmq.client.remoting.api import RemotingApi
from sprocketmq.client.remoting.coalesced_work import CoalescedWork
from sprocketmq.errors import NetworkError, RemoteError, RequestTimeout
from sprocketmq.net.process.clock import Clock
from sprocketmq.wire import bodies

__all__ = ["Heartbeats"]

log = logging.getLogger("sprocketmq.client")

_MIN_INTERVAL_MS: Final = 1_000


class _Lane(msgspec.Struct):
    """The heartbeats to one broker."""

    under_way: asyncio.Task[None]
    following: asyncio.Task[None] | None = None


class Heartbeats:
    """Of one client instance; belongs to its loop.

    Args:
        targets: the brokers that have to hear of us now.
        data: who we are now.
        spawn: starts a task that ends with the instance.
    """

    def __init__(
        self,
        api: RemotingApi,
        clock: Clock,
        targets: Callable[[], Collection[str]],
        data: Callable[[], bodies.HeartbeatData],
        spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
    ) -> None:
        self._api, self._targets, self._data, self._spawn = api, targets, data, spawn
        self._lanes: dict[str, _Lane] = {}
        self._silent: set[str] = set()
        self._soon = CoalescedWork(clock, _MIN_INTERVAL_MS, self._begin_all, spawn)

    def soon(self) -> None:
        """Send heartbeats to all brokers soon, without waiting for them."""
        self._soon.soon()

    def close(self) -> None:
        self._soon.close()

    async def send_to_all(self) -> None:
        """Send heartbeats to all brokers and wait until each has answered or failed. Consecutive failures of a broker are logged once."""
        if begun := [self.begin(address) for address in self._targets()]:
            await asyncio.wait(begun)

    async def send_to(self, address: str) -> None:
        """Send a heartbeat to one broker and wait until it has answered or failed."""
        await asyncio.wait([self.begin(address)])

    def begin(self, address: str) -> asyncio.Task[None]:
        """The next heartbeat to one broker that has not begun yet; its task never fails."""
        lane = self._lanes.get(address)
        if lane is None:
            task = self._spawn(self._send(address))
            self._lanes[address] = _Lane(task)
            return task
        if lane.following is None:
            lane.following = self._spawn(self._send_after(address, lane))
        return lane.following

    @property
    def under_way(self) -> set[str]:
        """The brokers with a heartbeat under way."""
        return set(self._lanes)

    async def wait_for(self, address: str) -> None:
        """Wait until the heartbeat that is under way to this broker has been answered or has failed."""
        lane = self._lanes.get(address)
        if lane is not None:
            await asyncio.wait([lane.under_way])

    async def _begin_all(self) -> None:
        for address in self._targets():
            self.begin(address)

    async def _send_after(self, address: str, lane: _Lane) -> None:
        await asyncio.wait([lane.under_way])
        assert lane.following is not None
        lane.under_way, lane.following = lane.following, None
        await self._send(address)

    async def _send(self, address: str) -> None:
        try:
            await self._api.heartbeat(address, self._data())
            self._silent.discard(address)
        except (NetworkError, RemoteError, RequestTimeout) as error:
            if address not in self._silent:
                self._silent.add(address)
                log.warning("heartbeat to %s failed: %s", address, error)
        finally:
            if self._lanes[address].following is None:
                del self._lanes[address]
