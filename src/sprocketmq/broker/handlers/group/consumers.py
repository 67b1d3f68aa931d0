# SPDX-License-Identifier: Apache-2.0
"""Membership: heartbeats and what tools ask about members (Java: ClientManageProcessor, ConsumerManageProcessor).

A group's first heartbeat creates its retry topic, so that its members find the route. In version 2 of 5.x a client omits unchanged
subscriptions until an answer says IS_SUB_CHANGE. A filter other than tags is compiled when its heartbeat arrives; CHECK_CLIENT_CONFIG
reports its errors.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from sprocketmq.broker.handlers.limits import expression_problem, heartbeat_limit_problem
from sprocketmq.broker.handlers.messages.pull_checks import no_property_filter
from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.lazy_imports import Library, once_loaded
from sprocketmq.broker.security.name_checks import heartbeat_problem
from sprocketmq.broker.settings.config import BrokerConfig
from sprocketmq.broker.tables.consumers import CONSUME_ACTIVELY, ConsumerGroup, Member
from sprocketmq.core.group.subscription import is_tag_type
from sprocketmq.core.resource_names import retry_topic, topic_name_problem
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.bodies import Connection as ConnectionBody
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_UNIT_SUB = 2  # Java: TopicSysFlag
_LONG_BYTES: Final = 16 * 1024
_LAST_HEARTBEAT: Final = "last heartbeat"  # a key of a connection's state


class _LongHeartbeat(Struct):
    """The last long heartbeat of a connection. One of 3,000 topics takes 7 ms, and mostly is the same as the one before."""

    digest: bytes
    config: BrokerConfig
    member: Member
    consumer_groups: list[tuple[ConsumerGroup, int]]
    producer_groups: list[str]

    def says_no_more(self, broker: Broker, digest: bytes) -> bool:
        """Whether the same heartbeat would change nothing but the time of the member."""
        member, connection = self.member, self.member.connection
        return (
            digest == self.digest
            and broker.config is self.config
            and all(
                group.members.get(connection) is member
                and group.changes == changes
                and group.name in broker.groups.table
                and retry_topic(group.name) in broker.topics.table
                for group, changes in self.consumer_groups
            )
            and all(broker.producers.groups.get(group, {}).get(connection) is member for group in self.producer_groups)
        )


def _names_sql92(command: Command) -> bool:
    return b"SQL92" in bytes(command.body)


@serves(requests.consumers.HEART_BEAT)
@once_loaded(Library.SQL92, _names_sql92)
def heart_beat(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    digest = b""
    if len(command.body) > _LONG_BYTES:
        digest = blake2b(command.body, digest_size=16).digest()
        known = connection.state.get(_LAST_HEARTBEAT)
        if known is not None and known.says_no_more(broker, digest):
            known.member.last_update_ms = broker.clock.steady_ms()
            return response(
                command, header=headers.HeartbeatResponseHeader(is_support_heart_beat_v2=True, is_sub_change=True)
            )
    data = bodies.HeartbeatData.of_request(command.body)
    problem = heartbeat_problem(data)
    if problem is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, problem)
    problem = heartbeat_limit_problem(broker, connection, data)
    if problem is not None:
        return response(command, ResponseCode.SYSTEM_ERROR, problem)
    connection.state["client_id"] = data.client_id
    member = Member(connection, data.client_id, command.language, command.version, broker.clock.steady_ms())
    fingerprint = data.heartbeat_fingerprint
    without_sub = data.without_sub and fingerprint != 0
    changed = fingerprint == 0  # clients of version 1 always have to send everything
    for consumer in data.consumer_data_set:
        if broker.config.reject_pull_consumer_enable and consumer.consume_type == CONSUME_ACTIVELY:
            continue
        group = broker.groups.find(consumer.group_name, now_ms)
        if group is None:  # as in Java: the other groups of the client still count; pulls of this one are answered 26
            continue
        topics = (broker.topics.get(subscription.topic) for subscription in consumer.subscription_data_set)
        retry = retry_topic(consumer.group_name)
        if topic_name_problem(retry) is None:  # else it is a group of an older store with a name that is too long now
            broker.topics.create_if_absent(
                retry,
                max(1, group.retry_queue_nums),
                now_ms,
                order=any(topic is not None and topic.order for topic in topics),
                sys_flag=_UNIT_SUB if consumer.unit_mode else 0,
            )
        notify = group.notify_consumer_ids_changed_enable
        if broker.consumers.subscriptions_changed(consumer.group_name, fingerprint, without_sub=without_sub):
            changed = True
        broker.consumers.register(member, consumer, without_sub=without_sub, notify=notify)
        if not without_sub:
            broker.filters.register(consumer.group_name, consumer.subscription_data_set, now_ms)
    for producer in data.producer_data_set:
        broker.producers.register(member, producer.group_name)
    if digest and fingerprint == 0:
        groups = [broker.consumers.get(consumer.group_name) for consumer in data.consumer_data_set]
        if all(groups):
            connection.state[_LAST_HEARTBEAT] = _LongHeartbeat(
                digest,
                broker.config,
                member,
                [(group, group.changes) for group in groups if group is not None],
                [producer.group_name for producer in data.producer_data_set],
            )
    return response(
        command, header=headers.HeartbeatResponseHeader(is_support_heart_beat_v2=True, is_sub_change=changed)
    )


@serves(requests.consumers.UNREGISTER_CLIENT)
def unregister_client(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.UnregisterClientRequestHeader)
    if header.producer_group:
        broker.producers.unregister(connection, header.producer_group)
    if header.consumer_group:
        group = broker.groups.table.get(header.consumer_group)
        notify = group is None or group.notify_consumer_ids_changed_enable
        broker.consumers.unregister(connection, header.consumer_group, notify=notify)
    return response(command)


@serves(requests.consumers.GET_CONSUMER_LIST_BY_GROUP)
def consumer_list(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.GetConsumerListByGroupRequestHeader)
    group = broker.consumers.get(header.consumer_group)
    if group is None:
        remark = f"consumer group {header.consumer_group} has no member"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    body = bodies.GetConsumerListByGroupResponseBody(consumer_id_list=group.client_ids)
    return response(command, body=body.encode())


@serves(requests.consumers.CHECK_CLIENT_CONFIG)
@once_loaded(Library.SQL92, _names_sql92)
def check_client_config(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    """Check the filter of a consumer that starts (clients send this only for filters other than tags)."""
    body = bytes(command.body)
    subscription = None
    if body not in (b"", b"null"):
        subscription = bodies.CheckClientConfigRequestBody.of_request(body).subscription_data
    if subscription is None or is_tag_type(subscription.expression_type):
        return response(command)
    problem = expression_problem(broker, subscription.sub_string)
    if problem is not None:
        return response(command, ResponseCode.SUBSCRIPTION_PARSE_FAILED, problem)
    if not broker.config.enable_property_filter:
        return response(command, ResponseCode.SYSTEM_ERROR, no_property_filter(subscription.expression_type))
    try:
        broker.filters.compiled(subscription.expression_type, subscription.sub_string)
    except ConfigurationError as error:
        return response(command, ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
    return response(command)


@serves(requests.consumers.GET_CONSUMER_CONNECTION_LIST)
def consumer_connections(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.GetConsumerConnectionListRequestHeader)
    group = broker.consumers.get(header.consumer_group)
    if group is None:
        remark = f"consumer group {header.consumer_group} is not online"
        return response(command, ResponseCode.CONSUMER_NOT_ONLINE, remark)
    body = bodies.ConsumerConnection(
        connection_set=[
            ConnectionBody(
                client_id=member.client_id,
                client_addr=member.connection.remote_address,
                language=member.language,
                version=member.version,
            )
            for member in group.members.values()
        ],
        subscription_table=group.subscriptions,
        consume_type=group.consume_type,
        message_model=group.message_model,
        consume_from_where=group.consume_from_where,
    )
    return response(command, body=body.encode())
