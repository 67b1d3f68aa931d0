"""Who is connected: codes 38, 203, 204 and 300 (Java: GetConsumerListByGroupResponseBody, ConsumerConnection, Connection)."""

from __future__ import annotations

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.heartbeat import SubscriptionData

__all__ = ["Connection", "ConsumerConnection", "GetConsumerListByGroupResponseBody", "GroupList", "ProducerConnection"]


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
