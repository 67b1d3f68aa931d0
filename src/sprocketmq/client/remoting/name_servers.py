# SPDX-License-Identifier: Apache-2.0
"""The name servers of a client: a list of addresses, and what they know of topics and brokers.

Each client starts at a random place of the list, and stays there, because name servers may differ for a moment. After a failed
connection or a timeout the next one is tried; a refusal counts as an answer. Given as ``http://host:8080/rocketmq/nsaddr`` the
list comes from that address server before the first request, and again each two minutes (Java: DefaultTopAddressing,
fetchNameServerAddr); from the environment it is read again as often. A list that cannot be read, or is empty, changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from base64 import b64encode
from typing import Final

from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.remoting.server_kind import ServerKinds
from sprocketmq.client.settings.namesrv_addr import is_address_server, parse_addresses
from sprocketmq.core.produce.route_table import checked_route
from sprocketmq.errors import ConfigurationError, ConnectionLost, NetworkError, RequestNotServed, RequestTimeout
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.troubles import Troubles
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.requests.declaration import A, B, H, Request
from sprocketmq.wire.requests.name_servers import GET_BROKER_CLUSTER_INFO, GET_ROUTEINFO_BY_TOPIC

log = logging.getLogger("sprocketmq.client")

# MQClientInstance.startScheduledTask: the list is looked for again after 10 s, then each 2 minutes.
FIRST_REREAD_MS: Final = 10_000
REREAD_INTERVAL_MS: Final = 120_000
_ADDRESS_SERVER_TIMEOUT_S: Final = 3.0
_MAX_LIST_BYTES: Final = 64 * 1024
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_MOST_REDIRECTS: Final = 5


class NameServers:
    """Belongs to one loop. ``addresses``: the result of ``parse_addresses``. ``from_environment``: the list came from
    NAMESRV_ADDR, which ``reread`` reads again. ``behind_proxy``: whether the last route came from a proxy, so that the
    addresses in it are those of proxies."""

    def __init__(
        self,
        pool: ConnectionPool,
        addresses: list[str],
        timeout_ms: int = 3_000,
        troubles: Troubles | None = None,
        *,
        from_environment: bool = False,
    ) -> None:
        self._pool, self._timeout_ms, self._troubles = pool, timeout_ms, troubles or Troubles(log)
        self.kinds = ServerKinds(pool, timeout_ms)
        self.behind_proxy = False
        self._from_environment = from_environment
        self._server_url: str | None = None
        self._addresses: list[str] = []
        self._reading: asyncio.Task[None] | None = None
        self._take(addresses)
        self._chosen = random.randrange(max(1, len(self._addresses)))

    @property
    def addresses(self) -> list[str]:
        """The list as it is now; empty as long as an address server was not asked."""
        return list(self._addresses)

    async def known(self) -> list[str]:
        """The list; an address server is asked for it if it was not yet. Raises NetworkError (it gave none)."""
        if not self._addresses:
            await self._first_read(self._timeout_ms)
        return self.addresses

    @property
    def chosen(self) -> str:
        return self._addresses[self._chosen] if self._addresses else _shown(self._server_url)

    @property
    def is_fixed(self) -> bool:
        return self._server_url is None and not self._from_environment

    def replace(self, addresses: list[str]) -> None:
        """Use a new list; the chosen one is kept if it is still in the list."""
        if set(addresses) == set(self._addresses):
            return
        current = self.chosen
        log.info(
            "the name servers are %s now (before: %s)", ";".join(addresses), ";".join(self._addresses) or "not known"
        )
        self._addresses = list(addresses)
        self._chosen = (
            self._addresses.index(current) if current in self._addresses else random.randrange(len(self._addresses))
        )

    async def reread(self) -> None:
        """Read the list again from its source. If that fails, nothing changes and the log says so."""
        if self._from_environment and (text := os.environ.get("NAMESRV_ADDR")):
            try:
                self._take(parse_addresses(text))
            except ConfigurationError as error:
                sentence = "NAMESRV_ADDR was changed to an invalid value, the name servers stay as they are: %s"
                self._troubles.failed("NAMESRV_ADDR", sentence, error)
        if self._server_url is None:
            return
        try:
            # In a thread, because it is a blocking call; it is rare, and limited by its timeout.
            text = await asyncio.get_running_loop().run_in_executor(None, _first_line, self._server_url)
            found = parse_addresses(text)
            if is_address_server(text):
                raise ConfigurationError(f"it names another address server, {_shown(text)!r}")
        except (OSError, ValueError, ConfigurationError) as error:
            sentence = "the address server %s gave no list of name servers, the last one stays in use: %s"
            self._troubles.failed("address server", sentence, _shown(self._server_url), error, lasts=True)
        else:
            self.replace(found)
            self._troubles.over("address server", "the address server %s gives a list again", _shown(self._server_url))

    async def invoke(self, command: Command, timeout_ms: int) -> Command:
        """Send a request to the chosen name server, and after a failure to each other one once; ``timeout_ms`` is divided evenly
        among them. Raises NetworkError, RequestTimeout: of the last one tried."""
        now_s = asyncio.get_running_loop().time
        end_s = now_s() + timeout_ms / 1000
        if not self._addresses:
            await self._first_read(timeout_ms)
        failure: NetworkError | RequestTimeout | None = None
        for untried in range(len(self._addresses), 0, -1):
            address = self.chosen
            left_ms = max(1, int((end_s - now_s()) * 1000))
            try:
                return await self._asked(address, command, max(1, left_ms // untried))
            except (NetworkError, RequestTimeout) as error:
                failure = error
                if address == self.chosen:  # else another request has changed it already
                    self._chosen = (self._chosen + 1) % len(self._addresses)
                if len(self._addresses) > 1:
                    log.debug("name server %s did not answer (%s), trying %s", address, error, self.chosen)
        assert failure is not None
        raise failure

    async def _asked(self, address: str, command: Command, timeout_ms: int) -> Command:
        """Once more when a connection breaks that was there before: its server may have been away since, and a client without topics asks
        nothing that would have told. Each request to a name server may be repeated."""
        now_s = asyncio.get_running_loop().time
        began_s, was_there = now_s(), address in self._pool.addresses
        try:
            return await self._pool.invoke(address, command, timeout_ms)
        except ConnectionLost as error:
            if not was_there:
                raise
            lost = error
        left_ms = timeout_ms - int((now_s() - began_s) * 1000)
        try:
            if left_ms <= 0:
                raise lost
            return await self._pool.invoke(address, command, left_ms)
        except ConnectionLost:
            raise lost from None  # the other one was never heard, and may be taken for one of TLS
        finally:
            del lost  # its traceback holds this frame

    async def ask(self, asked: Request[H, A, B], header: H | None = None) -> Command:
        self.kinds.refuse_if_known(self.chosen, asked)
        return await self._successful(asked, await self.invoke(asked.command(header), self._timeout_ms))

    async def route(self, topic: str) -> bodies.TopicRouteData | None:
        """The route of ``topic``; None: there is no such topic. Raises ProtocolError for one that no cluster can have."""
        asked = GET_ROUTEINFO_BY_TOPIC
        answer = await self.invoke(asked.command(headers.GetRouteInfoRequestHeader(topic=topic)), self._timeout_ms)
        # A proxy puts this field into each of its answers (AbstractRemotingActivity.writeResponse), a name server into none.
        self.behind_proxy = props.MSG_REGION in answer.ext_fields
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return checked_route(topic, await answer_body(asked, await self._successful(asked, answer)))

    async def cluster_info(self) -> bodies.ClusterInfo:
        """All registered brokers. Raises RequestNotServed: a proxy does not list them."""
        return await answer_body(GET_BROKER_CLUSTER_INFO, await self.ask(GET_BROKER_CLUSTER_INFO))

    async def broker_addresses(self, broker_name: str) -> dict[int, str]:
        """The addresses of a broker by the numbers of its replicas; empty if it is not registered now. Each broker has a topic of its own
        name (TopicConfigManager), and a proxy tells the route of that."""
        try:
            known = (await self.cluster_info()).broker_addr_table.get(broker_name)
        except RequestNotServed:
            route = await self.route(broker_name)
            brokers = [] if route is None else route.broker_datas
            known = next((broker for broker in brokers if broker.broker_name == broker_name), None)
        return {} if known is None else known.broker_addrs

    async def _successful(self, asked: Request[H, A, B], answer: Command) -> Command:
        if answer.code != ResponseCode.SUCCESS:
            raise await self.kinds.refusal(self.chosen, asked, answer.code, answer.remark)
        return answer

    def _take(self, addresses: list[str]) -> None:
        if len(addresses) == 1 and is_address_server(addresses[0]):
            self._server_url = addresses[0]
            return
        self._server_url = None
        if self._addresses:
            self.replace(addresses)
        else:
            self._addresses = list(addresses)

    async def _first_read(self, timeout_ms: int) -> None:
        """Concurrent callers share one request; each waits for it until its own timeout."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self.reread())
        await asyncio.wait([self._reading], timeout=timeout_ms / 1000)
        if not self._addresses:
            raise NetworkError(
                f"the address server {_shown(self._server_url)} gave no list of name servers; "
                "it must answer with a line such as a:9876;b:9876"
            )


