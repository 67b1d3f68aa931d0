"""Clients that are connected: codes 38, 203, 204, 300, 328, 345 and 353 (Java: ConsumerConnection, Connection, GroupList)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.heartbeat import SubscriptionData

__all__ = [
    "Connection",
    "ConsumerConnection",
    "GetConsumerListByGroupResponseBody",
    "GroupForbidden",
    "GroupList",
    "ProducerConnection",
    "ProducerInfo",
    "ProducerTableInfo",
    "QuerySubscriptionResponseBody",
]


class GetConsumerListByGroupResponseBody(Body):
    """Answer to code 38: client ids, in no particular order."""

    consumer_id_list: list[str] = []


class Connection(Body):
    """One connected client. ``language`` by name, ``version`` an MQVersion ordinal."""

    client_id: str
    client_addr: str
    language: str | None = None
    version: int = 0


class ConsumerConnection(Body):
    """Answer to code 203: the group as the broker sees it."""

    connection_set: list[Connection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


class ProducerConnection(Body):
    """Answer to code 204."""

    connection_set: list[Connection] = []


class GroupList(Body):
    """Answer to code 300: the groups that consume a topic."""

    group_list: list[str] = []


class ProducerInfo(Body):
    """One connected producer. ``remote_ip`` as Java writes a socket address: ``/host:port``; ``last_update_timestamp`` in ms."""

    client_id: str
    remote_ip: str = msgspec.field(name="remoteIP")
    language: str | None = None
    version: int = 0
    last_update_timestamp: int = 0


class ProducerTableInfo(Body):
    """Answer to code 328: producers by group."""

    data: dict[str, list[ProducerInfo]] = {}


class QuerySubscriptionResponseBody(Body):
    """Answer to code 345: what the group subscribes to in the topic, None when it does not."""

    group: str
    topic: str
    subscription_data: SubscriptionData | None = None


class GroupForbidden(Body):
    """Answer to code 353: whether the group may read the topic."""

    group: str
    topic: str
    readable: bool
