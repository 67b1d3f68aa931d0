# SPDX-License-Identifier: Apache-2.0
"""Connected clients and their subscriptions (Java: AdminBrokerProcessor, ProducerManager)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.broker.handlers.table import serves
from sprocketmq.net.connection import Connection
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.bodies import Connection as ConnectionBody
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker


@serves(requests.consumers.GET_PRODUCER_CONNECTION_LIST)
def producer_connections(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    group = command.header(headers.GetProducerConnectionListRequestHeader).producer_group
    members = broker.producers.groups.get(group)
    if members is None:
        return response(command, ResponseCode.SYSTEM_ERROR, f"producer group {group} has no member")
    connected = [
        ConnectionBody(
            client_id=member.client_id,
            client_addr=member.connection.remote_address,
            language=member.language,
            version=member.version,
        )
        for member in members.values()
    ]
    return response(command, body=bodies.ProducerConnection(connection_set=connected).encode())


@serves(requests.consumers.GET_ALL_PRODUCER_INFO)
def all_producers(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    data = {
        group: [
            bodies.ProducerInfo(
                client_id=member.client_id,
                remote_ip=f"/{member.connection.remote_address}",
                language=member.language,
                version=member.version,
                last_update_timestamp=member.last_update_ms,
            )
            for member in members.values()
        ]
        for group, members in broker.producers.groups.items()
    }
    return response(command, body=bodies.ProducerTableInfo(data=data).encode())


@serves(requests.topics.QUERY_TOPIC_CONSUME_BY_WHO)
def groups_of_topic(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    topic = command.header(headers.QueryTopicConsumeByWhoRequestHeader).topic
    online = [name for name, group in broker.consumers.groups.items() if topic in group.subscriptions]
    groups = list(dict.fromkeys([*online, *broker.offsets.groups_of(topic)]))
    return response(command, body=bodies.GroupList(group_list=groups).encode())


@serves(requests.topics.QUERY_TOPICS_BY_CONSUMER)
def topics_of_group(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    group = command.header(headers.QueryTopicsByConsumerRequestHeader).group
    body = bodies.TopicList(topic_list=broker.offsets.topics_of(group), broker_addr=broker.address)
    return response(command, body=body.encode())


@serves(requests.topics.QUERY_SUBSCRIPTION_BY_CONSUMER)
def subscription_of_group(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.QuerySubscriptionByConsumerRequestHeader)
    group = broker.consumers.get(header.group)
    subscription = None if group is None else group.subscriptions.get(header.topic)
    body = bodies.QuerySubscriptionResponseBody(group=header.group, topic=header.topic, subscription_data=subscription)
    return response(command, body=body.encode())