def _shown(url: str | None) -> str:
    """Without its password, for logs and errors."""
    begin, _, rest = str(url).partition("://")
    host, slash, path = rest.partition("/")
    return f"{begin}://{host.rpartition('@')[2]}{slash}{path}"


def _first_line(url: str, redirects: int = _MOST_REDIRECTS) -> str:
    """What the page says, as Java reads it (DefaultTopAddressing.clearNewLine). Raises OSError, ValueError (no answer with status
    200)."""
    # Imported here because few programs use an address server.
    from http.client import HTTPConnection, HTTPException, HTTPSConnection
    from urllib.parse import unquote, urljoin, urlsplit

    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    host = parts.netloc.rpartition("@")[2]
    user = unquote(parts.netloc.rpartition("@")[0])
    given = {"Authorization": f"Basic {b64encode(user.encode()).decode()}"} if user else {}
    connection = kind(host, timeout=_ADDRESS_SERVER_TIMEOUT_S)
    try:
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""), headers=given)
        answer = connection.getresponse()
        location = answer.getheader("Location")
        if answer.status in _REDIRECTS and location and redirects:
            return _first_line(urljoin(url, location), redirects - 1)
        if answer.status != 200:
            raise ValueError(f"it answered {answer.status} {answer.reason}")
        lines = answer.read(_MAX_LIST_BYTES).decode("utf-8", "replace").strip().splitlines()
    except HTTPException as error:
        raise ValueError(f"it does not speak HTTP: {error!r}") from error
    finally:
        connection.close()
    return lines[0].strip() if lines else ""
