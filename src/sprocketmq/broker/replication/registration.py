# SPDX-License-Identifier: Apache-2.0
"""Registration of the broker and its topics at the name servers (Java: BrokerController.registerBrokerAll, BrokerOuterAPI).

The broker sends the whole topic table at the start, every 30 s and after changes; one that comes during a registration is sent after it. A
name server that cannot be reached is tried again next time, soon while none can be reached.

A frame has at most 16 MiB, so a large table is sent in parts (``enableSplitRegistration``, enabled by default here). Each has its own data
version: name servers of 4.9 ignore a second one of the same version, and those of 5.x take only unknown topics. (Apache uses one version.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.broker.service import Periodic
from sprocketmq.core.produce.route_table import MASTER_ID, PERM_READ_WRITE
from sprocketmq.errors import (
    ConfigurationError,
    NetworkError,
    RequestTimeout,
    RocketMQError,
    remote_error,
)
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.clock import Timer
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import DataVersion, KVTable, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.headers import RegisterBrokerRequestHeader, UnRegisterBrokerRequestHeader

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker
    from sprocketmq.broker.settings.config import BrokerConfig
    from sprocketmq.broker.tables.topics import TopicTable

log = logging.getLogger("sprocketmq.broker")

_TIMEOUT_MS: Final = 6_000  # BrokerConfig.registerBrokerTimeoutMills of 4.9
_UNREGISTER_TIMEOUT_MS: Final = 3_000
_FIRST_RETRY_MS: Final = 1_000  # then twice as long each time, until it is the period


class Registration:
    """Keeps all name servers informed. ``start`` registers once before it returns; ``changed`` after each change of topics."""

    def __init__(self, broker: Broker) -> None:
        self._broker, self._clock, self.name_servers = broker, broker.clock, broker.name_servers
        self._cluster_name, self._broker_name = broker.config.broker_cluster_name, broker.config.broker_name
        self._period_ms = broker.config.register_namesrv_period_ms
        self._task: asyncio.Task[None] | None = None
        self._round: asyncio.Future[None]  # done when the present registration ends; made with the task
        self._wanted = self._done = 0  # changes so far, and how many of them the last finished registration had
        self._periodic: Periodic | None = None
        self._retry: Timer | None = None
        self._retry_ms = _FIRST_RETRY_MS

    async def start(self) -> None:
        if not self.name_servers:
            self._broker.ready.set()
            return
        self._periodic = Periodic(self._clock, self._period_ms, self.changed)
        self.changed()
        await self.finished()

    def changed(self) -> None:
        if not self.name_servers:
            return
        self._wanted += 1
        if self._task is None or self._task.done():
            loop = asyncio.get_running_loop()
            self._round = loop.create_future()
            self._task = loop.create_task(self._run())
            self._task.add_done_callback(self._ended)

    async def finished(self) -> None:
        """Wait until every reachable name server knows the present topics; registers if no registration is under way."""
        if self._task is None or self._task.done():
            self.changed()
        wanted = self._wanted
        while self._done < wanted and self._task is not None and not self._task.done():
            await asyncio.shield(self._round)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task is self._task and not self._round.done():  # it was cancelled within its round
            self._round.set_result(None)

    async def stop(self) -> None:
        """Unregister everywhere, so that clients stop connecting at once and not after 120 s."""
        if self._periodic is not None:
            self._periodic.cancel()
        if self._retry is not None:
            self._retry.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        pool = self._broker.pool
        if pool is None:  # the start failed before there was anything to register
            return
        header = UnRegisterBrokerRequestHeader(
            broker_name=self._broker_name,
            broker_addr=self._broker.address,
            cluster_name=self._cluster_name,
            broker_id=MASTER_ID,
        )
        # Only over open connections: an unreachable name server must not delay the stop.
        await asyncio.gather(
            *(self._unregister(pool, address, header) for address in self.name_servers if address in pool.addresses)
        )

    async def _run(self) -> None:
        while True:
            wanted = self._wanted
            parts = _Parts(registration_parts(self._broker.config, self._broker.topics))
            known = await asyncio.gather(*(self._register(address, parts) for address in self.name_servers))
            self._retry_soon(is_known=any(known))
            self._done = wanted
            over = self._round
            if self._wanted != wanted:  # callers that wait for later changes wait for the next round
                self._round = asyncio.get_running_loop().create_future()
            over.set_result(None)
            if self._wanted == wanted:
                return

    def _retry_soon(self, *, is_known: bool) -> None:
        if self._retry is not None:
            self._retry.cancel()
        if is_known:
            self._retry, self._retry_ms = None, _FIRST_RETRY_MS
            self._broker.ready.set()
        elif self._retry_ms < self._period_ms:  # else the next round of the period is soon enough
            self._retry = self._clock.call_later(self._retry_ms, self.changed)
            self._retry_ms *= 2

    async def _register(self, address: str, parts: _Parts) -> bool:
        header = RegisterBrokerRequestHeader(
            broker_name=self._broker_name,
            broker_addr=self._broker.address,
            cluster_name=self._cluster_name,
            ha_server_addr=self._broker.ha_address,
            broker_id=MASTER_ID,
            is_part=True if parts.are_many else None,
        )
        pool, number = self._broker.pool, 0
        assert pool is not None
        try:
            while (body := parts.get(number)) is not None:
                asked = requests.name_servers.REGISTER_BROKER.command(header, body)
                answer = await pool.invoke(address, asked, _TIMEOUT_MS)
                if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    sentence = (
                        f"{address} is a broker or a proxy, not a name server; name servers are usually at port 9876"
                    )
                    raise ConfigurationError(sentence)
                if answer.code:
                    raise remote_error(answer.code, answer.remark, address)
                number += 1
            if answer.body:
                self._broker.topics.mark_ordered(KVTable.decode(answer.body).table, self._clock.now_ms())
        except RocketMQError as error:
            sentence = "name server %s does not know broker %s now, clients that know it go on: %s"
            self._broker.troubles.failed(address, sentence, address, self._broker_name, error, lasts=True)
            return False
        self._broker.troubles.over(address, "name server %s knows broker %s now", address, self._broker_name)
        return True

    async def _unregister(self, pool: ConnectionPool, address: str, header: UnRegisterBrokerRequestHeader) -> None:
        try:
            await pool.invoke(address, requests.name_servers.UNREGISTER_BROKER.command(header), _UNREGISTER_TIMEOUT_MS)
        except (NetworkError, RequestTimeout) as error:
            log.info("name server %s was not told that broker %s stops: %s", address, self._broker_name, error)


class _Parts:
    """The bodies of one registration, each made when the first name server needs it."""

    def __init__(self, parts: Iterator[TopicConfigSerializeWrapper]) -> None:
        self._rest, self._bodies = parts, list[bytes]()
        self._ahead = next(parts, None)
        self.get(0)

    @property
    def are_many(self) -> bool:
        return self._ahead is not None or len(self._bodies) > 1

    def get(self, number: int) -> bytes | None:
        if number == len(self._bodies) and self._ahead is not None:
            part, self._ahead = self._ahead, next(self._rest, None)
            if len(self._bodies):
                part.data_version = part_version(part.data_version, len(self._bodies))
            self._bodies.append(RegisterBrokerBody(topic_config_serialize_wrapper=part, filter_server_list=[]).encode())
        return self._bodies[number] if number < len(self._bodies) else None


def part_version(version: DataVersion, number: int) -> DataVersion:
    """A version that differs from those of the other parts, in the time: name servers of 5.x read 32 bits of a counter."""
    return DataVersion(version.counter, version.state_version, version.timestamp + number)


def registration_parts(config: BrokerConfig, topics: TopicTable) -> Iterator[TopicConfigSerializeWrapper]:
    """The topics for name servers: if the whole broker may not be written to, no topic may (Java: registerBrokerAll)."""
    permission = config.broker_permission
    size = config.split_registration_size if config.enable_split_registration else max(1, len(topics.table))
    if permission == PERM_READ_WRITE:
        return parts_of(topics.table, topics.data_version, size)

    def announced(topic: TopicConfig) -> TopicConfig:
        return msgspec.structs.replace(topic, perm=topic.perm & permission)

    return parts_of(topics.table, topics.data_version, size, announced)


def parts_of(
    table: Mapping[str, TopicConfig],
    data_version: DataVersion,
    size: int,
    announced: Callable[[TopicConfig], TopicConfig] = lambda topic: topic,
) -> Iterator[TopicConfigSerializeWrapper]:
    """``table`` in parts of ``size`` topics, at least one part; each is read when it is needed. ``announced`` converts a topic."""
    names = list(table)
    for at in range(0, max(1, len(names)), size):
        found = {name: announced(table[name]) for name in names[at : at + size] if name in table}
        if found or not at:
            yield TopicConfigSerializeWrapper(
                topic_config_table=found, data_version=msgspec.structs.replace(data_version)
            )
