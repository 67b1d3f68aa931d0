# SPDX-License-Identifier: Apache-2.0
"""What kind of server answers at an address, for requests that it does not serve.

A proxy (Apache's since 5.0, and the endpoint of managed services) is name server and broker in one address, and serves some of the
requests of both (RemotingProtocolServer.registerRemotingServer). GET_BROKER_CLUSTER_INFO is served by a name server alone,
GET_ROUTEINFO_BY_TOPIC by a proxy, too; a broker answers both with code 3.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from sprocketmq.core.resource_names import SELF_TEST_TOPIC
from sprocketmq.errors import (
    ConfigurationError,
    NetworkError,
    RequestNotServed,
    RequestTimeout,
    RocketMQError,
    remote_error,
)
from sprocketmq.net.address import broker_given_as_name_server, name_server_given_as_broker
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.wire import headers, requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.requests.declaration import AnyRequest, Peer

_INSTEAD: Final = "use the address of a name server of its cluster, or the console of the service"
_READ: Final = "read its queue from an offset or a time on"
_INSTEAD_OF: Final = {
    RequestCode.QUERY_MESSAGE: _READ,
    RequestCode.VIEW_MESSAGE_BY_ID: _READ,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: f"name each topic, or {_INSTEAD}",
    RequestCode.SEND_REPLY_MESSAGE: "use a topic for the answers, or connect to the brokers",
    RequestCode.SEND_REPLY_MESSAGE_V2: "use a topic for the answers, or connect to the brokers",
}


def not_served(address: str, asked: AnyRequest, instead: str | None = None) -> RequestNotServed:
    instead = instead or _INSTEAD_OF.get(asked.code, _INSTEAD)
    sentence = f"the proxy at {address} does not serve {asked.name}; {instead}"
    return RequestNotServed(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, sentence, address)


class ServerKind(Enum):
    BROKER = "broker"
    NAME_SERVER = "name server"
    PROXY = "proxy"


class ServerKinds:
    """The kinds of the servers of one client. A server is asked when it has refused a request, and not again; a proxy is not sent
    again what it does not serve."""

    def __init__(self, pool: ConnectionPool, timeout_ms: int) -> None:
        self._pool, self._timeout_ms = pool, timeout_ms
        self._known: dict[str, ServerKind] = {}
        self._not_served: set[tuple[str, int]] = set()  # address of a proxy and code of a request

    async def refusal(self, address: str, asked: AnyRequest, code: int, remark: str | None) -> RocketMQError:
        if code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return remote_error(code, remark, address)
        kind = await self.kind(address)
        if kind is ServerKind.PROXY:
            self._not_served.add((address, asked.code))
            return not_served(address, asked)
        if kind is ServerKind.NAME_SERVER and asked.served_by is Peer.BROKER:
            return ConfigurationError(name_server_given_as_broker(address))
        if kind is ServerKind.BROKER and asked.served_by is Peer.NAME_SERVER:
            return ConfigurationError(broker_given_as_name_server(address))
        return remote_error(code, remark, address)

    def refuse_if_known(self, address: str, asked: AnyRequest) -> None:
        if (address, asked.code) in self._not_served:
            raise not_served(address, asked)

    async def kind(self, address: str) -> ServerKind | None:
        """None when the server does not answer any more."""
        if address in self._known:
            return self._known[address]
        route = requests.name_servers.GET_ROUTEINFO_BY_TOPIC
        try:
            if not await self._serves(address, route.command(headers.GetRouteInfoRequestHeader(topic=SELF_TEST_TOPIC))):
                kind = ServerKind.BROKER
            elif await self._serves(address, requests.name_servers.GET_BROKER_CLUSTER_INFO.command()):
                kind = ServerKind.NAME_SERVER
            else:
                kind = ServerKind.PROXY
        except (NetworkError, RequestTimeout):
            return None
        self._known[address] = kind
        return kind

    async def _serves(self, address: str, command: Command) -> bool:
        answer = await self._pool.invoke(address, command, self._timeout_ms)
        return answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
