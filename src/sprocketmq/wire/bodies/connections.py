# SPDX-License-Identifier: Apache-2.0
"""Bodies about connected clients: codes 38, 203, 204, 300, 328, 345 and 353 (Java: ConsumerConnection, Connection, GroupList)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.heartbeat import SubscriptionData


class GetConsumerListByGroupResponseBody(Body):
    consumer_id_list: list[str] = []


class Connection(Body):
    """One connected client. ``language`` is a name, ``version`` an ordinal of MQVersion."""

    client_id: str
    client_addr: str
    language: str | None = None
    version: int = 0


class ConsumerConnection(Body):
    connection_set: list[Connection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


class ProducerConnection(Body):
    connection_set: list[Connection] = []


class GroupList(Body):
    group_list: list[str] = []


class ProducerInfo(Body):
    """One connected producer. ``remote_ip`` has Java's form of a socket address, ``/host:port``; ``last_update_timestamp`` is in ms."""

    client_id: str
    remote_ip: str = msgspec.field(name="remoteIP")
    language: str | None = None
    version: int = 0
    last_update_timestamp: int = 0


class ProducerTableInfo(Body):
    data: dict[str, list[ProducerInfo]] = {}


class QuerySubscriptionResponseBody(Body):
    """Body of the answer to QUERY_SUBSCRIPTION_BY_CONSUMER (345): the group's subscription to the topic, or None."""

    group: str
    topic: str
    subscription_data: SubscriptionData | None = None


class GroupForbidden(Body):
    group: str
    topic: str
    readable: bool
