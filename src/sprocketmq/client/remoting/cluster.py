# SPDX-License-Identifier: Apache-2.0
"""The servers of one cluster, as one client knows them, and every request that is sent (Java: MQClientAPIImpl).

Where a broker is: ``master`` and ``broker`` ask for what is not known or too old. ``routes.table.master_address`` says what is known,
without asking. Sends, which continue in the order of their calls, wait for ``routes.master_address``.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import Any, Final, TypeVar

from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.remoting.name_servers import NameServers
from sprocketmq.client.remoting.outages import Outages
from sprocketmq.client.remoting.retrying import retrying
from sprocketmq.client.remoting.routes import Routes
from sprocketmq.core.produce.route_table import MASTER_ID, BrokerAddress, find_broker
from sprocketmq.errors import NetworkError, RocketMQError
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Buffer, Command
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.requests.declaration import A, B, H, Request

T = TypeVar("T")

_QUIET_S: Final = 3.0  # how long requests are retried without a word


class Cluster:
    """Belongs to one client and its loop. ``timeout_ms``: of a request, if the caller names no other. ``are_refreshed``: see Routes.
    ``invoke``: sends a command to an address and returns the answer, whatever its code; the pool's, or that of a Reach with its limits.

    The methods that ask send one declared request to the server ``at`` an address (default: the chosen name server, or the next one that
    answers). They raise RemoteError (or a subclass) for every answer but SUCCESS, and NetworkError or RequestTimeout if there is none.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        addresses: list[str],
        timeout_ms: int = 3_000,
        outages: Outages | None = None,
        *,
        from_environment: bool = False,
        are_refreshed: bool = False,
    ) -> None:
        self.pool, self.timeout_ms = pool, timeout_ms
        self.invoke: Callable[[str, Command, int], Awaitable[Command]] = pool.invoke
        self.outages = Outages() if outages is None else outages
        self.name_servers = NameServers(
            pool, addresses, timeout_ms, self.outages.troubles, from_environment=from_environment
        )
        self.kinds = self.name_servers.kinds
        self.routes = Routes(self.name_servers, self.outages, are_refreshed=are_refreshed)
        # Of ``client.remoting.pulls``: by broker behind a proxy; and by address, as brokers of another version may not read the expression.
        self.pulls_at_once: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.accepted_sql92: set[tuple[str, str]] = set()
        self.retry_timeout_ms, self.retry_option = 60_000, "retry_timeout_ms"  # the user's name for it

    async def aclose(self) -> None:
        await self.routes.aclose()
        await self.pool.aclose()

    @property
    def behind_proxy(self) -> bool:
        return self.name_servers.behind_proxy

    # -- asking ----------------------------------------------------------------------------------------------------------------

    async def ask(
        self,
        asked: Request[H, A, B],
        header: H | None = None,
        *,
        at: str | None = None,
        body: Buffer = b"",
        timeout_ms: int | None = None,
    ) -> Command:
        if at is None:
            return await self.name_servers.ask(asked, header)
        self.kinds.refuse_if_known(at, asked)
        answer = await self.invoke(at, asked.command(header, body), timeout_ms or self.timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            raise await self.kinds.refusal(at, asked, answer.code, answer.remark)
        return answer

    async def ask_header(
        self, asked: Request[H, A, B], header: H | None = None, *, at: str | None = None, timeout_ms: int | None = None
    ) -> A:
        return asked.answer_header_in(await self.ask(asked, header, at=at, timeout_ms=timeout_ms))

    async def ask_body(
        self,
        asked: Request[H, A, B],
        header: H | None = None,
        *,
        at: str | None = None,
        body: Buffer = b"",
        timeout_ms: int | None = None,
    ) -> B:
        return await answer_body(asked, await self.ask(asked, header, at=at, body=body, timeout_ms=timeout_ms))

    async def ask_queue(
        self,
        asked: Request[H, A, B],
        queue: MessageQueue,
        *,
        at: str | None = None,
        or_replica: bool = False,
        **fields: Any,
    ) -> A:
        """The header of the answer to a request about a queue. ``at``: default: the queue's ``broker``. ``fields``: the other fields of the
        request's header."""
        if at is None:
            at = (await self.broker(queue.broker_name, queue.topic, or_replica=or_replica)).address
        return asked.answer_header_in(await self.ask(asked, queue_header(asked, queue, **fields), at=at))

    async def send_oneway(
        self, asked: Request[H, A, B], header: H | None = None, *, at: str, body: Buffer = b""
    ) -> None:
        await self.pool.invoke_oneway(at, asked.command(header, body, oneway=True))

    async def retrying(
        self, ask: Callable[[], Awaitable[T]], max_retry_ms: int | None = None, *, what: str = "trying"
    ) -> T:
        """Call ``ask`` until it succeeds or fails for good; before each further try the routes are forgotten. ``max_retry_ms``: if
        less than ``retry_timeout_ms``. ``what``: what the log says of it after some seconds."""
        now_s = asyncio.get_running_loop().time
        quiet_until_s = now_s() + _QUIET_S

        def failed(error: RocketMQError, left_s: float) -> None:
            if now_s() >= quiet_until_s:
                sentence = "%s for %d s more (%s): %s"
                cause = "requests", getattr(error, "address", "")
                self.outages.troubles.failed(cause, sentence, what, left_s, self.retry_option, error)
            self.routes.forget()  # a broker may have moved

        within_ms = self.retry_timeout_ms if max_retry_ms is None else min(max_retry_ms, self.retry_timeout_ms)
        return await retrying(ask, within_ms, failed=failed)

    # -- where -----------------------------------------------------------------------------------------------------------------

    async def masters(self) -> dict[str, str]:
        """The addresses of all registered masters by broker name. Raises RequestNotServed: a proxy does not list them."""
        brokers = (await self.name_servers.cluster_info()).broker_addr_table
        return {name: data.broker_addrs[MASTER_ID] for name, data in brokers.items() if MASTER_ID in data.broker_addrs}

    async def master(self, broker_name: str, topic: str | None = None) -> str:
        """The address of a broker's master; ``topic``: whose route may tell it without a request. Replicas and acting masters do not
        count: they may be behind, and answer as if what they lack did not exist. Raises NetworkError (there is no master now)."""
        return (await self.broker(broker_name, topic)).address

    async def broker(self, broker_name: str, topic: str | None = None, *, or_replica: bool = False) -> BrokerAddress:
        """As ``master``. ``or_replica``: while there is no master, the replica with the lowest number."""
        first = None if topic is None else await self.routes.recent(topic)
        # Routes of other topics name the broker, too.
        for route in chain(() if first is None else (first,), self.routes.recent_routes()):
            found = find_broker(route, broker_name)
            if found is not None and (or_replica or not found.is_slave):
                return found
        registered = await self.name_servers.broker_addresses(broker_name)
        if MASTER_ID in registered:
            return BrokerAddress(registered[MASTER_ID], MASTER_ID)
        if not registered:
            servers = ";".join(self.name_servers.addresses)
            sentence = f"broker {broker_name!r} is not registered with {servers} now; is it running?"
            raise NetworkError(sentence, self.outages.address_of(broker_name))
        if not or_replica:
            raise NetworkError(
                f"broker {broker_name!r} has no master now, only replicas, which may be behind it; start its master"
            )
        number, address = min(registered.items())
        return BrokerAddress(address, number)


def queue_header(asked: Request[H, A, B], queue: MessageQueue, **fields: Any) -> H:
    """The header of a request about a queue. All brokers behind a proxy have its address: it forwards the request to the one that ``bname``
    names (AbstractRemotingActivity.request)."""
    assert asked.header is not None
    return asked.header(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name, **fields)
