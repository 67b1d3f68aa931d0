"""Telling brokers who we are, each for itself (Java: MQClientInstance.sendHeartbeatToAllBrokerWithLock, sendHeartbeatToBroker).

    to_all, to --+            +--> broker-a: one under way, one behind it for all who asked meanwhile
    soon --pace--+--> lanes --+--> broker-b: the same, whatever becomes of broker-a's

Laws
1. One heartbeat at a time to a broker: two that overtake each other would leave it with the older subscription.
2. Who asks gets a heartbeat that begins after that, and says what is true then. All who ask while one is under way share the next.
3. A broker that does not answer holds up the heartbeats to no other one. Each has the time of one request.
4. Who left waits for the heartbeat under way (``over``) before it says so: that one still names it, and would register it again. One that
   begins later does not name it.
5. ``soon`` begins at most one round a second: 256 queues whose pulls fail because a broker has forgotten us are one wish.
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
        """Tell all brokers soon, without waiting for them."""
        self._soon.soon()

    def close(self) -> None:
        self._soon.close()

    async def send_to_all(self) -> None:
        """Tell all brokers, and wait until each has answered or failed; failures are logged, once per silence."""
        if begun := [self.begin(address) for address in self._targets()]:
            await asyncio.wait(begun)

    async def send_to(self, address: str) -> None:
        """Tell one broker, and wait until it has answered or failed."""
        await asyncio.wait([self.begin(address)])

    def begin(self, address: str) -> asyncio.Task[None]:
        """A heartbeat to one broker that has not begun yet; its task never fails."""
        lane = self._lanes.get(address)
        if lane is None:
            task = self._spawn(self._tell(address))
            self._lanes[address] = _Lane(task)
            return task
        if lane.following is None:
            lane.following = self._spawn(self._tell_after(address, lane))
        return lane.following

    @property
    def under_way(self) -> set[str]:
        """The brokers that are being told now."""
        return set(self._lanes)

    async def wait_for(self, address: str) -> None:
        """Wait until the heartbeat that is under way to this broker has been answered or has failed."""
        lane = self._lanes.get(address)
        if lane is not None:
            await asyncio.wait([lane.under_way])

    async def _begin_all(self) -> None:
        for address in self._targets():
            self.begin(address)

    async def _tell_after(self, address: str, lane: _Lane) -> None:
        await asyncio.wait([lane.under_way])
        assert lane.following is not None
        lane.under_way, lane.following = lane.following, None
        await self._tell(address)

    async def _tell(self, address: str) -> None:
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
