"""Telling the name servers what this broker has (Java: BrokerController.registerBrokerAll, BrokerOuterAPI).

The whole topic table is sent: at the start, each 30 s as a sign of life, and after each change of topics. A change while a registration is
on its way is sent when that one ends, so that name servers see every state at most one behind, and a burst of new topics costs two
registrations. A name server that cannot be reached is named in the log and tried again next time: the broker serves on without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from sprocketmq.broker.service import Periodic
from sprocketmq.errors import NetworkError, RequestTimeout, RocketMQError, remote_error
from sprocketmq.net.clock import Clock
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.wire.bodies import KVTable, RegisterBrokerBody, TopicConfigSerializeWrapper
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.command import request
from sprocketmq.wire.headers import RegisterBrokerRequestHeader, UnRegisterBrokerRequestHeader

__all__ = ["Registration"]

log = logging.getLogger("sprocketmq.broker")

_TIMEOUT_MS: Final = 6_000  # BrokerConfig.registerBrokerTimeoutMills of 4.9
_UNREGISTER_TIMEOUT_MS: Final = 3_000
_MASTER_ID: Final = 0


class Registration:
    """Keeps all name servers informed. ``start`` registers once before it returns; ``changed`` after each change of topics."""

    def __init__(
        self,
        clock: Clock,
        pool: ConnectionPool,
        name_servers: list[str],
        *,
        cluster_name: str,
        broker_name: str,
        address: str,
        period_ms: int,
        topics: Callable[[], TopicConfigSerializeWrapper],
        ha_address: Callable[[], str] = lambda: "",
        on_order_topics: Callable[[Collection[str]], None] = lambda topics: None,
    ) -> None:
        self._ha_address, self._on_order_topics = ha_address, on_order_topics
        self._clock, self._pool, self._topics = clock, pool, topics
        self.name_servers = name_servers
        self._cluster_name, self._broker_name, self._address = cluster_name, broker_name, address
        self._period_ms = period_ms
        self._task: asyncio.Task[None] | None = None
        self._round: asyncio.Future[None]  # ends with the registration that is on its way; made with the task
        self._wanted = self._done = 0  # changes so far, and how many of them the last registration that ended knew
        self._periodic: Periodic | None = None

    async def start(self) -> None:
        if not self.name_servers:
            return
        self._periodic = Periodic(self._clock, self._period_ms, self.changed)
        self.changed()
        await self.settled()

    def changed(self) -> None:
        """Register soon; returns at once."""
        if not self.name_servers:
            return
        self._wanted += 1
        if self._task is None or self._task.done():
            loop = asyncio.get_running_loop()
            self._round = loop.create_future()
            self._task = loop.create_task(self._run())
            self._task.add_done_callback(self._ended)

    async def settled(self) -> None:
        """Return when every reachable name server knows the topics as they are at this moment; registers anew if nothing is on its way."""
        if self._task is None or self._task.done():
            self.changed()
        wanted = self._wanted
        while self._done < wanted and self._task is not None and not self._task.done():
            await asyncio.shield(self._round)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task is self._task and not self._round.done():  # it was cancelled within its round
            self._round.set_result(None)

    async def stop(self) -> None:
        """Unregister everywhere, so that clients stop coming at once instead of after 120 s."""
        if self._periodic is not None:
            self._periodic.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        header = UnRegisterBrokerRequestHeader(
            broker_name=self._broker_name,
            broker_addr=self._address,
            cluster_name=self._cluster_name,
            broker_id=_MASTER_ID,
        )
        # Only where a connection is open: a name server that is gone need not be told, and must not hold up a stop.
        await asyncio.gather(
            *(self._unregister(address, header) for address in self.name_servers if address in self._pool.addresses)
        )

    async def _run(self) -> None:
        while True:
            wanted = self._wanted
            header = RegisterBrokerRequestHeader(
                broker_name=self._broker_name,
                broker_addr=self._address,
                cluster_name=self._cluster_name,
                ha_server_addr=self._ha_address(),
                broker_id=_MASTER_ID,
            )
            body = RegisterBrokerBody(topic_config_serialize_wrapper=self._topics(), filter_server_list=[]).encode()
            await asyncio.gather(*(self._register(address, header, body) for address in self.name_servers))
            self._done = wanted
            over = self._round
            if self._wanted != wanted:  # who waits for more waits for the next round
                self._round = asyncio.get_running_loop().create_future()
            over.set_result(None)
            if self._wanted == wanted:
                return

    async def _register(self, address: str, header: RegisterBrokerRequestHeader, body: bytes) -> None:
        try:
            answer = await self._pool.invoke(address, request(RequestCode.REGISTER_BROKER, header, body), _TIMEOUT_MS)
            if answer.code:
                raise remote_error(answer.code, answer.remark, address)
            if answer.body:
                self._on_order_topics(KVTable.decode(answer.body).table)
        except RocketMQError as error:
            log.warning("name server %s does not know broker %s now: %s", address, self._broker_name, error)

    async def _unregister(self, address: str, header: UnRegisterBrokerRequestHeader) -> None:
        try:
            await self._pool.invoke(address, request(RequestCode.UNREGISTER_BROKER, header), _UNREGISTER_TIMEOUT_MS)
        except (NetworkError, RequestTimeout) as error:
            log.info("name server %s was not told that broker %s stops: %s", address, self._broker_name, error)
